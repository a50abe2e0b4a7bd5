from rstreams._core.demand import UNBOUNDED
from rstreams.operators.delay_each import delay_each
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler, cold, expect_marbles
from tests.operators.timed_contract import TimedContract


class TestDelayEach(TimedContract):
    timed = staticmethod(delay_each)
    option = ("delay_each", "delay_s")
    build = staticmethod(lambda source: delay_each(source, 1.0))
    model = list
    requests = ((1, [1]), (5, [1]), (UNBOUNDED, [1]))

    def settle(self) -> None:
        self.scheduler.advance(20_000.0)


def test_a_pause_before_each() -> None:
    expect_marbles(delay_each(of(1, 2, 3), 2.0), "--1-2-(3|)")


def test_an_item_that_comes_late_has_its_pause_all_the_same() -> None:
    expect_marbles(delay_each(cold("a------b--|"), 2.0), "--a------b|")


def test_one_item_at_a_time_is_asked_for_and_none_is_lost() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        delay_each(source, 4.0).subscribe(probe)
        assert source.requests == [1]
        source.next(1)
        scheduler.advance(3.9)
        assert (probe.items, source.outcomes) == ([], [None])
        scheduler.advance(0.1)
        assert (probe.items, source.outcomes) == ([1], ["done"])
        assert source.requests == [1, 1]


def test_the_item_that_waits_is_given_back_and_no_timer_is_left() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](5)
        delay_each(source, 4.0).subscribe(probe)
        source.next(1)
        scheduler.advance(2.0)
        assert scheduler.timers == 1
        probe.cancel()
        scheduler.run()
        assert source.outcomes == ["released"]
        assert (scheduler.timers, scheduler.running) == (0, 0)
        assert probe.items == []
