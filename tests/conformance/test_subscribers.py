"""The sinks, and the sending end of a link, under the verification kit as subscribers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscriber
from rstreams.message import encode_item
from rstreams.node.disk_storage import DiskStorage
from rstreams.node.limits import Limits
from rstreams.node.memory_partition import MemoryPartition
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.multicast import MulticastAddress
from rstreams.node.named_subscriptions import BacklogOptions
from rstreams.node.producer import Producer
from rstreams.node.queue import Queue
from rstreams.sinks.buffer_sink import BufferSink
from rstreams.sinks.first_sink import FirstSink
from rstreams.sinks.for_each_sink import ForEachSink
from rstreams.sinks.list_sink import ListSink
from rstreams.sinks.sink import Sink
from rstreams.store import Partition, Store
from rstreams.testing import ManualPublisher, ProbeSubscriber
from rstreams.testing.verification import (
    Environment,
    SubscriberBlackboxVerification,
    TrioEnvironment,
)
from rstreams.testing.verification._ends import VerificationError
from rstreams.testing.verification._processor import UpperSide
from tests.conformance.links import Loopback, loopback

SINKS: dict[str, Callable[[Callable[[], None]], Sink[Any]]] = {
    "ListSink": ListSink,
    "FirstSink": FirstSink,
    "ForEachSink": lambda on_change: ForEachSink(on_change, lambda _: None),
    "BufferSink": lambda on_change: BufferSink(on_change, 5),
}

PUBLISH = "a publish over TCP"


class TestSinks(SubscriberBlackboxVerification[Any]):
    @pytest.fixture(params=list(SINKS))
    def subject(self, request: pytest.FixtureRequest) -> object:
        return request.param

    def create_subscriber(self) -> Subscriber[Any]:
        return SINKS[str(self.case)](lambda: None)

    def trigger_request(self, subscriber: Subscriber[Any]) -> None:
        assert isinstance(subscriber, Sink)
        if not isinstance(subscriber, BufferSink):
            subscriber.request(3)

    def error_of(self, subscriber: Subscriber[Any]) -> BaseException | None:
        assert isinstance(subscriber, Sink)
        return subscriber.error


class TestPublish(SubscriberBlackboxVerification[Any]):
    """`Connection.publish`: the subscriber is the sending end of a link into a queue, over TCP."""

    env: TrioEnvironment[Loopback]

    @pytest.fixture
    def subject(self) -> object:
        return PUBLISH

    def create_environment(self) -> Environment:
        return TrioEnvironment(loopback)

    def create_subscriber(self) -> Subscriber[Any]:
        upper_side = UpperSide[Any]()
        self.env.resource.published(upper_side)
        return upper_side

    def error_of(self, _subscriber: Subscriber[Any]) -> BaseException | None:
        self.env.until(lambda: self.env.resource.failures)
        return self.env.resource.failures[-1]


@pytest.mark.parametrize("make", SINKS.values(), ids=SINKS)
def test_a_sink_that_has_cancelled_takes_what_still_comes(make: Callable[[Callable[[], None]], Sink[Any]]) -> None:
    """Rule 2.8: what a black box cannot be told to do, a sink can."""
    source, sink = ManualPublisher[Any](), make(lambda: None)
    source.subscribe(sink)
    if not source.requested:
        sink.request(3)
    sink.cancel()
    source.next(1)
    source.error(LookupError())
    assert sink.error is None
    assert source.outcomes == ["done"]


def on_disk() -> DiskStorage:
    """Return a storage whose partition has the calls of one on disk, and answers at once."""
    return DiskStorage(cast("Partition", MemoryPartition()), Limits(8))


def durable_multicast() -> MulticastAddress:
    """Return a multicast that tells outcomes; it has no named subscription, and its store is not used."""
    return MulticastAddress("m", "block", 8, BacklogOptions(store=cast("Store", object())))


ADDRESSES: dict[str, Callable[[], Queue | MulticastAddress]] = {
    "the producer of a queue": lambda: Queue("q", MemoryStorage(8)),
    "the producer of a multicast (block)": lambda: MulticastAddress("m", "block", 8),
    "the producer of a multicast (drop_oldest)": lambda: MulticastAddress("m", "drop_oldest", 8),
    "the producer of a durable queue": lambda: Queue("q", on_disk()),
    "the producer of a full durable queue": lambda: Queue("q", on_disk(), "reject"),
    "the producer of a durable multicast": durable_multicast,
}


class TestProducers(SubscriberBlackboxVerification[Any]):
    """What a node subscribes to a producer's link: its demand is the link's credit."""

    why = VerificationError("the producer has left")

    @pytest.fixture(params=list(ADDRESSES))
    def subject(self, request: pytest.FixtureRequest) -> object:
        return request.param

    def create_element(self, element: int) -> Any:  # noqa: ANN401 - addresses take encoded messages
        return encode_item(element)

    def create_subscriber(self) -> Subscriber[Any]:
        address = ADDRESSES[str(self.case)]()
        address.subscribe(ProbeSubscriber[bytes](UNBOUNDED))
        return address.producer()

    def error_of(self, subscriber: Subscriber[Any]) -> BaseException | None:
        """An address does not ask why a producer has left; that it has is all there is to see."""
        assert isinstance(subscriber, Producer)
        return self.why if subscriber.ended else None

    def is_same_error(self, _sent: BaseException, seen: BaseException) -> bool:
        return seen is self.why
