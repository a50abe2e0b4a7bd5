"""The source's connection in its thread, against a node in another process; no Spark."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from rstreams_spark import _receiver
from rstreams_spark._options import SourceOptions
from rstreams_spark._receiver import Receiver
from rstreams_spark.errors import SourceFailed, UnparsableMessage

from rstreams import Message

if TYPE_CHECKING:
    from conftest import Eventually, NodeProcess

pytestmark = pytest.mark.slow  # each test starts a node in a process of its own


@contextmanager
def reading_ahead(url: str, address: str, limit: int, **options: str) -> Iterator[Receiver]:
    """Receive with `prefetch`, for batches of `limit` rows."""
    given = {"url": url, "address": address, "maxmessagespertrigger": str(limit), "prefetch": "true"}
    receiver = Receiver(SourceOptions.parse(given | options), lambda: None)
    try:
        yield receiver
    finally:
        receiver.close()


class Whole:
    """A receiver whose batches are not in parts."""

    def __init__(self, receiver: Receiver) -> None:
        self.count_queued = receiver.count_queued
        self.settle_when_committed = receiver.settle_when_committed
        self.close = receiver.close
        self.progress = receiver.progress
        self._receiver = receiver

    def collect(self, committed: int, most: int) -> list[Any]:
        return bodies(self._receiver.collect(committed, most))

    def collect_queued(self, committed: int, most: int) -> list[Any]:
        return bodies(self._receiver.collect_queued(committed, most))


@contextmanager
def receiving(
    url: str, orphaned: threading.Event | None = None, known: Iterable[str] | None = None, **options: str
) -> Iterator[Whole]:
    """Receive; with `known` as with a write-ahead log."""
    parsed = SourceOptions.parse({"url": url, "address": "in", "maxtriggerdelay": "0ms"} | options)
    receiver = Whole(Receiver(parsed, (orphaned or threading.Event()).set, known))
    try:
        yield receiver
    finally:
        receiver.close()


def bodies(batches: Iterable[pa.RecordBatch]) -> list[Any]:
    return [body for batch in batches for body in batch.column("body").to_pylist()]


def test_a_batch_is_accepted_by_the_next_call_and_the_rest_released_by_closing(node: NodeProcess) -> None:
    node.publish("in", [b"1", b"2", b"3", b"4", b"5"])
    with receiving(node.url) as receiver:
        assert receiver.collect_queued(0, 3) == [b"1", b"2", b"3"]
        counters = node.queue("in")
        assert (counters["unsettled"], counters["accepted"]) == (5, 0)
        assert receiver.collect_queued(3, 3) == [b"4", b"5"]
    counters = node.queue("in")
    assert (counters["accepted"], counters["modified"], counters["ready"], counters["consumers"]) == (3, 0, 2, 0)
    assert node.take("in", 2) == [Message(body=b"4"), Message(body=b"5")]  # with a delivery-count of 0


def test_what_was_committed_last_is_accepted_even_if_closing_follows_at_once(node: NodeProcess) -> None:
    node.publish("in", [b"%d" % n for n in range(1_000)])
    with receiving(node.url) as receiver:
        assert len(receiver.collect_queued(0, 1_000)) == 1_000
        assert receiver.collect_queued(1_000, 1_000) == []
    counters = node.queue("in")
    assert (counters["accepted"], counters["delivered"]) == (1_000, 1_000)


def test_errors_name_the_address_and_the_peer_and_no_credentials(guarded_node: NodeProcess) -> None:
    where = rf"^rstreams source, address '{{}}' at 127\.0\.0\.1:{guarded_node.port}: "
    with (
        pytest.raises(
            SourceFailed, match=where.format("nowhere") + "LinkDetached: .*: no address 'nowhere' here"
        ) as caught,
        receiving(guarded_node.url, address="nowhere"),
    ):
        pass
    assert "cr%40et" not in str(caught.value)

    guarded_node.publish("in", [Message(body=b"12345678", id="bad")])
    with (
        receiving(guarded_node.url, maxmessagesize="10") as receiver,
        pytest.raises(
            UnparsableMessage, match=where.format("in") + "message 1 of this link cannot be made a row: it has 24 bytes"
        ),
    ):
        receiver.collect_queued(0, 10)

    with receiving(guarded_node.url, address="three", reconnect="false") as receiver:
        guarded_node.kill()
        with pytest.raises(SourceFailed, match=where.format("three") + "ConnectionLost: "):
            while True:
                receiver.collect(0, 10)


def test_a_closed_receiver_says_so(node: NodeProcess) -> None:
    with receiving(node.url) as receiver:
        receiver.close()
        with pytest.raises(SourceFailed, match="the connection was closed from this side"):
            receiver.collect(0, 10)


def test_what_goes_wrong_in_the_thread_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_url: str, **_options: object) -> None:
        msg = "a mistake of ours"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr(_receiver.rstreams, "connect", broken)
    with (
        pytest.raises(
            SourceFailed, match=r"at 127\.0\.0\.1:1: ZeroDivisionError: a mistake of ours; messages that Spark has not"
        ),
        receiving("amqp://127.0.0.1:1"),
    ):
        pass


def test_it_gives_back_and_tells_when_its_parent_has_died(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    orphaned = threading.Event()
    node.publish("in", [b"1", b"2"])
    with receiving(node.url, orphaned) as receiver:
        assert len(receiver.collect_queued(0, 10)) == 2
        monkeypatch.setattr(os, "getppid", lambda: 1)
        assert orphaned.wait(10)
        counters = node.queue("in")
        assert (counters["modified"], counters["ready"], counters["consumers"]) == (0, 2, 0)


def test_reading_ahead_never_has_more_than_twice_the_limit(node: NodeProcess) -> None:
    came: list[Any] = []
    with reading_ahead(node.url, "counted", 20) as receiver:
        came += bodies(receiver.collect(0, 20))
        while len(came) < 500:
            receiver.plan_ahead()
            ahead = receiver.collect_ahead(20, queued=False)
            receiver.settle(len(came))
            receiver.ask()
            came += bodies(ahead)
    assert came == [b"%d" % n for n in range(1, 501)]
    assert 20 < node.first("counted/most") <= 40


def test_packs_never_exceed_the_limit_and_are_settled_whole(node: NodeProcess) -> None:
    node.publish("in", [Message(body=b"%d" % n, id=f"m-{n}") for n in range(10_000)])
    came: list[Any] = []
    with reading_ahead(node.url, "in", 2_000, prefetch="false") as receiver:
        receiver.count_queued()
        while part := bodies(receiver.collect_queued(len(came), 2_000)):
            assert 1_996 <= len(part) <= 2_000 or len(came) + len(part) == 10_000
            assert node.queue("in")["unsettled"] <= 2_000
            came += part
    assert came == [b"%d" % n for n in range(10_000)]
    counters = node.queue("in")
    assert (counters["accepted"], counters["ready"], counters["unsettled"]) == (10_000, 0, 0)


def test_a_rejected_message_of_a_pack_is_not_accepted_with_the_others(node: NodeProcess) -> None:
    sizes = [20 if n != 1_500 else 200 for n in range(3_000)]
    node.publish("in", [b"x" * size for size in sizes])
    came = 0
    with reading_ahead(
        node.url, "in", 2_000, prefetch="false", maxmessagesize="100", onunparsable="reject"
    ) as receiver:
        receiver.count_queued()
        while part := bodies(receiver.collect_queued(came, 2_000)):
            came += len(part)
    counters = node.queue("in")
    assert (came, counters["accepted"], counters["rejected"]) == (2_999, 2_999, 1)


def test_the_state_of_the_source_for_sparks_progress(node: NodeProcess, eventually: Eventually) -> None:
    node.publish("in", [b"1", b"2", b"3"])
    with receiving(node.url, maxmessagespertrigger="2") as receiver:
        assert len(receiver.collect_queued(0, 2)) == 2
        state = eventually(lambda: (now := receiver.progress(100)) and now["queued"] == 1 and now, "the newest count")
        assert state["peer"] == f"127.0.0.1:{node.port}"
        assert (state["credit"], state["unsettled"], state["redelivered"], state["connectionsLost"]) == (0, 2, 0, 0)
        assert state["messages"] == 103
        receiver.close()
        assert receiver.progress(100) is None
