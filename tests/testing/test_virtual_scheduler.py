"""VirtualScheduler: tasks and timers in the order of their times, and nothing by itself."""

from __future__ import annotations

import pytest

from rstreams._core.scheduler import current_scheduler
from rstreams.errors import ConfigError
from rstreams.testing import VirtualScheduler
from rstreams.testing.virtual_scheduler import virtual_time


def test_timers_fire_in_the_order_of_their_times_and_then_of_their_setting() -> None:
    fired: list[tuple[str, float]] = []
    with VirtualScheduler() as scheduler:
        for name, delay_s in [("late", 2.0), ("first", 1.0), ("second", 1.0), ("at once", 0.0)]:
            scheduler.call_later(delay_s, lambda name=name: fired.append((name, scheduler.now())))  # type: ignore[misc]
        scheduler.call_later(1.5, lambda: fired.append(("cancelled", 0))).cancel()
        assert scheduler.timers == 4
        assert fired == []
        scheduler.advance(1.0)
        assert fired == [("at once", 0.0), ("first", 1.0), ("second", 1.0)]
        scheduler.advance(5.0)
        assert fired[3:] == [("late", 2.0)]
        assert scheduler.now() == 6.0
        assert scheduler.timers == 0


def test_a_timer_set_by_a_timer_falls_due_on_the_way() -> None:
    fired: list[float] = []

    def again() -> None:
        fired.append(scheduler.now())
        scheduler.call_later(1.0, again)

    with VirtualScheduler() as scheduler:
        scheduler.call_later(1.0, again)
        scheduler.advance(3.5)
    assert fired == [1.0, 2.0, 3.0]


def test_tasks_wait_for_events() -> None:
    seen: list[str] = []

    async def wait() -> None:
        seen.append("begun")
        await event.wait()
        seen.append("woken")
        await event.wait()  # happened: goes on at once
        seen.append(await scheduler.in_thread(lambda: "from the thread"))

    with VirtualScheduler() as scheduler:
        event = scheduler.event()
        scheduler.start(wait)
        assert seen == []
        scheduler.run()
        assert (seen, scheduler.running) == (["begun"], 1)
        event.set()
        scheduler.run()
        assert (seen, scheduler.running) == (["begun", "woken", "from the thread"], 0)


def test_a_cancelled_task_sees_it_where_it_waits() -> None:
    seen: list[str] = []

    async def wait() -> None:
        try:
            await scheduler.event().wait()
        finally:
            seen.append("cancelled")

    with VirtualScheduler() as scheduler:
        scheduler.start(wait)
        scheduler.run()
        scheduler.start(wait).cancel()  # before its first step
        scheduler.run()
        assert seen == []
    assert seen == ["cancelled"], "the end of the block cancels what is left"


def test_what_a_task_or_a_timer_raises_is_raised_in_the_test() -> None:
    async def fail() -> None:
        raise LookupError

    with VirtualScheduler() as scheduler:
        scheduler.start(fail)
        with pytest.raises(LookupError):
            scheduler.run()
        scheduler.call_later(1, lambda: 1 // 0)  # type: ignore[arg-type]
        with pytest.raises(ZeroDivisionError):
            scheduler.advance(1)


def test_a_task_that_waits_for_something_else_is_told() -> None:
    class Other:
        def __await__(self):  # type: ignore[no-untyped-def]  # noqa: ANN204
            yield "something else"

    async def wait() -> None:
        await Other()

    with VirtualScheduler() as scheduler:
        scheduler.start(wait)
        with pytest.raises(TypeError, match="something else"):
            scheduler.run()


def test_random_numbers_are_the_same_in_every_run() -> None:
    one, other = VirtualScheduler(), VirtualScheduler()
    numbers = [one.random() for _ in range(5)]
    assert numbers == [other.random() for _ in range(5)]
    assert all(0 <= number < 1 for number in numbers)


def test_it_is_current_in_its_block_only() -> None:
    assert current_scheduler.get(None) is None
    with VirtualScheduler() as scheduler:
        assert current_scheduler.get(None) is scheduler
        with virtual_time() as same:
            assert same is scheduler
    assert current_scheduler.get(None) is None
    with virtual_time() as own:
        assert current_scheduler.get(None) is own
    assert current_scheduler.get(None) is None


@pytest.mark.parametrize("seconds", [-3, -0.1, float("nan")])
def test_time_does_not_run_back(seconds: float) -> None:
    scheduler = VirtualScheduler()
    scheduler.advance(5)
    with pytest.raises(ConfigError, match=r"^advance\(seconds=.*\): seconds must be 0 or more$"):
        scheduler.advance(seconds)
    assert scheduler.now() == 5
