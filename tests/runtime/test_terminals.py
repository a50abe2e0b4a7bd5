"""The awaited terminals and `open`: values, errors, demand, and what becomes of each item."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio
import trio.testing

import rstreams
from rstreams import Stream, _machine
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import SLICE
from rstreams._core.subscription import ENDED
from rstreams.abc import Hold, Subscriber
from rstreams.errors import ConfigError, SpecViolation
from rstreams.sinks.buffer_sink import BufferSink
from rstreams.testing import ManualPublisher


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked()


# to_list, first_or_none, for_each


async def test_to_list_returns_all_items() -> None:
    assert await Stream.range(3 * SLICE + 1).to_list() == list(range(3 * SLICE + 1))
    assert await Stream.empty().to_list() == []


async def test_a_terminal_raises_what_the_stream_failed_with() -> None:
    error = LookupError("no more")
    failing = Stream.of(1).concat(Stream.fail(error))
    for terminal in (failing.to_list, Stream.fail(error).first_or_none):
        with pytest.raises(LookupError) as caught:
            await terminal()
        assert caught.value is error


async def test_a_terminal_requests_slices_and_never_without_bound() -> None:
    source = ManualPublisher[int]()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Stream(source).to_list)
        await settled()
        assert source.requested == SLICE
        source.next(*range(SLICE // 2))
        await settled()
        assert source.requested == SLICE + SLICE // 2
        source.complete()


async def test_first_or_none_draws_one_item() -> None:
    source = ManualPublisher[str]()
    first: list[str | None] = []

    async def take() -> None:
        first.append(await Stream(source).first_or_none())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await settled()
        assert source.requested == 1
        source.next("a")
    assert (first, source.cancelled, source.outcomes) == (["a"], True, ["done"])
    nothing: int | None = await Stream.range(0).first_or_none()
    assert nothing is None


async def test_for_each_calls_a_plain_function() -> None:
    seen: list[int] = []
    await Stream.range(2000).for_each(seen.append)
    assert seen == list(range(2000))


async def test_for_each_awaits_an_async_function_item_by_item() -> None:
    seen: list[str] = []

    async def slowly(number: int) -> None:
        seen.append(f"begin {number}")
        await trio.lowlevel.checkpoint()
        seen.append(f"end {number}")

    await Stream.range(2).for_each(slowly)
    assert seen == ["begin 0", "end 0", "begin 1", "end 1"]


async def test_what_for_each_raises_fails_the_item_and_cancels() -> None:
    source = ManualPublisher[int]()
    error = ValueError("bad item")

    def refuse(number: int) -> None:
        if number == 1:
            raise error

    async def run() -> None:
        with pytest.raises(ValueError, match="bad item") as caught:
            await Stream(source).for_each(refuse)
        assert caught.value is error

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await settled()
        source.next(0)
        source.next(1)
    assert (source.outcomes, source.cancelled) == (["done", "failed"], True)


async def test_for_each_does_not_lose_a_coroutine() -> None:
    async def never_awaited() -> None: ...

    with pytest.raises(TypeError, match="define it with `async def`"):
        await Stream.of(1).for_each(lambda _: never_awaited())


async def test_a_cancelled_terminal_cancels_the_source() -> None:
    source = ManualPublisher[int]()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(Stream(source).to_list)
            await settled()
            scope.cancel()
    assert source.cancelled


async def test_a_stage_of_a_terminal_has_a_scope_inside_another_one() -> None:
    async def twice(number: int) -> int:
        await trio.lowlevel.checkpoint()
        return 2 * number

    async with Stream.range(2).open() as outer:
        async for number in outer:
            assert await Stream.of(number).map_async(twice).to_list() == [2 * number]


# open


async def opened(source: ManualPublisher[int], window: int, *items: int) -> list[int]:
    """Open the stream, send the items, and take the first two."""
    taken: list[int] = []
    async with Stream(source).open(window) as stream:
        source.next(*items)
        async for item in stream:
            taken.append(item)
            if len(taken) == 2:
                break
    return taken


async def test_after_a_break_the_last_item_is_done_and_the_rest_released() -> None:
    source = ManualPublisher[int]()
    assert await opened(source, 4, 1, 2, 3, 4) == [1, 2]
    assert source.outcomes == ["done", "done", "released", "released"]
    assert source.cancelled


async def test_an_item_is_done_when_the_next_is_asked_for() -> None:
    source = ManualPublisher[int]()
    async with Stream(source).open(4) as stream:
        source.next(1, 2)
        items = aiter(stream)
        assert await anext(items) == 1
        assert source.outcomes == [None, None]
        assert await anext(items) == 2
        assert source.outcomes == ["done", None]
    assert source.outcomes == ["done", "done"]


async def test_an_exception_fails_the_last_item() -> None:
    source = ManualPublisher[int]()
    with pytest.raises(LookupError):  # itself, not a group
        async with Stream(source).open(4) as stream:
            source.next(1, 2, 3)
            async for item in stream:
                if item == 2:
                    raise LookupError
    assert source.outcomes == ["done", "failed", "released"]


async def test_a_cancellation_fails_the_last_item() -> None:
    source = ManualPublisher[int]()
    with trio.CancelScope() as scope:
        async with Stream(source).open(4) as stream:
            source.next(1, 2)
            async for _ in stream:
                scope.cancel()
                await trio.lowlevel.checkpoint()
    assert source.outcomes == ["failed", "released"]
    assert source.cancelled


async def test_the_window_is_requested_and_topped_up_at_half() -> None:
    source = ManualPublisher[int]()
    async with Stream(source).open(4) as stream:
        assert source.requested == 4
        source.next(1, 2, 3, 4)
        items = aiter(stream)
        await anext(items)
        assert source.requested == 4
        await anext(items)
        assert source.requested == 6


async def test_the_loop_waits_and_ends_with_the_stream() -> None:
    source = ManualPublisher[int]()
    seen: list[int] = []

    async def read() -> None:
        async with Stream(source).open() as stream:
            seen.extend([item async for item in stream])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await settled()
        source.next(1)
        await settled()
        source.next(2)
        source.complete()
    assert (seen, source.outcomes) == ([1, 2], ["done", "done"])


async def test_the_loop_raises_the_error_after_the_items_before_it() -> None:
    error = LookupError("no more")
    seen: list[int] = []
    with pytest.raises(LookupError) as caught:
        async with Stream.of(1, 2).concat(Stream.fail(error)).open() as stream:
            async for item in stream:
                seen.append(item)  # noqa: PERF401 - what came before the error is kept
    assert seen == [1, 2]
    assert caught.value is error


async def test_a_stream_that_fails_with_the_end_of_iteration_is_no_end() -> None:
    with pytest.raises(RuntimeError, match="StopAsyncIteration"):
        async with Stream.fail(StopAsyncIteration()).open() as stream:
            async for _ in stream:
                pass


async def test_two_tasks_cannot_wait_for_the_same_stream() -> None:
    async with Stream.never().open() as stream, trio.open_nursery() as nursery:
        nursery.start_soon(anext, aiter(stream))
        await settled()
        with pytest.raises(trio.BusyResourceError, match="another task"):
            await anext(aiter(stream))
        nursery.cancel_scope.cancel()


async def test_a_closed_stream_gives_no_items() -> None:
    async with Stream.of(1).open() as stream:
        pass
    with pytest.raises(trio.ClosedResourceError, match="has been closed"):
        await anext(aiter(stream))


async def test_a_publisher_that_sends_unasked_is_told_by_its_rule() -> None:
    class Unasked:
        """Sends two items, whatever is requested."""

        def subscribe(self, subscriber: Subscriber[int]) -> None:
            subscriber.on_subscribe(ENDED)
            subscriber.on_next(1)
            subscriber.on_next(2)

    with pytest.raises(SpecViolation, match=r"rule 1\.1"):
        async with Stream(Unasked()).open(1) as stream:
            async for _ in stream:
                pass


@pytest.mark.parametrize("window", [0, -1, 1.5, True, "8"])
async def test_a_window_that_cannot_be(window: int) -> None:
    with pytest.raises(ConfigError, match=rf"open\(window={window!r}\): window must be 1 or more items"):
        async with Stream.of(1).open(window):
            pass


@pytest.mark.usefixtures("autojump_clock")
async def test_a_loop_over_a_source_that_never_waits_lets_other_tasks_run() -> None:
    with trio.move_on_after(1) as limit:
        async with Stream.range(10**12).open() as stream:
            async for item in stream:
                if item == 0:
                    limit.cancel()  # seen at the loop's next checkpoint
    assert limit.cancelled_caught
    assert item <= 2 * SLICE


@pytest.mark.parametrize("_round", range(12))  # trio runs the two tasks in random order
async def test_items_that_come_while_the_loop_lets_other_tasks_run_are_given_out(_round: int) -> None:
    publisher = ManualPublisher[int]()
    given: list[int] = []

    async def emit_when_all_are_given() -> None:
        while len(given) < SLICE:
            await trio.lowlevel.checkpoint()
        publisher.next(SLICE)
        publisher.complete()

    async with Stream(publisher).open(window=2 * SLICE) as items, trio.open_nursery() as nursery:
        for item in range(SLICE):
            publisher.next(item)
        nursery.start_soon(emit_when_all_are_given)
        with trio.fail_after(10):
            async for item in items:  # it lets other tasks run behind a SLICE of items
                given.append(item)  # noqa: PERF401 - the other task looks at the list
    assert given == [*range(SLICE + 1)]


async def test_required_2_13_no_error_is_an_error() -> None:
    class Failing:
        """Fails, and says with nothing."""

        def subscribe(self, subscriber: Subscriber[int]) -> None:
            subscriber.on_subscribe(ENDED)
            subscriber.on_error(None)  # type: ignore[arg-type]

    with pytest.raises(SpecViolation, match=r"rule 2\.13"):
        await Stream(Failing()).to_list()
    async with rstreams.Node() as node:
        node.queue("jobs")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            with pytest.raises(SpecViolation, match=r"rule 2\.13"):
                await connection.publish("jobs", Failing())


class Later:
    """Answers a request when other tasks have run, as a link does; `asked` has the requests."""

    signals_later = True

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.asks = trio.Event()

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        self.subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self.asked.append(n)
        self.asks.set()

    def cancel(self) -> None: ...

    def hold(self) -> Hold:
        return NO_HOLD

    async def answer(self) -> None:
        while True:
            await self.asks.wait()
            self.asks = trio.Event()
            for number in range(self.asked[-1]):
                self.subscriber.on_next(number)


@pytest.mark.parametrize("window", [128, 256, 1000])
async def test_a_link_is_asked_and_can_answer_while_the_loop_works_on_half_of_a_large_window(window: int) -> None:
    source, given = Later(), 0
    seen: list[int] = []  # how many items had been given when the next ones came

    async def look() -> None:
        while len(source.asked) < 4:
            before = len(source.asked)
            await trio.lowlevel.checkpoint()
            seen.extend([given] * (len(source.asked) - before))

    async with Stream(source).open(window) as items, trio.open_nursery() as nursery:
        nursery.start_soon(source.answer)
        nursery.start_soon(look)
        async for _ in items:
            given += 1
            if given == 2 * window:
                break
        nursery.cancel_scope.cancel()
    assert source.asked[0] == window
    assert all(window // 2 <= asked < window for asked in source.asked[1:])
    assert seen[0] <= window // 2 + 1


async def test_batches_stay_large_when_the_loop_has_asked_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_machine, "now", lambda: 0.0)  # no turn is over
    sizes: list[int] = []
    take = BufferSink.take

    def noted(sink: BufferSink[int], most: int) -> tuple[Iterator[int], int]:
        batch, size = take(sink, most)
        sizes.append(size)
        return batch, size

    monkeypatch.setattr(BufferSink, "take", noted)
    source = Later()
    async with Stream(source).open(256) as items, trio.open_nursery() as nursery:
        nursery.start_soon(source.answer)
        while sum(sizes) < 1024:
            await anext(items)
        nursery.cancel_scope.cancel()
    assert set(sizes[sizes.index(64) :]) & {2, 4, 8, 16} == set()


async def test_a_loop_that_has_given_out_all_items_asks_for_what_its_window_allows() -> None:
    source = Later()
    async with Stream(source).open(8) as items:
        for number in range(3):
            source.subscriber.on_next(number)
        assert [await anext(items) for _ in range(3)] == [0, 1, 2]
        assert source.asked == [8]
        with trio.move_on_after(0):
            await anext(items)
        assert source.asked == [8, 3]
        source.subscriber.on_next(3)
        assert await anext(items) == 3
        assert source.asked == [8, 3]
