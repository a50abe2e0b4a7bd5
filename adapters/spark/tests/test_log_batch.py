"""Logs that are read as a batch, without Spark: what the options leave to be read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from rstreams_spark._logs import batch
from rstreams_spark._logs import link as links
from rstreams_spark._logs.batch import LogBatchReader
from rstreams_spark._logs.logs import Tail
from rstreams_spark._options import SourceOptions
from rstreams_spark._schema import source_schema

from adapters.spark.tests.test_log_ranges import Numbered, opened
from adapters.spark.tests.test_log_stream import PlayedLogs, PlayedSurvey, part
from rstreams import Node
from rstreams.errors import ConfigError
from rstreams.net.dialects import RStreamsNode

Read = Callable[..., list[tuple[str, int, int]]]

AT = datetime(2026, 11, 22, 8, tzinfo=UTC)


class TimedLogs(PlayedLogs):
    """Played logs with a message in each minute from `AT` on."""

    async def offset_at(self, tail: Tail, at: datetime) -> int:
        return min(max(int((at - AT) / timedelta(minutes=1)), tail.first), tail.end)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Return a function that returns the ranges of a read."""

    def run(**given: str) -> list[tuple[str, int, int]]:
        logs = TimedLogs(part(0, 100), part(1, 200, first=50), part(2, 300))
        monkeypatch.setattr(batch, "Survey", lambda options: PlayedSurvey(options, logs))
        address = {} if "addresses" in given else {"address": "a"}
        options = SourceOptions.parse({"url": "amqp://127.0.0.1", **address, **given})
        parts: Any = LogBatchReader(options, source_schema(("offset",), options.body)).partitions()
        return [(each.address, each.first, each.end) for each in parts]

    return run


def test_all_is_read_without_options(read: Read) -> None:
    assert read() == [("a-0", 0, 100), ("a-1", 50, 200), ("a-2", 0, 300)]


def test_options_choose_partitions_offsets_and_times(read: Read) -> None:
    given = {
        "startingTimestamp": f"{AT + timedelta(minutes=60):%Y-%m-%dT%H:%MZ}",
        "endingOffsets": '{"a": {"0": 80, "1": 60, "2": 240}}',
        "minPartitions": "4",
    }
    assert read(**given) == [
        ("a-0", 60, 80),
        ("a-2", 60, 105),
        ("a-2", 105, 150),
        ("a-2", 150, 195),
        ("a-2", 195, 240),
    ]


@pytest.mark.parametrize("fails", [False, True])
def test_a_read_that_begins_at_a_message_that_is_gone(read: Read, *, fails: bool) -> None:
    given = {"startingOffsets": '{"a": {"0": 99, "1": 3, "2": "latest"}}', "failOnDataLoss": str(fails).lower()}
    if fails:
        with pytest.raises(ConfigError, match=r"^option startingOffsets: a/1 has no offset 3, there are 50 to 200"):
            read(**given)
    else:
        assert read(**given) == [("a-0", 99, 100), ("a-1", 50, 200)]


def test_a_read_that_ends_before_it_begins_is_refused(read: Read) -> None:
    given = {"startingTimestamp": f"{AT + timedelta(minutes=90):%Y-%m-%dT%H:%MZ}", "endingOffsets": "earliest"}
    with pytest.raises(ConfigError, match="the end of a/0, offset 0, is before its begin, offset 90"):
        read(**given)


def test_a_log_of_a_list_that_is_not_there_is_refused(read: Read) -> None:
    with pytest.raises(ConfigError, match=r"option addresses: there is no log 'b'; there are a/0, a/1, a/2$"):
        read(addresses="a, b")


async def test_a_task_that_stops_early_has_requested_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a `limit`."""
    monkeypatch.setattr(RStreamsNode, "offset", lambda _self, _offset: {})  # a peer that has none
    publisher = Numbered(range(100_000))
    async with Node() as node:
        node.serve("numbered", publisher)
        async with opened(node) as to:
            reader = to.reader(0, 100_000, "numbered")
            with trio.fail_after(30):
                rows = await reader.part()
            reader.leave()
    assert sum(each.num_rows for each in rows) > 0
    assert publisher.sent < links.FIRST_WINDOW + links.PACK_ITEMS
