from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import trio
import trio.testing

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Event, Publisher, Subscription
from rstreams.errors import ConfigError
from rstreams.operators.map_async import map_async
from rstreams.operators.take import take
from rstreams.runtime.scope import Scope
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import FunctionContract


async def _ten_times(x: int) -> int:
    return x * 10


def _calling(function: Callable[[], object]) -> Callable[[int], Awaitable[object]]:
    async def call(_: int) -> object:
        return function()

    return call


@pytest.fixture
def scheduler() -> Iterator[VirtualScheduler]:
    with VirtualScheduler() as scheduler:
        yield scheduler


class _Contract(FunctionContract):
    failing = staticmethod(lambda source, function: map_async(source, _calling(function)))
    scheduler: VirtualScheduler

    @pytest.fixture(autouse=True)
    def _with_scheduler(self, scheduler: VirtualScheduler) -> None:
        self.scheduler = scheduler

    def settle(self) -> None:
        self.scheduler.run()


class TestMapAsync(_Contract):
    build = staticmethod(lambda source: map_async(source, _ten_times))
    model = staticmethod(lambda items: [x * 10 for x in items])
    requests = ((1, [1]), (5, [1]), (UNBOUNDED, [1]))


class TestMapAsyncSeveral(_Contract):
    build = staticmethod(lambda source: map_async(source, _ten_times, concurrency=3))
    model = staticmethod(lambda items: [x * 10 for x in items])
    requests = ((1, [1]), (3, [3]), (5, [3]), (UNBOUNDED, [3]))


class TestMapAsyncUnordered(_Contract):
    build = staticmethod(lambda source: map_async(source, _ten_times, concurrency=3, ordered=False))
    model = staticmethod(lambda items: [x * 10 for x in items])
    requests = ((1, [1]), (3, [3]), (5, [3]), (UNBOUNDED, [3]))


class Doors:
    """An async function that waits for the test to open the door of each item."""

    def __init__(self) -> None:
        self.doors: dict[int, Event] = {}
        self.running: list[int] = []

    async def __call__(self, item: int) -> str:
        self.running.append(item)
        try:
            await self.doors.setdefault(item, VirtualScheduler().event()).wait()
        finally:
            self.running.remove(item)
        if item < 0:
            raise LookupError(item)
        return f"r{item}"

    def open(self, *items: int) -> None:
        for item in items:
            self.doors.setdefault(item, VirtualScheduler().event()).set()


class Setup:
    def __init__(
        self,
        scheduler: VirtualScheduler,
        request: int,
        *,
        hold: bool = False,
        concurrency: int = 1,
        ordered: bool = True,
    ) -> None:
        self.scheduler, self.doors = scheduler, Doors()
        self.source, self.probe = ManualPublisher[int](), ProbeSubscriber[str](request, hold=hold)
        map_async(self.source, self.doors, concurrency=concurrency, ordered=ordered).subscribe(self.probe)

    def next(self, *items: int) -> None:
        self.source.next(*items)
        self.scheduler.run()

    def open(self, *items: int) -> None:
        for item in items:
            self.doors.open(item)
            self.scheduler.run()


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_a_wrong_concurrency_is_named(value: int) -> None:
    with pytest.raises(ConfigError, match=rf"map_async\(concurrency={value!r}\): concurrency must be 1 or more"):
        map_async(range_(1), _ten_times, concurrency=value)


def test_without_a_scope_the_stream_ends_with_what_is_missing() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)

    map_async(source, _ten_times).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert "map_async needs a scheduler" in str(probe.error)
    assert source.subscriptions == 0


def test_results_come_in_the_order_of_the_items(scheduler: VirtualScheduler) -> None:
    s = Setup(scheduler, UNBOUNDED, concurrency=3)
    s.next(1, 2, 3)

    s.open(3, 2)
    assert s.probe.items == []
    s.open(1)

    assert s.probe.items == ["r1", "r2", "r3"]


def test_unordered_results_come_as_they_are_ready(scheduler: VirtualScheduler) -> None:
    s = Setup(scheduler, UNBOUNDED, concurrency=3, ordered=False)
    s.next(1, 2, 3)

    s.open(3)
    assert s.probe.items == ["r3"]
    s.open(1, 2)

    assert s.probe.items == ["r3", "r1", "r2"]


@pytest.mark.parametrize("ordered", [True, False])
def test_no_more_items_are_kept_than_the_concurrency(scheduler: VirtualScheduler, ordered: bool) -> None:  # noqa: FBT001
    s = Setup(scheduler, UNBOUNDED, concurrency=2, ordered=ordered)
    assert s.source.requests == [2]
    s.next(1, 2)
    assert s.source.outstanding == 0

    s.open(1)

    assert s.source.requests == [2, 1]


