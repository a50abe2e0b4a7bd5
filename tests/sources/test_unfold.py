from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError, DemandError
from rstreams.sources.unfold import unfold
from rstreams.testing import ProbeSubscriber, VirtualScheduler


class Steps:
    """Counts its calls, and goes up from 0 to `end`."""

    def __init__(self, end: int = 5, *, failure: Exception | None = None) -> None:
        self.calls = 0
        self._end = end
        self._failure = failure

    def plain(self, n: int) -> tuple[int, int] | None:
        self.calls += 1
        if n < self._end:
            return n, n + 1
        if self._failure is not None:
            raise self._failure
        return None

    async def waiting(self, n: int) -> tuple[int, int] | None:
        return self.plain(n)


Make = Callable[[Steps], Publisher[int]]
KINDS: dict[str, Make] = {
    "plain": lambda steps: unfold(0, steps.plain),
    "async": lambda steps: unfold(0, steps.waiting),
}
both = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())


@both
def test_a_step_is_taken_for_each_item_requested_and_no_more(make: Make) -> None:
    steps, probe = Steps(), ProbeSubscriber[int]()
    with VirtualScheduler() as scheduler:
        make(steps).subscribe(probe)
        for request, items in ((0, []), (1, [0]), (2, [0, 1, 2])):
            if request:
                probe.request(request)
            scheduler.run()
            assert probe.items == items
            assert steps.calls == len(items)
        probe.request(UNBOUNDED)
        scheduler.run()
    assert probe.items == [0, 1, 2, 3, 4]
    assert probe.signals == ["on_subscribe", *["on_next"] * 5, "on_complete"]
    assert steps.calls == 6


@both
def test_each_subscriber_starts_from_the_initial_state(make: Make) -> None:
    publisher = make(Steps(2))
    with VirtualScheduler() as scheduler:
        for _ in range(2):
            probe = ProbeSubscriber[int](UNBOUNDED)
            publisher.subscribe(probe)
            scheduler.run()
            assert probe.items == [0, 1]
            assert probe.completed


@both
def test_nothing_at_all(make: Make) -> None:
    probe = ProbeSubscriber[int](1)
    with VirtualScheduler() as scheduler:
        make(Steps(0)).subscribe(probe)
        scheduler.run()
    assert probe.signals == ["on_subscribe", "on_complete"]


@both
def test_requests_inside_on_next_do_not_recurse(make: Make) -> None:
    probe = ProbeSubscriber[int](1, on_item=lambda _: probe.request(1))
    with VirtualScheduler() as scheduler:
        make(Steps(10_000)).subscribe(probe)
        scheduler.advance(60)
    assert len(probe.items) == 10_000
    assert probe.completed


@both
def test_a_cancel_stops_it(make: Make) -> None:
    def cancel_at_one(item: int) -> None:
        if item == 1:
            probe.cancel()

    steps, probe = Steps(), ProbeSubscriber[int](UNBOUNDED, on_item=cancel_at_one)
    with VirtualScheduler() as scheduler:
        make(steps).subscribe(probe)
        scheduler.run()
        assert scheduler.running == 0
    assert probe.items == [0, 1]
    assert probe.signals[-1] == "on_next"
    assert steps.calls == 2


@both
def test_what_step_raises_is_the_error(make: Make) -> None:
    failure, probe = LookupError(), ProbeSubscriber[int](UNBOUNDED)
    with VirtualScheduler() as scheduler:
        make(Steps(2, failure=failure)).subscribe(probe)
        scheduler.run()
    assert probe.items == [0, 1]
    assert probe.error is failure


@both
def test_a_wrong_demand_ends_it(make: Make) -> None:
    probe = ProbeSubscriber[int]()
    with VirtualScheduler() as scheduler:
        make(Steps()).subscribe(probe)
        scheduler.run()
        probe.request(0)
        scheduler.run()
        assert scheduler.running == 0
    assert isinstance(probe.error, DemandError)


@both
def test_nobody_cannot_subscribe(make: Make) -> None:
    nobody: Any = None
    with pytest.raises(TypeError, match=r"1\.9"):
        make(Steps()).subscribe(nobody)


@pytest.mark.parametrize("made", [7, (1,), (1, 2, 3), "ab"])
def test_what_is_no_pair_is_named(made: Any) -> None:  # noqa: ANN401 - anything that is none
    async def step(_: int) -> Any:  # noqa: ANN401 - likewise
        return made

    for kind in (step, lambda _: made):
        probe = ProbeSubscriber[Any](1)
        with VirtualScheduler() as scheduler:
            unfold(0, kind).subscribe(probe)
            scheduler.run()
        assert isinstance(probe.error, TypeError)
        assert repr(made) in str(probe.error)


def test_an_async_step_is_cancelled_while_it_waits() -> None:
    ended = []

    def waits_in(scheduler: VirtualScheduler) -> Callable[[int], Awaitable[tuple[int, int] | None]]:
        async def step(_: int) -> tuple[int, int] | None:
            try:
                await scheduler.event().wait()
            finally:
                ended.append("step")
            return None

        return step

    probe = ProbeSubscriber[int](1)
    with VirtualScheduler() as scheduler:
        unfold(0, waits_in(scheduler)).subscribe(probe)
        scheduler.run()
        assert ended == []
        probe.cancel()
        scheduler.run()
        assert ended == ["step"]
    assert probe.signals == ["on_subscribe"]


def test_an_async_step_needs_a_scheduler() -> None:
    probe = ProbeSubscriber[int](1)
    unfold(0, Steps().waiting).subscribe(probe)
    assert isinstance(probe.error, ConfigError)
