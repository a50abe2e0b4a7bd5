import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.buffer_time import buffer_time
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.timed_contract import TimedContract


class TestBufferTime(TimedContract):
    timed = staticmethod(buffer_time)
    option = ("buffer_time", "span_s")
    build = staticmethod(lambda source: buffer_time(source, 1.0, max_items=20_000))
    model = staticmethod(lambda items: [list(items)] if items else [])
    requests = ((1, [20_000]), (5, [20_000]), (UNBOUNDED, [20_000]))


def test_a_wrong_bound_is_named() -> None:
    with pytest.raises(ConfigError, match=r"buffer_time\(max_items=0\): max_items must be 1 or more items"):
        buffer_time(range_(1), 1.0, max_items=0)


def test_a_list_for_every_span_empty_or_not_but_for_the_last() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](UNBOUNDED)
        buffer_time(source, 1.0).subscribe(probe)
        source.next(1, 2)
        scheduler.advance(1.0)
        scheduler.advance(1.0)
        source.next(3)
        scheduler.advance(1.0)
        source.complete()

        assert probe.items == [[1, 2], [], [3]]
        assert probe.completed
        assert scheduler.timers == 0


def test_without_demand_a_list_gathers_on_within_its_bound() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](1)
        buffer_time(source, 1.0, max_items=3).subscribe(probe)
        source.next(1)
        scheduler.advance(1.0)
        assert probe.items == [[1]]
        assert source.outstanding == 2  # asked for before; no list is wanted now
        source.next(2, 3)
        scheduler.advance(5.0)
        assert probe.items == [[1]]

        probe.request(1)
        assert probe.items == [[1], [2, 3]]
        assert source.outstanding == 0
        probe.request(1)

        assert source.outstanding == 3


def test_an_empty_list_that_nobody_wanted_is_dropped_and_time_begins_anew() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](1)
        buffer_time(source, 1.0).subscribe(probe)
        scheduler.advance(5.5)
        assert probe.items == [[]]

        probe.request(1)
        scheduler.advance(0.9)
        assert probe.items == [[]]
        scheduler.advance(0.1)

        assert probe.items == [[], []]


def test_a_full_list_waits_for_its_time_and_the_source_with_it() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](UNBOUNDED)
        buffer_time(source, 1.0, max_items=2).subscribe(probe)
        source.next(1, 2)
        assert probe.items == []
        assert source.outstanding == 0

        scheduler.advance(1.0)

        assert probe.items == [[1, 2]]
        assert source.outstanding == 2


def test_the_last_list_waits_for_demand() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](1)
        buffer_time(source, 1.0).subscribe(probe)
        scheduler.advance(1.0)
        source.next(1)
        source.complete()
        assert probe.items == [[]]
        assert not probe.completed

        probe.request(1)

        assert probe.items == [[], [1]]
        assert probe.completed


def test_items_are_held_until_their_list_is_handled() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](UNBOUNDED, hold=True)
        buffer_time(source, 1.0).subscribe(probe)
        source.next(1, 2)
        scheduler.advance(1.0)
        source.next(3)
        assert source.outcomes == [None] * 3

        probe.holds[0].done()
        probe.cancel()

        assert source.outcomes == ["done", "done", "released"]
        assert scheduler.timers == 0


def test_an_error_stops_the_clock_and_gives_back_the_items() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](UNBOUNDED)
        buffer_time(source, 1.0).subscribe(probe)
        source.next(1)
        source.error(ValueError())

        assert source.outcomes == ["released"]
        assert scheduler.timers == 0


def test_spans_do_not_drift() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[list[int]](UNBOUNDED)
        buffer_time(ManualPublisher[int](), 1.0).subscribe(probe)
        for _ in range(100):
            scheduler.advance(0.7)

    assert len(probe.items) == 70


class Link(ManualPublisher[int]):
    window = 4


def test_over_a_link_the_window_bounds_too() -> None:
    with VirtualScheduler():
        source = Link()
        buffer_time(source, 1.0).subscribe(ProbeSubscriber[list[int]](1))

    assert source.requests == [4]