def test_a_result_that_waits_for_its_turn_counts_as_kept(scheduler: VirtualScheduler) -> None:
    s = Setup(scheduler, UNBOUNDED, concurrency=2)
    s.next(1, 2)

    s.open(2)
    assert s.source.requests == [2]
    s.open(1)

    assert s.source.requests == [2, 1, 1]


def test_no_item_is_drawn_whose_result_nobody_asked_for(scheduler: VirtualScheduler) -> None:
    s = Setup(scheduler, 1, concurrency=4)
    assert s.source.requests == [1]

    s.next(1)
    s.open(1)
    assert s.source.requests == [1]
    s.probe.request(2)
    assert s.source.requests == [1, 2]
    s.probe.request(5)

    assert s.source.requests == [1, 2, 2]


def test_an_error_cancels_the_other_tasks_and_gives_back_their_items(scheduler: VirtualScheduler) -> None:
    s = Setup(scheduler, UNBOUNDED, concurrency=4)
    s.next(1, -2, 3, 4)

    s.open(3)
    s.open(-2)

    assert isinstance(s.probe.error, LookupError)
    assert s.probe.items == []
    assert s.source.cancelled
    assert s.source.outcomes == ["released", "failed", "released", "released"]
    assert s.source.errors[1] is s.probe.error
    assert s.doors.running == []
    assert scheduler.running == 0


def test_an_error_of_the_source_comes_behind_the_results(scheduler: VirtualScheduler) -> None:
    s = Setup(scheduler, UNBOUNDED, concurrency=2)
    s.next(1, 2)
    error = ValueError()

    s.source.error(error)
    scheduler.run()
    assert not s.probe.ended
    s.open(2)
    s.open(1)

    assert s.probe.error is error
    assert len(s.probe.items) == 2
    assert s.source.outcomes == ["done", "done"]
    assert s.doors.running == []


def test_a_cancel_cancels_the_tasks_and_gives_back_their_items(scheduler: VirtualScheduler) -> None:
    s = Setup(scheduler, UNBOUNDED, concurrency=3)
    s.next(1, 2, 3)
    s.open(2)

    s.probe.cancel()
    assert s.source.cancelled
    assert s.source.outcomes == ["released"] * 3
    s.open(1, 3)

    assert s.probe.signals == ["on_subscribe"]
    assert s.doors.running == []
    assert scheduler.running == 0


def test_a_cancel_in_a_result_stops_those_that_are_ready_behind_it(scheduler: VirtualScheduler) -> None:
    s = Setup(scheduler, UNBOUNDED, concurrency=3)
    s.probe.on_item = lambda _: s.probe.cancel()
    s.next(1, 2, 3)

    s.open(3, 2, 1)

    assert s.probe.items == ["r1"]
    assert s.source.outcomes == ["done", "released", "released"]


def test_completion_waits_for_the_results(scheduler: VirtualScheduler) -> None:
    s = Setup(scheduler, UNBOUNDED, concurrency=2)
    s.next(1, 2)
    s.source.complete()
    assert not s.probe.completed

    s.open(2, 1)

    assert s.probe.items == ["r1", "r2"]
    assert s.probe.completed


def test_completion_that_a_request_inside_on_next_brings_comes_after_it(scheduler: VirtualScheduler) -> None:
    seen: list[list[str]] = []
    probe = ProbeSubscriber[int](1)

    def on_item(_: int) -> None:
        probe.request(1)
        seen.append(list(probe.signals))

    probe.on_item = on_item
    source = ManualPublisher[int](on_request=lambda _: source.complete() if source.outcomes else None)
    map_async(source, _ten_times, concurrency=2).subscribe(probe)
    source.next(1)
    scheduler.run()

    assert probe.completed
    assert seen == [["on_subscribe", "on_next"]]


def test_an_item_is_held_until_its_result_is_let_go(scheduler: VirtualScheduler) -> None:
    s = Setup(scheduler, UNBOUNDED, concurrency=2, hold=True)
    s.next(1, 2)
    s.open(1, 2)
    assert s.source.outcomes == [None, None]

    s.probe.holds[1].fail(ValueError())
    s.probe.holds[0].done()

    assert s.source.outcomes == ["done", "failed"]


def test_a_function_that_is_not_async_is_an_error(scheduler: VirtualScheduler) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    map_async(source, lambda x: x).subscribe(probe)  # type: ignore[arg-type, return-value]
    source.next(1)
    scheduler.run()

    assert isinstance(probe.error, TypeError)
    assert source.outcomes == ["failed"]


def test_a_function_that_fails_when_it_is_cancelled_is_heard_no_more(scheduler: VirtualScheduler) -> None:
    door = VirtualScheduler().event()

    async def fail_on_cancel(_: int) -> None:
        try:
            await door.wait()
        except BaseException:  # the cancellation, whatever it is
            raise LookupError from None

    source, probe = ManualPublisher[int](), ProbeSubscriber[None](1)
    map_async(source, fail_on_cancel).subscribe(probe)
    source.next(1)
    scheduler.run()
    probe.cancel()
    scheduler.run()

    assert probe.signals == ["on_subscribe"]
    assert source.outcomes == ["released"]


