from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import Counts, counts_of
from rstreams.abc import Subscription
from rstreams.errors import ConfigError, DemandError, SpecViolation
from rstreams.sources.interval import interval
from rstreams.testing import ProbeSubscriber, VirtualScheduler


def test_a_tick_without_demand_is_not_made_up_for() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](1)
        interval(1.0, initial_delay_s=0).subscribe(probe)
        scheduler.advance(3.5)
        assert probe.items == [0]
        probe.request(2)
        assert probe.items == [0, 3]
        scheduler.advance(0.5)
        assert probe.items == [0, 3, 4]
        probe.cancel()
        assert scheduler.timers == 0


@pytest.mark.parametrize("value", [0, 0.0, -1.0, float("nan"), float("inf"), float("-inf"), "1", True, None, 10**400])
def test_a_wrong_period_is_named(value: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(ConfigError) as caught:
        interval(value)

    assert (
        str(caught.value) == f"interval(period_s={value!r}): period_s must be a finite number of seconds, more than 0"
    )


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), float("-inf"), "1", True, 10**400])
def test_a_wrong_first_delay_is_named(value: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(ConfigError) as caught:
        interval(1.0, initial_delay_s=value)

    assert (
        str(caught.value)
        == f"interval(initial_delay_s={value!r}): initial_delay_s must be a finite number of seconds, 0 or more"
    )


def test_without_a_scheduler_there_is_no_time() -> None:
    probe = ProbeSubscriber[int](1)
    interval(1.0).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert str(probe.error).startswith("interval needs a scheduler and found none")


def test_without_demand_no_timer_runs_and_the_latest_tick_is_told() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int]()
        interval(0.1).subscribe(probe)
        scheduler.advance(0.05)
        assert counts_of(probe._subscribed()) == Counts(0, 0, 0)
        scheduler.advance(100.0)
        assert scheduler.timers == 0
        assert counts_of(probe._subscribed()) == Counts(0, 0, 1)
        probe.request(UNBOUNDED)
        assert probe.items == [999]
        scheduler.advance(0.1)

    assert probe.items == [999, 1000]


def test_at_the_very_moment_of_a_tick_it_is_that_tick() -> None:
    for ticks in range(1, 200):
        with VirtualScheduler() as scheduler:
            probe = ProbeSubscriber[int]()
            interval(0.1).subscribe(probe)
            scheduler.advance(0.1 + ticks * 0.1)
            probe.request(1)
            assert probe.items == [ticks]


def test_ticks_do_not_drift_and_late_ones_are_left_out() -> None:
    times: list[tuple[int, float]] = []
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](UNBOUNDED)

        def on_item(item: int) -> None:
            times.append((item, scheduler.now()))
            scheduler._now += 2.5 if item == 1 else 0.3  # time passes, and nobody has a turn

        probe.on_item = on_item
        interval(1.0).subscribe(probe)
        scheduler.advance(7.0)

    assert times == [(0, 1.0), (1, 2.0), (3, 4.5), (4, 5.0), (5, 6.0), (6, 7.0)]


def test_one_by_one_out_of_on_next() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](1, on_item=lambda _: probe.request(1))
        interval(1.0).subscribe(probe)
        scheduler.advance(3.0)
        assert probe.items == [0, 1, 2]
        probe.on_item = lambda _: probe.cancel()
        scheduler.advance(10.0)

    assert probe.items == [0, 1, 2, 3]
    assert scheduler.timers == 0


def test_a_wrong_demand_ends_the_ticks() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](1)
        interval(1.0).subscribe(probe)
        probe.request(0)

    assert isinstance(probe.error, DemandError)
    assert scheduler.timers == 0


def test_a_subscriber_that_raises_ends_the_ticks() -> None:
    class Raises(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:  # noqa: ARG002 - it goes no further
            raise ArithmeticError

    with VirtualScheduler() as scheduler:
        with pytest.raises(ArithmeticError):
            interval(1.0).subscribe(Raises())
        assert scheduler.timers == 0
        interval(1.0).subscribe(ProbeSubscriber[int](5, on_item=lambda _: 1 / 0))
        with pytest.raises(ZeroDivisionError):
            scheduler.advance(1.0)

        assert scheduler.timers == 0


def test_another_thread_is_refused() -> None:
    with VirtualScheduler() as scheduler, ThreadPoolExecutor(1) as threads:
        probe = ProbeSubscriber[int](1)
        interval(1.0).subscribe(probe)
        for call in (probe.cancel, lambda: probe.request(1)):
            with pytest.raises(SpecViolation, match=r"2\.7"):
                threads.submit(call).result()
        scheduler.advance(5.0)

    assert probe.items == [0]


def test_a_period_shorter_than_the_clock_can_tell_is_no_failure() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](1)
        interval(5e-324, initial_delay_s=0).subscribe(probe)
        scheduler.advance(1.0)
        probe.request(1)

    assert probe.items == [0, 2**63]  # the highest there is
