"""The checkpoint of another source: an error in one line, before anything is connected, whatever the offset is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from rstreams_spark._logs.choice import AddressReader
from rstreams_spark._options import SourceOptions
from rstreams_spark._reader import QueueReader
from rstreams_spark._schema import SOURCE_SCHEMA

from rstreams.errors import ConfigError

OFFSETS: dict[str, Any] = {
    "rate": 5,
    "socket": -1,
    "files": {"logOffset": 0},
    "rate-micro-batch": {"offset": 3, "timestamp": 4},
    "Kafka": {"topic": {"0": 5}},
    "a simple source in Python": {"offset": 5},
    "Kinesis": {"shardId-000": {"iteratorType": "TRIM_HORIZON"}},
    "text": "5",
    "null": None,
    "a list": ["in/0", 1],
    "a fraction": 1.5,
    "truth": True,
    "nothing": {},
    "a queue, nearly": {"messages": "1", "address": "in"},
    "a queue with more": {"messages": 1, "address": "in", "x": 1},
    "a queue at true": {"messages": True},
    "a queue at a number": {"messages": 1, "address": 7},
    "a log, nearly": {"in/0": "4"},
    "a log with other firsts": {"in/0": 4, "firsts": 7},
    "a log with firsts of no partition": {"in/0": 4, "firsts": {"in": 4}},
    "a log that is split by text": {"in/0": 4, "minPartitions": "4"},
    "a partition in other digits": {"in/²": 4},
}
OURS = {"messages": 7, "address": "in"}

CALLS: dict[str, Callable[[AddressReader | QueueReader, Any], object]] = {
    "latestOffset": lambda reader, offset: reader.latestOffset(offset, ReadMaxRows(5)),
    "partitions, from": lambda reader, offset: reader.partitions(offset, OURS),
    "partitions, to": lambda reader, offset: reader.partitions(OURS, offset),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", OFFSETS)
def test_it_is_refused_in_one_line_before_anything_is_connected(kind: str, call: str) -> None:
    options = SourceOptions.parse({"url": "amqp://127.0.0.1:1", "address": "in"})
    reader = AddressReader(options, SOURCE_SCHEMA)
    with pytest.raises(
        ConfigError, match=r"^the checkpoint has the offset .* which is not one of the rstreams sou"
    ) as e:
        CALLS[call](reader, OFFSETS[kind])
    assert "belongs to a query with another source. Use a new checkpoint" in str(e.value)
    assert "\n" not in str(e.value)
    with pytest.raises(ConfigError, match=r"^the checkpoint has the offset .* which is not one of a queue"):
        CALLS[call](QueueReader(options), OFFSETS[kind])
