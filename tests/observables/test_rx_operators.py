"""Every operator of the installed reactivex inside a stream, against the same operator on an observable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import reactivex
from reactivex import Observable, abc
from reactivex.disposable import Disposable, SerialDisposable
from reactivex.operators import _timeinterval, _timestamp

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.observables import rx
from rstreams.observables._rx_scheduler import rx_scheduler
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.observables.rx_operators import TABLE, Cannot, Works, installed

WORKING = {name: entry for name, entry in TABLE.items() if isinstance(entry, Works)}
CANNOT = {name: entry for name, entry in TABLE.items() if isinstance(entry, Cannot)}
each_working = pytest.mark.parametrize("entry", WORKING.values(), ids=WORKING.keys())


def _comparable(item: Any) -> Any:  # noqa: ANN401 - whatever an operator sends
    """Put something that can be compared in the place of observables, and of times."""
    if isinstance(item, Observable):
        return "an observable"
    if isinstance(item, tuple):
        return tuple(map(_comparable, item))
    if isinstance(item, (_timestamp.Timestamp, _timeinterval.TimeInterval)):
        return item.value
    if isinstance(item, reactivex.Notification):
        return str(item)
    return item


def _one_after_the_other(items: Sequence[Any], scheduler: VirtualScheduler) -> Observable[Any]:
    """Return an observable that sends each item when all that came of the one before is done with.

    `reactivex.from_iterable` sends all of its items before anything that they set off, as one job of its trampoline.
    """

    def subscribe(observer: abc.ObserverBase[Any], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        left = deque(items)

        def send() -> None:
            if left:
                observer.on_next(left.popleft())
                disposable.disposable = Disposable(scheduler.call_later(0, send).cancel)
            else:
                observer.on_completed()

        disposable = SerialDisposable()
        disposable.disposable = Disposable(scheduler.call_later(0, send).cancel)
        return disposable

    return reactivex.create(subscribe)


def _reactivex(entry: Works) -> tuple[list[Any], str]:
    """Return what the operator makes of an observable, and how that ends."""
    made: list[Any] = []
    ends: list[str] = []
    scheduler = VirtualScheduler()
    _one_after_the_other(entry.items, scheduler).pipe(entry.make()).subscribe(
        made.append,
        lambda error: ends.append(repr(error)),
        lambda: ends.append("complete"),
        scheduler=rx_scheduler(scheduler),
    )
    scheduler.advance(30)
    return [_comparable(item) for item in made], "".join(ends)


def _end(probe: ProbeSubscriber[Any]) -> str:
    return "complete" if probe.completed else "" if probe.error is None else repr(probe.error)


def test_the_table_has_every_operator_of_the_installed_version() -> None:
    assert sorted(TABLE) == sorted(installed())


@each_working
def test_unbounded_demand(entry: Works) -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[Any](UNBOUNDED)
        rx(from_iterable(entry.items), entry.make()).subscribe(probe)
        scheduler.advance(30)
    assert ([_comparable(item) for item in probe.items], _end(probe)) == _reactivex(entry)


@each_working
def test_one_by_one(entry: Works) -> None:
    """As many items as requested and no more; and the same ones, where no clock runs on between them."""
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[Any]()
        rx(from_iterable(entry.items), entry.make()).subscribe(probe)
        for requested in range(1, 30):
            probe.request(1)
            scheduler.run()
            assert len(probe.items) <= requested
        scheduler.advance(30)
    assert ([_comparable(item) for item in probe.items], _end(probe)) == _reactivex(entry)


@each_working
def test_cancel(entry: Works) -> None:
    """A cancel ends the source, the timers and what the operator subscribed to."""
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[Any](), ProbeSubscriber[Any](1)
        rx(source, entry.make()).subscribe(probe)
        for item in entry.items[:1]:
            if source.outstanding and not source.cancelled:
                source.next(item)
        signals = list(probe.signals)
        probe.cancel()
        scheduler.advance(30)
        assert probe.signals == signals
        assert source.cancelled or not source.subscriptions
        assert None not in source.outcomes


@pytest.mark.parametrize("entry", CANNOT.values(), ids=CANNOT.keys())
def test_what_cannot_stand_inside_a_stream_says_so(entry: Cannot) -> None:
    probe = ProbeSubscriber[Any](1)
    rx(from_iterable([1]), entry.make()).subscribe(probe)
    assert isinstance(probe.error, TypeError)
    assert "rx(operator): operator must return an Observable, not " in str(probe.error)


def _steps() -> dict[str, Callable[[Stream[int]], Stream[Any]]]:
    from reactivex import operators

    return {
        "map": lambda s: s.rx(operators.map(lambda x: x + 1)),
        "to_list": lambda s: s.rx(operators.to_list()),
    }


@pytest.mark.parametrize("name", ["map", "to_list"])
async def test_as_a_method_of_stream(name: str) -> None:
    made = await _steps()[name](Stream.range(5)).to_list()
    assert made == {"map": [1, 2, 3, 4, 5], "to_list": [[0, 1, 2, 3, 4]]}[name]
