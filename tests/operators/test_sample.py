from rstreams._core.demand import UNBOUNDED
from rstreams.operators.sample import sample
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.timed_contract import LatestContract


class TestSample(LatestContract):
    timed = staticmethod(sample)
    option = ("sample", "period_s")
    build = staticmethod(lambda source: sample(source, 1.0))
    model = staticmethod(lambda items: items[-1:])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))


def test_an_item_at_the_very_end_of_a_period_waits_for_the_next() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        sample(source, 1.0).subscribe(probe)
        scheduler.advance(1.0)
        source.next(1)
        scheduler.advance(0.5)
        source.next(2)
        assert probe.items == []
        scheduler.advance(0.5)

    assert probe.items == [2]


def test_the_periods_do_not_drift() -> None:
    times: list[float] = []
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        probe.on_item = lambda _: times.append(round(scheduler.now(), 6))
        sample(source, 0.1).subscribe(probe)
        for item in range(10):
            scheduler.advance(0.33)
            source.next(item)
        scheduler.advance(1.0)

    assert times == [0.4, 0.7, 1.0, 1.4, 1.7, 2.0, 2.4, 2.7, 3.0, 3.4]


def test_without_an_item_no_timer_is_set() -> None:
    with VirtualScheduler() as scheduler:
        source = ManualPublisher[int]()
        sample(source, 1.0).subscribe(ProbeSubscriber[int](UNBOUNDED))
        assert scheduler.timers == 0
        source.next(1)
        assert scheduler.timers == 1
        scheduler.advance(1.0)

        assert scheduler.timers == 0


def test_a_period_shorter_than_the_clock_can_tell_is_no_failure() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        sample(source, 5e-324).subscribe(probe)
        scheduler.advance(1.0)
        source.next(1)
        scheduler.run()

    assert probe.items == [1]
