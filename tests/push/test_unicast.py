"""Unicast."""

from __future__ import annotations

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError, RStreamsError
from rstreams.push import EmitResult, Unicast
from rstreams.testing import ProbeSubscriber


def test_items_wait_for_the_subscriber() -> None:
    pushing, probe = Unicast[int](), ProbeSubscriber[int](2)
    for item in range(3):
        assert pushing.emit(item) is EmitResult.OK

    pushing.subscribe(probe)

    assert probe.items == [0, 1]


@pytest.mark.parametrize("capacity", [0, 1, 3])
def test_no_more_wait_than_may(capacity: int) -> None:
    pushing, probe = Unicast[int](capacity), ProbeSubscriber[int]()
    for subscribed in (False, True):
        assert pushing.demand == (0 if subscribed else capacity)
        while pushing.demand:
            assert pushing.emit(1) is EmitResult.OK
        assert pushing.emit(99) is EmitResult.OVERFLOW
        if not subscribed:
            pushing.subscribe(probe)

    probe.request(capacity + 2)
    assert probe.items == [1] * capacity
    assert pushing.demand == 2 + capacity
    assert [pushing.emit(2) for _ in range(capacity + 3)] == [EmitResult.OK] * (capacity + 2) + [EmitResult.OVERFLOW]


def test_demand_without_end() -> None:
    pushing = Unicast[int](0)
    pushing.subscribe(ProbeSubscriber[int](UNBOUNDED))

    assert pushing.demand == UNBOUNDED


def test_it_takes_one_subscriber() -> None:
    pushing, first, second = Unicast[int](), ProbeSubscriber[int](1), ProbeSubscriber[int](1)
    pushing.subscribe(first)
    pushing.subscribe(second)
    pushing.emit(1)

    assert first.items == [1]
    assert isinstance(second.error, RStreamsError)
    assert str(second.error).startswith("Unicast takes one subscriber, and has had it. For several, also one after")
    assert second.signals == ["on_subscribe", "on_error"]


def test_once_its_subscriber_has_left_nothing_is_taken() -> None:
    pushing, probe = Unicast[int](), ProbeSubscriber[int](1)
    pushing.subscribe(probe)
    probe.cancel()

    assert pushing.emit(1) is EmitResult.CANCELLED
    assert pushing.demand == 0


def test_what_is_pushed_in_on_subscribe_waits() -> None:
    pushing = Unicast[int]()

    class Pushes(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: object) -> None:
            assert pushing.emit(1) is EmitResult.OK
            super().on_subscribe(subscription)  # type: ignore[arg-type]

    probe = Pushes(5)
    pushing.subscribe(probe)

    assert probe.items == [1]


def test_a_capacity_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"Unicast\(capacity=-1\): capacity must be 0 or more items"):
        Unicast(-1)
