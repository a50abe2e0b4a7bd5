"""parallel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.operators.concat import concat
from rstreams.operators.ignore_elements import ignore_elements
from rstreams.operators.map import map as map_
from rstreams.operators.map_async import map_async
from rstreams.operators.parallel import parallel
from rstreams.operators.take import take
from rstreams.sources.empty import empty
from rstreams.sources.range import range as range_
from rstreams.sources.timer import timer
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import OperatorContract


def _tenfold(items: Publisher[int]) -> Publisher[int]:
    return map_(items, lambda x: x * 10)


def _built(source: Publisher[int]) -> Publisher[Any]:
    return parallel(source, 2, _tenfold)


class TestParallel(OperatorContract):
    build = _built
    model = lambda items: [x * 10 for x in items]  # noqa: E731 - as the contract has it
    requests = ((1, [64]), (3, [64]), (UNBOUNDED, [64]))

    def test_requesting_one_more_in_on_next_does_not_recurse(self) -> None:
        probe = ProbeSubscriber[Any](1, on_item=lambda _item: probe.request(1))
        _built(range_(10_000)).subscribe(probe)  # deep recursion would be an error

        assert sorted(probe.items) == [x * 10 for x in range(10_000)]  # the workers' results come as they are ready
        assert probe.completed


def test_the_work_is_shared_out() -> None:
    counts: dict[int, int] = {}
    made = iter(range(9))

    def worker(items: Publisher[int]) -> Publisher[int]:
        number = next(made)

        def count(item: int) -> int:
            counts[number] = counts.get(number, 0) + 1
            return item

        return map_(items, count)

    probe = ProbeSubscriber[int](UNBOUNDED)
    parallel(range_(300), 3, worker).subscribe(probe)

    assert sorted(probe.items) == list(range(300))
    assert probe.completed
    assert sum(counts.values()) == 300
    assert min(counts.values()) >= 90


def test_workers_that_wait_do_so_side_by_side() -> None:
    with VirtualScheduler() as scheduler:

        async def slow(x: int) -> int:
            event = scheduler.event()
            scheduler.call_later(1.0, event.set)
            await event.wait()
            return x

        probe = ProbeSubscriber[int](UNBOUNDED)
        parallel(range_(6), 3, lambda items: map_async(items, slow)).subscribe(probe)
        scheduler.advance(1.0)
        assert sorted(probe.items) == [0, 1, 2]
        scheduler.advance(1.0)
        assert sorted(probe.items) == [0, 1, 2, 3, 4, 5]
        assert probe.completed


def test_a_worker_that_is_through_leaves_the_rest_to_the_others() -> None:
    made = iter(range(9))

    def worker(items: Publisher[int]) -> Publisher[int]:
        return take(items, 2) if next(made) == 0 else items

    probe = ProbeSubscriber[int](UNBOUNDED)
    parallel(range_(100), 2, worker).subscribe(probe)

    assert sorted(probe.items) == list(range(100))
    assert probe.completed


def test_when_all_are_through_the_source_is_cancelled() -> None:
    source = ManualPublisher[int]()
    probe = ProbeSubscriber[int](UNBOUNDED)
    parallel(source, 2, lambda items: take(items, 1)).subscribe(probe)

    source.next(1, 2)

    assert probe.items == [1, 2]
    assert probe.completed
    assert source.cancelled


def test_a_worker_that_fails_ends_all() -> None:
    source = ManualPublisher[int]()
    probe = ProbeSubscriber[int](UNBOUNDED)
    parallel(source, 2, lambda items: map_(items, lambda x: 1 // x)).subscribe(probe)

    source.next(1, 0)

    assert probe.items == [1]
    assert isinstance(probe.error, ZeroDivisionError)
    assert source.cancelled
    assert source.outcomes == ["done", "failed"]


def test_a_function_that_raises() -> None:
    error = ArithmeticError("by the user")

    def fail(_items: Publisher[int]) -> Publisher[int]:
        raise error

    source = ManualPublisher[int]()
    probe = ProbeSubscriber[int](UNBOUNDED)
    parallel(source, 2, fail).subscribe(probe)

    assert probe.error is error
    assert probe.signals == ["on_subscribe", "on_error"]
    assert source.subscriptions == 0


def test_a_function_that_returns_no_publisher() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    parallel(range_(3), 2, lambda _items: None).subscribe(probe)  # type: ignore[arg-type,return-value]

    assert isinstance(probe.error, TypeError)
    assert str(probe.error) == "parallel(function): function must return a Publisher, not None"


@pytest.mark.parametrize("value", [0, -1])
def test_options_that_cannot_be(value: int) -> None:
    with pytest.raises(ConfigError, match=r"parallel\(workers=.*\): workers must be 1 or more"):
        parallel(range_(3), value, _tenfold)
    with pytest.raises(ConfigError, match=r"parallel\(window=.*\): window must be 1 or more items"):
        parallel(range_(3), 2, _tenfold, window=value)


@pytest.mark.parametrize("idle", [lambda items: take(items, 0), lambda _items: empty()], ids=["leaves", "never comes"])
def test_a_worker_that_leaves_at_once_or_never_comes_holds_up_nobody(
    idle: Callable[[Publisher[int]], Publisher[int]],
) -> None:
    workers, probe = iter([idle, _tenfold, idle]), ProbeSubscriber[int](UNBOUNDED)

    def work(items: Publisher[int]) -> Publisher[int]:
        return next(workers)(items)

    parallel(range_(5), 3, work).subscribe(probe)

    assert probe.items == [0, 10, 20, 30, 40]
    assert probe.completed


def test_a_worker_that_comes_late_begins_if_nobody_else_is_there() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](UNBOUNDED)
        parallel(range_(3), 2, lambda items: concat(ignore_elements(timer(1.0)), items)).subscribe(probe)
        scheduler.advance(2.0)

    assert sorted(probe.items) == [0, 1, 2]
    assert probe.completed