def test_a_result_that_comes_after_the_end_is_dropped(scheduler: VirtualScheduler) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    map_async(source, _ten_times, concurrency=2).subscribe(probe)
    source.next(1, 2)
    probe.on_item = lambda _: probe.cancel()
    scheduler.run()

    assert probe.items == [10]
    assert source.outcomes == ["done", "released"]


# under trio


async def _until_ended(publisher: Publisher[Any], probe: ProbeSubscriber[Any]) -> None:
    ended = trio.Event()

    class Ending(ProbeSubscriber[Any]):
        def on_complete(self) -> None:
            probe.on_complete()
            ended.set()

        def on_error(self, error: BaseException) -> None:
            probe.on_error(error)
            ended.set()

        on_next = probe.on_next

        def on_subscribe(self, subscription: Subscription) -> None:
            probe.on_subscribe(subscription)

    publisher.subscribe(Ending())
    await ended.wait()


async def test_tasks_run_side_by_side(autojump_clock: trio.testing.MockClock) -> None:
    async def slowly(x: int) -> int:
        await trio.sleep(10 - x)
        return x

    for ordered in (True, False):
        start, probe = autojump_clock.current_time(), ProbeSubscriber[int](UNBOUNDED)
        async with Scope():
            await _until_ended(map_async(range_(10), slowly, concurrency=5, ordered=ordered), probe)
        assert sorted(probe.items) == list(range(10))
        assert (probe.items == list(range(10))) is ordered
        assert autojump_clock.current_time() - start < sum(range(1, 11)) / 2


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("concurrency", [2, 3, 7, 16])
@pytest.mark.usefixtures("autojump_clock")
async def test_as_many_items_are_at_work_as_may_be(concurrency: int, ordered: bool) -> None:  # noqa: FBT001
    """Each item is through when all places have been taken together with it."""
    inside = 0
    together = trio.Event()

    async def meet(x: int) -> int:
        nonlocal inside, together
        inside += 1
        if inside == concurrency:
            inside = 0
            together.set()
            together = trio.Event()
            await trio.sleep(x % 3)
        else:
            await together.wait()
        return x

    with trio.fail_after(3600):
        results = (
            await Stream.range(concurrency * 5).map_async(meet, concurrency=concurrency, ordered=ordered).to_list()
        )
    assert sorted(results) == list(range(concurrency * 5))


async def test_leaving_the_scope_ends_the_tasks_and_gives_back_their_items() -> None:
    running = 0

    async def forever(_: int) -> None:
        nonlocal running
        running += 1
        try:
            await trio.sleep_forever()
        finally:
            running -= 1

    source, probe = ManualPublisher[int](), ProbeSubscriber[None](UNBOUNDED)
    async with Scope():
        map_async(source, forever, concurrency=4).subscribe(probe)
        source.next(1, 2, 3, 4)
        await trio.testing.wait_all_tasks_blocked()
        assert running == 4

    assert running == 0
    assert probe.signals == ["on_subscribe"]
    assert source.cancelled
    assert source.outcomes == ["released"] * 4


async def test_the_task_that_fails_leaves_the_scope_alive() -> None:
    error = LookupError()

    async def fail(_: int) -> None:
        raise error

    probe = ProbeSubscriber[None](UNBOUNDED)
    async with Scope():
        await _until_ended(map_async(range_(10), fail, concurrency=4), probe)

    assert probe.error is error


async def test_an_error_a_subscriber_raises_ends_the_scope() -> None:
    error = ArithmeticError()

    def on_item(_: int) -> None:
        raise error

    probe = ProbeSubscriber[int](UNBOUNDED, on_item=on_item)
    with pytest.raises(ArithmeticError) as caught:
        async with Scope():
            await _until_ended(map_async(range_(10), _ten_times, concurrency=4), probe)

    assert caught.value is error
    assert probe.items == [0]


async def test_the_function_is_called_no_more_often_than_results_are_taken() -> None:
    called: list[int] = []

    async def note(x: int) -> int:
        called.append(x)
        return x

    probe = ProbeSubscriber[int](UNBOUNDED)
    async with Scope():
        await _until_ended(take(map_async(range_(100), note, concurrency=8), 3), probe)

    assert probe.items == [0, 1, 2]
    assert sorted(called) == [0, 1, 2]


def test_a_function_that_is_not_async_is_told_so(scheduler: VirtualScheduler) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[None](1)
    map_async(source, lambda _: None).subscribe(probe)  # type: ignore[arg-type, return-value]
    source.next(1)
    scheduler.run()
    assert isinstance(probe.error, TypeError)
    assert str(probe.error).startswith("map_async(function): function must return an awaitable, not None")
    assert source.outcomes == ["failed"]
