"""Context variables over trio and over asyncio: what one call of a user's function sets, the next call does not see."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from tests.loops import Loop, over_both_loops

var: ContextVar[object] = ContextVar("var", default="nobody")
new: ContextVar[object] = ContextVar("new")


class Incomparable:
    """A value that cannot be compared, as arrays of numpy."""

    def __eq__(self, other: object) -> bool:
        raise ValueError

    __hash__ = None  # type: ignore[assignment]  # as arrays


class Handlers:
    """User's functions that note what they see of the variables, and change these."""

    def __init__(self, on: Loop, waits: str = "never") -> None:
        self.on = on
        self.waits = waits
        self.seen: list[object] = []

    def note(self, item: object) -> None:
        self.seen.append((var.get(), new.get("unset")))
        var.set(item if item != 1 else Incomparable())
        new.set(item)

    def plain(self, item: Any) -> None:  # noqa: ANN401 - whatever comes
        self.note(item)

    async def handle(self, item: Any) -> Any:  # noqa: ANN401
        if self.waits == "before":
            await self.on.sleep(0.001)
        self.note(item)
        if self.waits == "after":
            await self.on.sleep(0.001)
        return item

    async def effect(self, item: Any) -> None:  # noqa: ANN401
        await self.handle(item)

    async def step(self, state: int) -> tuple[int, int] | None:
        return (await self.handle(state), state + 1) if state < 6 else None


async def map_async(on: Loop, handlers: Handlers, **options: Any) -> None:  # noqa: ANN401 - of the operator
    assert len(await on.Stream.range(6).map_async(handlers.handle, **options).to_list()) == 6


async def map_async_in_a_row(on: Loop, handlers: Handlers) -> None:
    await on.Stream.range(3).map_async(handlers.handle).map_async(handlers.handle, concurrency=2).to_list()


async def map_async_of_a_shared_run(on: Loop, handlers: Handlers) -> None:
    shared = on.Stream.range(6).map_async(handlers.handle, concurrency=2).share()
    assert await shared.to_list() == list(range(6))


async def map_async_behind_a_generator(on: Loop, handlers: Handlers) -> None:
    async def numbers() -> Any:  # noqa: ANN401
        for number in range(6):
            var.set("generator")
            yield number

    await on.Stream.from_async_iterable(numbers()).map_async(handlers.handle, concurrency=2).to_list()


async def map_blocking(on: Loop, handlers: Handlers) -> None:
    await on.Stream.range(6).map_blocking(handlers.plain).to_list()


async def for_each(on: Loop, handlers: Handlers) -> None:
    await on.Stream.range(6).for_each(handlers.effect)


async def unfold(on: Loop, handlers: Handlers) -> None:
    assert await on.Stream.unfold(0, handlers.step).to_list() == list(range(6))


async def from_callable(on: Loop, handlers: Handlers) -> None:
    await on.Stream.from_callable(partial(handlers.handle, 7)).repeat(6).to_list()


async def parallel(on: Loop, handlers: Handlers) -> None:
    await on.Stream.range(6).parallel(2, lambda items: items.map_async(handlers.handle)).to_list()


async def concat_map(on: Loop, handlers: Handlers) -> None:
    await on.Stream.range(6).concat_map(lambda item: on.Stream.from_callable(partial(handlers.handle, item))).to_list()


async def switch_map(on: Loop, handlers: Handlers) -> None:
    one = on.Stream.range(6).concat_map(lambda item: on.Stream.of(item).delay(1))
    await one.switch_map(lambda item: on.Stream.from_callable(partial(handlers.handle, item))).to_list()


async def retry(on: Loop, handlers: Handlers) -> None:
    async def fail() -> None:
        await handlers.handle(1)
        raise LookupError

    with suppress(LookupError):
        await on.Stream.from_callable(fail).retry(5).to_list()


async def from_async_iterable(on: Loop, handlers: Handlers) -> None:
    class Numbers:
        async def __aiter__(self) -> Any:  # noqa: ANN401
            await handlers.handle(1)
            yield 1

    assert await on.Stream.from_async_iterable(Numbers()).repeat(6).to_list() == [1] * 6


