from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher, Subscription
from rstreams.errors import ConfigError
from rstreams.operators.flat_map import flat_map
from rstreams.operators.window_boundary import window_boundary
from rstreams.sources.fail import fail
from rstreams.sources.never import never
from rstreams.sources.of import of
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.scheduled import ScheduledContract


class TestWindowBoundary(ScheduledContract):
    build = staticmethod(
        lambda source: flat_map(window_boundary(source, never()), lambda window: window, concurrency=1)
    )
    model = staticmethod(lambda items: items)
    requests = ((1, [256]), (5, [256]), (UNBOUNDED, [256]))


class Played:
    def __init__(self, request: int = UNBOUNDED) -> None:
        self.source, self.boundary = ManualPublisher[int](), ManualPublisher[str]()
        self.readers: list[ProbeSubscriber[int]] = []
        self.probe = ProbeSubscriber[Publisher[int]](request, on_item=self._read)
        window_boundary(self.source, self.boundary).subscribe(self.probe)

    def _read(self, window: Publisher[int]) -> None:
        self.readers.append(ProbeSubscriber[int](UNBOUNDED))
        window.subscribe(self.readers[-1])

    @property
    def items(self) -> list[list[int]]:
        return [reader.items for reader in self.readers]


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match=r"window_boundary\(prefetch=0\): prefetch must be 1 or more items"):
        window_boundary(range_(1), never(), prefetch=0)
    with pytest.raises(TypeError, match=r"window_boundary\(boundary\): boundary must be a Publisher, not 3"):
        window_boundary(range_(1), 3)  # type: ignore[arg-type]


def test_each_boundary_ends_a_window() -> None:
    played = Played()
    assert played.boundary.requested == UNBOUNDED

    played.source.next(1, 2)
    played.boundary.next("x")
    played.boundary.next("x")
    played.source.next(3)
    played.source.complete()

    assert played.items == [[1, 2], [], [3]]
    assert all(reader.completed for reader in played.readers)
    assert played.probe.completed
    assert played.boundary.cancelled


def test_the_boundary_is_not_subscribed_to_before_the_first_request() -> None:
    assert Played(0).boundary.subscriptions == 0


def test_the_stream_ends_with_its_boundaries() -> None:
    played = Played()
    played.source.next(1)

    played.boundary.complete()

    assert played.items == [[1]]
    assert played.readers[0].completed
    assert played.probe.completed
    assert played.source.cancelled
    assert not played.boundary.cancelled


def test_boundaries_that_fail_fail_the_stream() -> None:
    played, error = Played(), ValueError()

    played.boundary.error(error)

    assert played.readers[0].error is error
    assert played.probe.error is error
    assert played.source.cancelled


def test_cancel_reaches_the_boundaries() -> None:
    played = Played()
    played.probe.cancel()
    played.readers[0].cancel()

    assert played.boundary.cancelled
    assert played.source.cancelled
    played.boundary.next("late")
    played.boundary.error(ValueError())
    played.boundary.complete()


def test_a_boundary_inside_on_next_lets_the_item_be_handled_first() -> None:
    signals: list[Any] = []
    source, boundary = ManualPublisher[int](), ManualPublisher[str]()

    class Reader(ProbeSubscriber[int]):
        def on_next(self, item: int) -> None:
            signals.append(item)
            boundary.next("x")
            signals.append(-item)

        def on_complete(self) -> None:
            signals.append("end")

    probe = ProbeSubscriber[Publisher[int]](UNBOUNDED, on_item=lambda window: window.subscribe(Reader(UNBOUNDED)))
    window_boundary(source, boundary).subscribe(probe)

    source.next(1, 2)

    assert signals == [1, -1, "end", 2, -2, "end"]


def test_a_second_subscription_to_boundaries_is_cancelled() -> None:
    played, other = Played(), ManualPublisher[str]()

    other.subscribe(played.boundary._subscribed())

    assert other.cancelled
    assert not played.boundary.cancelled


def test_boundaries_that_are_there_at_once_come_after_on_subscribe() -> None:
    signals: list[str] = []

    class Reader(ProbeSubscriber[Publisher[int]]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            signals.extend(self.signals)

    probe = Reader(UNBOUNDED)
    window_boundary(ManualPublisher[int](), of("x")).subscribe(probe)

    assert signals == ["on_subscribe"]
    assert probe.signals == ["on_subscribe", "on_next", "on_next", "on_complete"]


def test_boundaries_that_fail_at_once_come_after_on_subscribe() -> None:
    told: list[list[str]] = []

    class Reader(ProbeSubscriber[Publisher[int]]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            told.append(list(self.signals))

    probe = Reader(UNBOUNDED)
    window_boundary(ManualPublisher[int](), fail(LookupError())).subscribe(probe)

    assert told == [["on_subscribe"]]
    assert probe.signals == ["on_subscribe", "on_next", "on_error"]
