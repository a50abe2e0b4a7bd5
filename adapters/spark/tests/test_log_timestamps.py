"""Column `timestamp` of a log: the time of the peer if it notes one, otherwise that of the sender."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rstreams_spark._logs.rows import link_columns, with_log_columns
from rstreams_spark._record_batches import RecordBatches

from rstreams.message import Message, encode_item
from rstreams.net.links.offsets import Appended

STORED = "x-opt-enqueued-time"
RECEIVED = "x-opt-rabbitmq-received-time"

AT = datetime(2026, 11, 22, 8, tzinfo=UTC)
LATER = AT + timedelta(milliseconds=1_250)
NAMES = ("body", "timestamp", "partition")

CASES: list[tuple[list[dict[str, Any]], list[datetime | None]]] = [
    ([{}, {}], [None, None]),
    ([{"creation_time": AT}, {}, {"creation_time": LATER}], [AT, None, LATER]),
    ([{"annotations": {STORED: AT}}, {"annotations": {STORED: LATER}}], [AT, LATER]),
    ([{"annotations": {RECEIVED: LATER}, "creation_time": AT}], [LATER]),
    ([{"annotations": {"a": 1, STORED: LATER, "b": 2}}, {"annotations": {"b": 2, "a": 1, STORED: AT}}], [LATER, AT]),
    ([{"annotations": {STORED: AT, RECEIVED: LATER}}], [AT]),
    ([{"annotations": {STORED: AT}}, {"annotations": {"a": 1}}, {"creation_time": LATER}], [AT, None, LATER]),
    ([{"annotations": {"a": 1}, "creation_time": AT}, {"annotations": {"a": 2}}], [AT, None]),
    ([], []),
]


@pytest.mark.parametrize(("rows", "times"), CASES)
def test_the_time_of_the_peer_counts_before_that_of_the_sender(
    rows: list[dict[str, Any]], times: list[datetime | None]
) -> None:
    made = RecordBatches("log", link_columns(NAMES))
    for given in rows:
        rare = made.add(iter((encode_item(Message(b"a body", **given)),)), 100, 10**6, 10**6)
        if rare is not None:
            made.add_rare(rare)
    batch = made.take()
    found = with_log_columns(batch, list(NAMES), 7)
    assert found.column("timestamp").to_pylist() == times
    assert found.column("partition").to_pylist() == [7] * len(rows)


def test_a_log_of_a_node_tells_when_it_has_appended_a_message() -> None:
    messages = [Message(b"a"), Message(b"b", creation_time=AT), Message(b"c", annotations={STORED: AT})]
    stored = Appended(2, round(LATER.timestamp() * 1_000)).noted([encode_item(each) for each in messages], range(3))
    made = RecordBatches("log", link_columns(NAMES))
    for each in stored:
        rare = made.add(iter((each,)), 100, 10**6, 10**6)
        if rare is not None:
            made.add_rare(rare)
    assert with_log_columns(made.take(), list(NAMES), 2).column("timestamp").to_pylist() == [LATER] * 3


def test_only_who_wants_the_time_reads_what_it_is_made_of() -> None:
    of_time = {"annotations", "creation_time"}
    assert of_time <= {column.name for column in link_columns(("timestamp",))}
    assert not of_time & {column.name for column in link_columns(("body", "partition"))}