async def using(on: Loop, handlers: Handlers) -> None:
    class Resource:
        async def __aenter__(self) -> None:
            await handlers.handle(1)

        async def __aexit__(self, *_: object) -> None:
            assert new.get("unset") == 1, "it is left in the context in which it was entered"

    assert await on.Stream.using(Resource, lambda _: on.Stream.of(1)).repeat(6).to_list() == [1] * 6


async def flat_map(on: Loop, handlers: Handlers) -> None:
    def inner(item: int) -> Any:  # noqa: ANN401
        return on.Stream.from_callable(partial(handlers.handle, item))

    await on.Stream.range(3).map_async(handlers.handle).flat_map(inner).to_list()


async def consume(on: Loop, handlers: Handlers, handler: Callable[[Any], object], **options: Any) -> None:  # noqa: ANN401
    async with on.connected() as (node, connection):
        node.queue("numbers")
        await connection.publish("numbers", on.Stream.range(6))
        consuming = on.start(lambda: connection.consume("numbers", handler, **options))
        await on.until(lambda: len(handlers.seen) == 6)
        consuming.cancel()
        await consuming.ended()


async def consume_with_async(on: Loop, handlers: Handlers) -> None:
    await consume(on, handlers, handlers.effect)


async def consume_with_several(on: Loop, handlers: Handlers) -> None:
    await consume(on, handlers, handlers.effect, concurrency=4)


async def consume_with_plain(on: Loop, handlers: Handlers) -> None:
    await consume(on, handlers, handlers.plain)


async def consume_with_failing(on: Loop, handlers: Handlers) -> None:
    async def fail(item: object) -> None:
        await handlers.handle(item)
        raise LookupError

    await consume(on, handlers, fail, on_failure="reject")


async def requests(on: Loop, connection: Any, handlers: Handlers) -> None:  # noqa: ANN401
    async with connection.requester("numbers") as requester:
        for number in range(6):
            assert await requester.request(number) == number
    assert len(handlers.seen) == 6


async def respond_at_a_node(on: Loop, handlers: Handlers) -> None:
    async with on.connected() as (node, connection):
        node.respond("numbers", handlers.handle)
        await requests(on, connection, handlers)


async def respond_at_a_queue(on: Loop, handlers: Handlers) -> None:
    async with on.connected() as (node, connection):
        node.queue("numbers")
        responding = on.start(lambda: connection.respond("numbers", handlers.handle))
        await requests(on, connection, handlers)
        responding.cancel()
        await responding.ended()


async def respond_with_streams(on: Loop, handlers: Handlers) -> None:
    async def answers(item: int) -> Any:  # noqa: ANN401
        yield await handlers.handle(item)

    async with on.connected() as (node, connection):
        node.respond("numbers", answers)
        async with connection.requester("numbers") as requester:
            for number in range(6):
                assert await requester.stream(number).to_list() == [number]


CASES: dict[str, Callable[[Loop, Handlers], Awaitable[None]]] = {
    "map_async": map_async,
    "map_async, several": partial(map_async, concurrency=4),
    "map_async, unordered": partial(map_async, concurrency=4, ordered=False),
    **{
        each.__name__: each
        for each in (
            map_async_in_a_row,
            map_async_of_a_shared_run,
            map_async_behind_a_generator,
            map_blocking,
            for_each,
            unfold,
            from_callable,
            parallel,
            concat_map,
            switch_map,
            retry,
            from_async_iterable,
            using,
            flat_map,
            respond_with_streams,
            consume_with_async,
            consume_with_several,
            consume_with_plain,
            consume_with_failing,
            respond_at_a_node,
            respond_at_a_queue,
        )
    },
}


@pytest.mark.parametrize("waits", ["never", "before", "after"])
@pytest.mark.parametrize("case", CASES)
@over_both_loops
async def test_each_call_starts_from_the_context_of_the_caller(on: Loop, case: str, waits: str) -> None:
    handlers = Handlers(on, waits)
    var.set("caller")
    await CASES[case](on, handlers)
    assert handlers.seen == [("caller", "unset")] * 6
    assert (var.get(), new.get("unset")) == ("caller", "unset")
