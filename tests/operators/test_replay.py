"""replay."""

from __future__ import annotations

from typing import Any

import pytest

from rstreams._core.demand import SLICE, UNBOUNDED
from rstreams._stages.connectable import Connectable
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.operators.replay import replay
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import OperatorContract


def _counted(source: Publisher[int]) -> Publisher[Any]:
    return replay(source, 3).ref_count()


class TestReplay(OperatorContract):
    build = _counted
    model = list
    requests = ((1, [1]), (3, [3]), (UNBOUNDED, [256]))


def played(
    *probes: ProbeSubscriber[int], count: int = 2, window: int = 256
) -> tuple[ManualPublisher[int], Connectable[int]]:
    source = ManualPublisher[int]()
    replayed = replay(source, count, window=window)
    for probe in probes:
        replayed.subscribe(probe)
    replayed.connect()
    return source, replayed


@pytest.mark.parametrize("sent", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_who_comes_later_starts_with_the_last_items(sent: int, count: int) -> None:
    first, late = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](UNBOUNDED)
    source, replayed = played(first, count=count)
    source.next(*range(sent))
    replayed.subscribe(late)
    source.next(100)

    assert late.items == [*range(sent)[-count:], 100]
    assert first.items == [*range(sent), 100]


def test_who_comes_later_gets_them_at_its_own_pace() -> None:
    first, late = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int]()
    source, replayed = played(first)
    source.next(1, 2, 3)
    replayed.subscribe(late)
    assert late.items == []

    late.request(1)
    assert late.items == [2]
    source.next(4)
    assert first.items == [1, 2, 3, 4]
    late.request(5)
    assert late.items == [2, 3, 4]


@pytest.mark.parametrize("error", [None, ValueError("of the source")])
def test_the_end_comes_behind_what_is_kept(error: Exception | None) -> None:
    first, slow, late = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](), ProbeSubscriber[int](1)
    source, replayed = played(first)
    replayed.subscribe(slow)
    source.next(1, 2, 3)
    source.complete() if error is None else source.error(error)
    assert first.ended
    assert not slow.ended
    replayed.subscribe(late)
    assert late.items == [2]
    assert not late.ended

    late.request(1)
    slow.request(3)

    assert late.items == [2, 3]
    assert slow.items == [1, 2, 3]
    assert late.ended
    assert slow.ended
    assert late.error is slow.error is error


def test_what_is_only_kept_for_later_is_not_held() -> None:
    first, late = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](UNBOUNDED, hold=True)
    source, replayed = played(first)
    source.next(1, 2)
    assert source.outcomes == ["done", "done"]

    replayed.subscribe(late)
    late.holds[0].fail(ValueError())

    assert late.items == [1, 2]
    assert source.outcomes == ["done", "done"]


def test_a_slow_one_gets_all_and_holds_up_the_source() -> None:
    quick, slow = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int]()
    source, replayed = played(quick, count=1, window=4)
    replayed.subscribe(slow)
    source.next(1, 2, 3, 4)
    assert source.outstanding == 0
    assert source.outcomes == [None] * 4

    slow.request(4)

    assert slow.items == [1, 2, 3, 4]
    assert source.outcomes == ["done"] * 4


def test_one_that_joins_out_of_an_item_starts_with_that_item() -> None:
    source = ManualPublisher[int]()
    replayed = replay(source, 2)
    late = ProbeSubscriber[int](9)
    first = ProbeSubscriber[int](9, on_item=lambda item: replayed.subscribe(late) if item == 3 else None)
    replayed.subscribe(first)
    replayed.connect()

    source.next(1, 2, 3, 4)

    assert first.items == [1, 2, 3, 4]
    assert late.items == [2, 3, 4]


def test_the_last_items_wait_even_if_all_have_left() -> None:
    first, late = ProbeSubscriber[int](3), ProbeSubscriber[int](9)
    source, replayed = played(first)
    source.next(1, 2)
    first.cancel()
    source.next(3)

    replayed.subscribe(late)

    assert late.items == [2, 3]  # the last two, of which nobody has got 3


def test_much_history_is_worked_off_in_turns() -> None:
    n = 3 * SLICE
    with VirtualScheduler() as scheduler:
        first, late = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](UNBOUNDED)
        replayed = replay(range_(n), n)
        replayed.subscribe(first)
        replayed.connect()
        scheduler.run()
        replayed.subscribe(late)
        assert len(late.items) == SLICE
        scheduler.run()

        assert late.items == list(range(n))
        assert late.completed


@pytest.mark.parametrize("count", [0, -3, None])
def test_options_that_cannot_be(count: int) -> None:
    with pytest.raises(ConfigError, match=r"replay\(count=.*\): count must be 1 or more items"):
        replay(range_(3), count)
    with pytest.raises(ConfigError, match=r"replay\(window=.*\): window must be 1 or more items"):
        replay(range_(3), 1, window=count)
