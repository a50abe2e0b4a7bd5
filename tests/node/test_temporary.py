"""Addresses made for a link: one receiver, one sender, and what either side's end does to the other."""

from __future__ import annotations

import pytest

from rstreams.errors import DemandError, LinkDetached
from rstreams.message import encode_item
from rstreams.node.stored_bytes import StoredBytes
from rstreams.node.temporary import ReplyQueue, ReplyStream, Temporaries
from rstreams.testing import ManualPublisher, ProbeSubscriber


def joined(request: int = 0) -> tuple[ReplyStream, ProbeSubscriber[bytes], ManualPublisher[bytes]]:
    """Return an address with its receiver and its sender."""
    address, probe, source = ReplyStream("a"), ProbeSubscriber[bytes](request), ManualPublisher[bytes]()
    address.subscribe(probe)
    source.subscribe(address.producer())
    return address, probe, source


def test_demand_is_the_senders_whenever_it_comes() -> None:
    address, probe, source = joined(3)
    assert source.requested == 3
    probe.request(2)
    assert source.requested == 5
    source.next(b"1", b"2")
    assert probe.items == [b"1", b"2"]
    source.complete()
    assert probe.completed
    address.cancel()
    assert probe.signals.count("on_complete") == 1


def test_there_is_one_receiver() -> None:
    address, _, _ = joined()
    second = ProbeSubscriber[bytes]()
    address.subscribe(second)
    assert isinstance(second.error, LinkDetached)


def test_only_the_first_sender_sends() -> None:
    address, probe, source = joined(2)
    second = ManualPublisher[bytes]()
    second.subscribe(address.producer())
    assert second.requested == 0
    second.complete()
    assert not probe.completed
    source.error(ValueError("x"))
    assert isinstance(probe.error, ValueError)


def test_the_first_senders_end_ends_the_others_and_who_comes_later() -> None:
    address, probe, source = joined(2)
    second, late = ManualPublisher[bytes](), ManualPublisher[bytes]()
    second.subscribe(address.producer())
    source.complete()
    assert probe.completed
    assert second.cancelled
    late.subscribe(address.producer())
    assert late.cancelled


def test_a_receiver_that_cancels_or_asks_for_nothing_ends_the_sender() -> None:
    _, probe, source = joined(1)
    probe.cancel()
    assert source.cancelled
    _, probe, source = joined(1)
    probe.request(0)
    assert isinstance(probe.error, DemandError)
    assert source.cancelled


def test_a_sender_has_one_subscription() -> None:
    address, _, source = joined(1)
    sender = address.producer()
    first, second = ManualPublisher[bytes](), ManualPublisher[bytes]()
    first.subscribe(sender)
    second.subscribe(sender)
    assert second.cancelled
    assert not first.cancelled
    assert source.requested == 1


@pytest.mark.parametrize("streamed", [True, False])
def test_an_address_is_there_until_it_is_deleted(streamed: bool) -> None:  # noqa: FBT001 - a parameter of the test
    temporaries = Temporaries(StoredBytes())
    address = temporaries.make(streamed=streamed)
    assert isinstance(address, ReplyStream) is streamed
    assert temporaries.get(address.name) is address
    temporaries.delete(address.name)
    temporaries.delete(address.name)
    assert temporaries.get(address.name) is None


@pytest.mark.parametrize("end", ["read", "deleted"])
def test_the_replies_of_the_node_itself_count_with_their_bytes(end: str) -> None:
    total, reply = StoredBytes(), encode_item("reply")
    temporaries = Temporaries(total)
    queue = temporaries.make(streamed=False)
    assert isinstance(queue, ReplyQueue)
    assert queue.store_now(reply)
    assert total.size == queue.statistics().size_bytes == len(reply)
    if end == "read":
        queue.subscribe(ProbeSubscriber[bytes](1))
        assert queue.statistics().size_bytes == 0
    else:
        assert temporaries.delete(queue.name)
    assert total.size == 0
