"""Latest."""

from __future__ import annotations

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.push import EmitResult, Latest
from rstreams.testing import ProbeSubscriber


def test_a_subscriber_starts_with_the_current_value() -> None:
    value, first, second = Latest(1), ProbeSubscriber[int](9), ProbeSubscriber[int](9)
    value.subscribe(first)
    value.emit(2)
    value.subscribe(second)

    assert first.items == [1, 2]
    assert second.items == [2]
    assert value.value == 2


def test_without_a_value_subscribers_wait() -> None:
    value, probe = Latest[int](), ProbeSubscriber[int](9)
    value.subscribe(probe)
    assert probe.items == []
    with pytest.raises(LookupError, match="no value yet"):
        _ = value.value

    value.emit(1)

    assert probe.items == [1]


def test_a_slow_subscriber_skips_to_the_newest() -> None:
    value, quick, slow = Latest(0), ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](1)
    value.subscribe(quick)
    value.subscribe(slow)
    for item in range(1, 5):
        assert value.emit(item) is EmitResult.OK
    slow.request(1)
    slow.request(1)
    assert slow.items == [0, 4]  # and nothing twice
    value.emit(5)

    assert quick.items == [0, 1, 2, 3, 4, 5]
    assert slow.items == [0, 4, 5]


def test_none_is_a_value() -> None:
    value, probe = Latest[None](None), ProbeSubscriber[None](9)
    value.subscribe(probe)

    assert probe.items == [None]
    assert value.value is None


def test_the_last_value_and_the_end_are_there_for_who_comes_later() -> None:
    value, probe = Latest(0), ProbeSubscriber[int]()
    value.emit(1)
    value.complete()
    value.subscribe(probe)
    assert probe.signals == ["on_subscribe"]

    probe.request(1)

    assert probe.items == [1]
    assert probe.completed
    assert value.value == 1


def test_an_emit_inside_an_item_skips_nobody_who_has_demand() -> None:
    value = Latest(0)
    first = ProbeSubscriber[int](9, on_item=lambda item: value.emit(item + 1) if item in (1, 2) else None)
    second = ProbeSubscriber[int](9)
    value.subscribe(first)
    value.subscribe(second)

    value.emit(1)

    assert first.items == [0, 1, 2, 3]
    assert second.items[0] == 0
    assert second.items[-1] == 3  # the newest; what was in between had been replaced before its turn


def test_more_than_one_value() -> None:
    with pytest.raises(TypeError, match="not 2 values"):
        Latest(1, 2)
