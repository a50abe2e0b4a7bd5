"""What cannot be of a log: refused when a query starts, against a node in another process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from rstreams_spark._logs.choice import AddressReader
from rstreams_spark._options import SourceOptions
from rstreams_spark._schema import source_schema

from adapters.spark.tests.test_log_spark import LogNode, log_node
from rstreams.errors import ConfigError


@pytest.fixture(scope="module")
def node() -> Iterator[LogNode]:
    """A node with ten messages in log `one`."""
    with log_node() as node:
        node.append("one", 0, 10)
        yield node


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOffsets": '{"one": {"0": 11}}'}, "one/0 has no offset 11, there are 0 to 10"),
        ({"startingOffsets": '{"one": {"0": 1, "3": 1}}'}, "the peer has no one/3; there are one/0"),
        (
            {"startingOffsets": '{"two": {"0": 1}}'},
            "option startingOffsets: the peer has no two/0; there are one/0",
        ),
        (
            {"startingOffsets": None, "startingTimestamp": '{"one": {"4": 0}}'},
            "option startingTimestamp: the peer has no one/4; there are one/0",
        ),
        (
            {"address": "events", "startingOffsets": '{"events": {"3": 0}}'},
            "also has events/0, events/1, events/2, which",
        ),
        ({"address": "nowhere", "readAs": "log"}, "there is no log 'nowhere'"),
        ({"address": "nowhere"}, "option startingOffsets: only for a log, and the peer tells of no log 'nowhere'"),
        (
            {"address": "nowhere", "startingOffsets": None},
            "columns partition and offset: only for a log, and the peer tells of no log 'nowhere'",
        ),
        (
            {"address": None, "addresses": "one, nowhere, in"},
            "option addresses: there is no log 'nowhere' or 'in'; there are one/0",
        ),
        ({"address": "events-7"}, "the peer tells of no log 'events-7'"),
        (
            {"readAs": "queue"},
            "option startingOffsets: only for a log, and 'one' is read as a queue (option readAs='queue')",
        ),
        ({"walDir": "/nowhere"}, "option walDir: only for a queue, and 'one' is a log"),
        ({"endingTimestamp": "5"}, "option endingTimestamp: only for spark.read; a stream has no end"),
        ({"address": "in"}, "option startingOffsets: only for a log, and 'in' is a queue"),
        ({"address": "in", "startingOffsets": None, "columns": "offset"}, "column offset: only for a log, and 'in' is"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line_that_names_what_is(
    node: LogNode, options: dict[str, str | None], told: str
) -> None:
    given = {"url": node.url, "address": "one", "startingOffsets": "earliest", "columns": "body,partition,offset"}
    parsed = SourceOptions.parse({name: value for name, value in (given | options).items() if value is not None})
    reader = AddressReader(parsed, source_schema(parsed.columns, parsed.body))
    try:
        with pytest.raises(ConfigError) as caught:
            reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    finally:
        reader.stop()
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
