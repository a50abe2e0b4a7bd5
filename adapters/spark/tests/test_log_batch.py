"""Logs that are read as a batch, without Spark: what filters and options leave to be read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from rstreams_spark._logs import batch
from rstreams_spark._logs import link as links
from rstreams_spark._logs.batch import CLOCKS_DIFFER, FilteredLogReader
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
P = ("partition",)
O = ("offset",)  # noqa: E741 - beside P
T = ("timestamp",)


class TimedLogs(PlayedLogs):
    """Played logs with a message in each minute from `AT` on."""

    async def offset_at(self, tail: Tail, at: datetime) -> int:
        return min(max(int((at - AT) / timedelta(minutes=1)), tail.first), tail.end)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """Return a function that returns the ranges of a read with filters and options, and keeps what is left to Spark."""

    def run(*filters: Filter, left: list[Filter] | None = None, **given: str) -> list[tuple[str, int, int]]:
        logs = TimedLogs(part(0, 100), part(1, 200, first=50), part(2, 300))
        monkeypatch.setattr(batch, "Survey", lambda options: PlayedSurvey(options, logs))
        address = {} if "addresses" in given else {"address": "a"}
        options = SourceOptions.parse({"url": "amqp://127.0.0.1", **address, **given})
        reader = FilteredLogReader(options, source_schema(("offset",), options.body))
        remaining = list(reader.pushFilters(list(filters)))
        assert remaining == (left or [])
        parts: Any = reader.partitions()
        return [(each.address, each.first, each.end) for each in parts]

    return run


ALL = [("a-0", 0, 100), ("a-1", 50, 200), ("a-2", 0, 300)]


@pytest.mark.parametrize(
    ("filters", "ranges"),
    [
        ([], ALL),
        ([EqualTo(P, 1)], ALL[1:2]),
        ([In(P, (0, 2, 7))], [ALL[0], ALL[2]]),
        ([In(P, (0, 2)), In(P, (1, 2))], ALL[2:]),
        ([GreaterThan(P, 0)], ALL[1:]),
        ([GreaterThanOrEqual(P, 1), LessThan(P, 2)], ALL[1:2]),
        ([LessThanOrEqual(P, 0)], ALL[:1]),
        ([EqualTo(P, 0), EqualTo(P, 1)], []),
        ([EqualTo(P, -1)], []),
        ([EqualTo(O, 120)], [("a-1", 120, 121), ("a-2", 120, 121)]),
        ([GreaterThan(O, 98)], [("a-0", 99, 100), ("a-1", 99, 200), ("a-2", 99, 300)]),
        ([GreaterThanOrEqual(O, 200)], [("a-2", 200, 300)]),
        ([LessThan(O, 51)], [("a-0", 0, 51), ("a-1", 50, 51), ("a-2", 0, 51)]),
        ([LessThanOrEqual(O, 49), EqualTo(P, 1)], []),
        ([GreaterThan(O, 10), LessThanOrEqual(O, 5)], []),
        ([GreaterThan(O, 10), GreaterThan(O, 190), EqualTo(P, 1)], [("a-1", 191, 200)]),
    ],
)
def test_partitions_and_offsets_that_no_filter_lets_through_are_not_read(
    read: Read, filters: list[Filter], ranges: list[tuple[str, int, int]]
) -> None:
    assert read(*filters) == ranges


def test_of_a_list_of_offsets_the_whole_stretch_is_read_and_spark_chooses(read: Read) -> None:
    listed = In(O, (150, 120, 290))
    assert read(listed, left=[listed]) == [("a-1", 120, 200), ("a-2", 120, 291)]


@pytest.mark.parametrize("kind", [EqualTo, GreaterThan, GreaterThanOrEqual])
def test_a_filter_on_time_begins_an_hour_earlier_and_spark_applies_it_too(read: Read, kind: type[Filter]) -> None:
    assert timedelta(minutes=60) == CLOCKS_DIFFER
    since = kind(T, AT + timedelta(minutes=130))  # type: ignore[call-arg]  # each of these has a column and a value
    assert read(since, left=[since]) == [("a-0", 70, 100), ("a-1", 70, 200), ("a-2", 70, 300)]


@pytest.mark.parametrize(
    "other",
    [
        LessThan(T, AT),
        IsNotNull(O),
        EqualTo(("properties", "offset"), 5),
        EqualTo(O, "5"),
        In(P, ("1",)),
        StringStartsWith(("message_id",), "m"),
    ],
)
def test_other_filters_are_left_to_spark(read: Read, other: Filter) -> None:
    """A message may be stored long after it was made: a filter on the latest time does not end the read."""
    assert read(other, left=[other]) == ALL


def test_filters_and_options_both_count(read: Read) -> None:
    given = {
        "startingTimestamp": f"{AT + timedelta(minutes=60):%Y-%m-%dT%H:%MZ}",
        "endingOffsets": '{"a": {"0": 80, "1": "latest", "2": 250}}',
        "minPartitions": "4",
    }
    assert read(LessThan(O, 240), In(P, (0, 2)), **given) == [
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
    with pytest.raises(ConfigError, match="the options end a/0 at offset 0, before they begin, at 90"):
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
