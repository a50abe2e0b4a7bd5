import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import StreamTimeout
from rstreams.operators.do_on_cancel import do_on_cancel
from rstreams.operators.timeout import timeout
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.timed_contract import TimedContract


class TestTimeout(TimedContract):
    timed = staticmethod(timeout)
    option = ("timeout", "timeout_s")
    build = staticmethod(lambda source: timeout(source, 1.0))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_time_counts_only_while_there_is_demand() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        timeout(source, 5.0).subscribe(probe)
        source.next(1)
        scheduler.advance(50.0)
        assert not probe.ended
        probe.request(1)
        scheduler.advance(4.9)
        assert not probe.ended
        scheduler.advance(0.1)
        assert isinstance(probe.error, StreamTimeout)
        assert str(probe.error) == "timeout(timeout_s=5.0): no item for 5.0 seconds"
        assert source.cancelled
        assert scheduler.timers == 0


def test_the_fallback_goes_on_and_the_source_is_not_heard() -> None:
    with VirtualScheduler() as scheduler:
        source, other, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](2)
        timeout(source, 5.0, fallback=other).subscribe(probe)
        scheduler.advance(5.0)
        source.next(1)
        source.complete()
        other.next(8)
        scheduler.advance(50.0)
        other.complete()
        assert other.requests == [2]
        assert (probe.items, probe.completed) == ([8], True)


def test_a_fallback_that_is_none_is_named() -> None:
    with pytest.raises(TypeError, match=r"timeout\(fallback\): fallback must be a Publisher, not 3"):
        timeout(ManualPublisher[int](), 1.0, fallback=3)  # type: ignore[arg-type]


def test_before_the_first_request_no_time_counts_and_no_timer_is_set() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
        timeout(source, 5.0).subscribe(probe)
        scheduler.advance(50.0)

    assert not probe.ended
    assert scheduler.timers == 0


def test_each_item_begins_the_time_anew() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        timeout(source, 5.0).subscribe(probe)
        for item in range(10):
            scheduler.advance(4.9)
            source.next(item)
            assert scheduler.timers == 1
        scheduler.advance(4.9)
        assert not probe.ended
        scheduler.advance(0.2)

    assert isinstance(probe.error, StreamTimeout)


def test_a_request_while_one_is_unmet_gives_no_more_time() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        timeout(source, 5.0).subscribe(probe)
        scheduler.advance(4.0)
        probe.request(1)
        scheduler.advance(1.0)

    assert isinstance(probe.error, StreamTimeout)


def test_while_the_subscriber_is_busy_the_source_has_time() -> None:
    with VirtualScheduler() as scheduler:
        source = ManualPublisher[int]()
        probe = ProbeSubscriber[int](2, on_item=lambda _: blocks(scheduler, 50.0))
        timeout(source, 5.0).subscribe(probe)
        source.next(1)
        scheduler.run()
        assert not probe.ended
        scheduler.advance(4.9)
        assert not probe.ended
        scheduler.advance(0.2)

    assert isinstance(probe.error, StreamTimeout)


def blocks(scheduler: VirtualScheduler, seconds: float) -> None:
    """Let time pass, and nobody have a turn."""
    scheduler._now += seconds


def test_an_item_at_the_very_moment_is_too_late_behind_the_timer() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        timeout(source, 5.0).subscribe(probe)
        scheduler.call_later(5.0, lambda: source.next(1))
        scheduler.advance(5.0)

    assert probe.signals == ["on_subscribe", "on_error"]


@pytest.mark.parametrize("end", ["complete", "error", "cancel", "raise"])
def test_no_timer_is_left_at_any_end(end: str) -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
        timeout(source, 5.0).subscribe(probe)
        assert scheduler.timers == 1
        if end == "raise":
            probe.on_item = lambda _: 1 / 0
            with pytest.raises(ZeroDivisionError):
                source.next(1)
        else:
            {"complete": source.complete, "error": lambda: source.error(LookupError()), "cancel": probe.cancel}[end]()

        assert scheduler.timers == 0


def test_a_cancel_out_of_the_cancel_of_the_source_needs_no_fallback() -> None:
    with VirtualScheduler() as scheduler:
        source, other, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](1)
        timeout(do_on_cancel(source, lambda: probe.cancel()), 5.0, fallback=other).subscribe(probe)  # noqa: PLW0108
        scheduler.advance(5.0)

    assert other.subscriptions == 0
    assert probe.signals == ["on_subscribe"]


def test_what_the_fallback_sends_can_be_held_and_its_error_passes() -> None:
    with VirtualScheduler() as scheduler:
        source, other, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](2, hold=True)
        timeout(source, 5.0, fallback=other).subscribe(probe)
        scheduler.advance(5.0)
        other.next(8)
        assert other.outcomes == [None]
        source.error(ValueError("late"))
        other.error(LookupError())
        probe.holds[0].done()

    assert isinstance(probe.error, LookupError)
    assert other.outcomes == ["done"]
