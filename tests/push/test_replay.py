"""Replay."""

from __future__ import annotations

import gc
import weakref

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.push import EmitResult, Replay
from rstreams.testing import ProbeSubscriber


@pytest.mark.parametrize("sent", [0, 1, 2, 3, 7])
def test_who_comes_later_starts_with_the_last_items(sent: int) -> None:
    pushing, late = Replay[int](2), ProbeSubscriber[int](UNBOUNDED)
    for item in range(sent):
        assert pushing.emit(item) is EmitResult.OK

    pushing.subscribe(late)
    pushing.emit(100)

    assert late.items == [*range(sent)[-2:], 100]


def test_without_a_subscriber_there_is_always_room() -> None:
    pushing = Replay[int](1, capacity=0)

    assert pushing.demand == UNBOUNDED
    assert {pushing.emit(item) for item in range(100)} == {EmitResult.OK}


def test_a_slow_subscriber_is_kept_from_falling_behind() -> None:
    pushing, first, slow = Replay[int](2, capacity=1), ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int]()
    pushing.emit(1)
    pushing.emit(2)
    pushing.subscribe(first)
    pushing.subscribe(slow)
    assert pushing.demand == 1

    assert pushing.emit(3) is EmitResult.OK
    assert pushing.emit(4) is EmitResult.OVERFLOW
    slow.request(2)
    assert slow.items == [1, 2]
    assert pushing.emit(5) is EmitResult.OK
    assert first.items == [1, 2, 3, 5]

    slow.request(9)
    assert slow.items == [1, 2, 3, 5]


def test_what_one_that_left_has_not_got_is_not_kept_for_it() -> None:
    pushing, slow, late = Replay[int](1), ProbeSubscriber[int](), ProbeSubscriber[int](9)
    pushing.subscribe(slow)
    for item in range(5):
        pushing.emit(item)
    slow.cancel()

    pushing.subscribe(late)

    assert late.items == [4]


@pytest.mark.slow
@pytest.mark.parametrize("subscribers", [0, 1])
def test_old_items_are_not_kept_alive(subscribers: int) -> None:
    class Thing:
        pass

    pushing = Replay[Thing](2)
    probe = ProbeSubscriber[Thing](UNBOUNDED, on_item=lambda _item: probe.items.clear())
    if subscribers:
        pushing.subscribe(probe)
    known: list[weakref.ref[Thing]] = []
    for _ in range(10):
        thing = Thing()
        known.append(weakref.ref(thing))
        pushing.emit(thing)
    del thing
    gc.collect()

    assert [ref() is not None for ref in known] == [False] * 8 + [True] * 2


def test_options_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"Replay\(count=0\): count must be 1 or more items"):
        Replay(0)
    with pytest.raises(ConfigError, match=r"Replay\(capacity=-1\): capacity must be 0 or more items"):
        Replay(1, capacity=-1)
