"""The sinks, and the sending end of a link, under the verification kit as subscribers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rstreams.abc import Subscriber
from rstreams.sinks import BufferSink, FirstSink, ForEachSink, ListSink, Sink
from rstreams.testing import ManualPublisher
from rstreams.testing.verification import (
    Environment,
    SubscriberBlackboxVerification,
    TrioEnvironment,
)
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
