import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.operators.flat_map import flat_map
from rstreams.operators.window_time import window_time
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.timed_contract import TimedContract


class TestWindowTime(TimedContract):
    timed = staticmethod(window_time)
    option = ("window_time", "span_s")
    build = staticmethod(lambda source: flat_map(window_time(source, 1.0), lambda window: window, concurrency=1))
    model = staticmethod(lambda items: items)
    requests = ((1, [256]), (5, [256]), (UNBOUNDED, [256]))


def _windows(
    source: Publisher[int], request: int = UNBOUNDED
) -> tuple[ProbeSubscriber[Publisher[int]], list[list[int]]]:
    items: list[list[int]] = []

    def read(window: Publisher[int]) -> None:
        reader = ProbeSubscriber[int](UNBOUNDED)
        items.append(reader.items)
        window.subscribe(reader)

    probe = ProbeSubscriber[Publisher[int]](request, on_item=read)
    window_time(source, 1.0).subscribe(probe)
    return probe, items


def test_a_wrong_prefetch_is_named() -> None:
    with pytest.raises(ConfigError, match=r"window_time\(prefetch=0\): prefetch must be 1 or more items"):
        window_time(range_(1), 1.0, prefetch=0)


def test_windows_follow_the_clock_empty_or_not() -> None:
    with VirtualScheduler() as scheduler:
        source = ManualPublisher[int]()
        probe, items = _windows(source)
        assert items == [[]]
        source.next(1, 2)
        scheduler.advance(1.0)
        scheduler.advance(1.0)
        source.next(3)
        scheduler.advance(0.5)
        source.complete()

        assert items == [[1, 2], [], [3]]
        assert probe.completed
        assert scheduler.timers == 0


def test_spans_do_not_drift() -> None:
    with VirtualScheduler() as scheduler:
        _, items = _windows(ManualPublisher[int]())
        for _ in range(100):
            scheduler.advance(0.7)

    assert len(items) == 70 + 1


def test_without_demand_no_empty_windows_pile_up() -> None:
    with VirtualScheduler() as scheduler:
        source = ManualPublisher[int]()
        probe, items = _windows(source, 1)
        scheduler.advance(10.0)
        source.next(1)
        scheduler.advance(10.0)
        source.next(2, 3)
        scheduler.advance(10.0)
        assert items == [[]]

        probe.request(5)

        assert items == [[], [1], [2, 3], []]


def test_an_item_opens_a_window_without_demand_and_its_time_begins_then() -> None:
    with VirtualScheduler() as scheduler:
        source = ManualPublisher[int]()
        probe, items = _windows(source, 1)
        scheduler.advance(1.5)
        source.next(1)
        scheduler.advance(0.9)
        source.next(2)
        scheduler.advance(0.2)
        source.next(3)
        probe.request(2)

        assert items == [[], [1, 2], [3]]


@pytest.mark.parametrize("end", ["cancel", "error"])
def test_no_timer_outlives_the_stream(end: str) -> None:
    with VirtualScheduler() as scheduler:
        source = ManualPublisher[int]()
        probe = ProbeSubscriber[Publisher[int]](1)
        window_time(source, 1.0).subscribe(probe)
        assert scheduler.timers == 1
        source.next(1)

        if end == "cancel":
            probe.cancel()
        else:
            source.error(ValueError())

        assert scheduler.timers == 0
        assert source.outcomes == ["released" if end == "cancel" else None]  # the window may still be subscribed to


def test_a_window_that_outlives_the_cancel_still_ends_in_time() -> None:
    with VirtualScheduler() as scheduler:
        source = ManualPublisher[int]()
        probe, items = _windows(source)
        source.next(1)
        probe.cancel()
        source.next(2)
        assert not source.cancelled
        scheduler.advance(1.0)

        assert items == [[1, 2]]
        assert source.cancelled
        assert scheduler.timers == 0


def test_empty_windows_nobody_subscribes_to_are_not_kept() -> None:
    with VirtualScheduler() as scheduler:
        taken: list[Publisher[int]] = []
        probe = ProbeSubscriber[Publisher[int]](UNBOUNDED, on_item=taken.append)
        window_time(ManualPublisher[int](), 1.0).subscribe(probe)
        scheduler.advance(100.0)

        assert len(taken) == 101
        assert len(probe.subscription._parts.live) == 1  # type: ignore[union-attr]
    taken[0].subscribe(late := ProbeSubscriber[int]())
    assert late.signals == ["on_subscribe", "on_complete"]
