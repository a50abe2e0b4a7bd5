"""The awaitables of `async for`: those in C are like coroutines of Python."""

from __future__ import annotations

import asyncio
import collections.abc
import gc
import weakref
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import trio

from rstreams._codec.c_modules import load
from rstreams.runtime import items as items_module
from rstreams.runtime.items import ItemsInPython
from tests.garbage import only_new_objects


class Sink:
    def __init__(self) -> None:
        self.untold = False
        self.told = 0

    def tell(self) -> None:
        self.told += 1


class Waits:
    """Awaitable; waits once, and returns what is sent to it."""

    def __await__(self) -> Generator[str, Any, Any]:
        return (yield "waits")


def opened(base: type[Any], *batches: list[Any]) -> Any:  # noqa: ANN401 - a class made for the base
    """Return items of `base` in batches; between two batches it waits once."""

    class Opened(base):  # type: ignore[misc]
        def __init__(self) -> None:
            self._sink = Sink()
            self._batch: Iterator[Any] = iter(batches[0])
            self._others = iter(batches[1:])

        async def _first_of_next_batch(self) -> Any:  # noqa: ANN401 - any item
            self.sent = await Waits()
            batch = next(self._others, None)
            if batch is None:
                raise StopAsyncIteration
            self._batch = iter(batch)
            return next(self._batch)

    return Opened()


@pytest.fixture(params=["python", "c"])
def base(request: pytest.FixtureRequest) -> type[Any]:
    if request.param == "python":
        return ItemsInPython
    in_c: type[Any] = load("_items", items_module._INTERFACE, "rstreams.runtime").Items
    return in_c


def finish(awaitable: Any) -> Any:  # noqa: ANN401 - of any item
    """Return the value of an awaitable that does not wait."""
    with pytest.raises(StopIteration) as stopped:
        awaitable.send(None)
    return stopped.value.value


def test_items_come_in_order_and_the_sink_is_told(base: type[Any]) -> None:
    items = opened(base, [1, 2], [3])
    assert items.__aiter__() is items
    assert issubclass(type(items), collections.abc.AsyncIterator)
    assert finish(anext(items)) == 1
    items._sink.untold = True
    assert finish(anext(items)) == 2
    assert items._sink.told == 1
    waiting = anext(items)
    assert waiting.send(None) == "waits"
    with pytest.raises(StopIteration) as stopped:
        waiting.send("sent")
    assert (stopped.value.value, items.sent) == (3, "sent")
    end = anext(items)
    end.send(None)
    with pytest.raises(StopAsyncIteration):
        end.send(None)


@pytest.mark.parametrize("item", [None, (), (1, 2), ValueError("an item"), StopIteration(3), [1]])
def test_any_value_is_an_item(base: type[Any], item: object) -> None:
    assert finish(anext(opened(base, [item]))) is item

    async def main() -> object:
        return await anext(opened(base, [item]))

    assert asyncio.run(main()) is item


def test_nothing_is_taken_before_it_is_awaited(base: type[Any]) -> None:
    items = opened(base, [1, 2, 3])
    first, second = anext(items), anext(items)
    closed, thrown = anext(items), anext(items)
    closed.close()
    with pytest.raises(LookupError):
        thrown.throw(LookupError("early"))
    assert finish(second) == 1
    assert finish(first) == 2
    for ended in (first, second, closed, thrown):
        with pytest.raises(RuntimeError, match="cannot reuse already awaited"):
            ended.send(None)
    assert finish(anext(items)) == 3


def test_what_is_thrown_in_reaches_the_place_where_it_waits(base: type[Any]) -> None:
    items = opened(base, [], [1])
    for waiting in (anext(items), anext(items)):
        assert waiting.send(None) == "waits"
        with pytest.raises(LookupError, match="late"):
            waiting.throw(LookupError("late"))
        with pytest.raises(RuntimeError):
            waiting.send(None)
    left = anext(items)
    left.send(None)
    left.close()
    left.close()
    last = anext(items)
    last.send(None)
    assert finish(last) == 1


def test_misuse_is_refused_as_by_a_coroutine(base: type[Any]) -> None:
    awaitable = anext(opened(base, [1]))
    with pytest.raises(TypeError, match="can't send non-None value"):
        awaitable.send(1)
    awaitable.close()
    assert issubclass(type(awaitable), collections.abc.Coroutine)


def test_an_error_of_the_batch_or_of_the_sink_is_raised(base: type[Any]) -> None:
    items = opened(base, [])
    items._batch = map(divide, [1, 0])
    assert finish(anext(items)) == 1
    failing = anext(items)
    with pytest.raises(ZeroDivisionError):
        failing.send(None)
    items = opened(base, [1])
    items._sink.untold = True
    items._sink.tell = lambda: divide(0)
    failing = anext(items)
    with pytest.raises(ZeroDivisionError):
        failing.send(None)


def divide(by: int) -> int:
    return 1 // by


def test_an_item_is_a_task_of_asyncio_and_of_trio(base: type[Any]) -> None:
    async def on_asyncio() -> None:
        items = opened(base, [1, 2, 3, 4])
        assert await asyncio.create_task(anext(items)) == 1
        assert await asyncio.wait_for(anext(items), 10) == 2
        never_begun = asyncio.create_task(anext(items))
        never_begun.cancel()
        with pytest.raises(asyncio.CancelledError):
            await never_begun
        assert await asyncio.gather(anext(items), anext(items)) == [3, 4]

    async def on_trio() -> None:
        items = opened(base, [1, 2])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(anext, items)
        assert await anext(items, None) == 2

    asyncio.run(on_asyncio(), debug=True)
    trio.run(on_trio)


def test_a_task_shows_where_it_waits(base: type[Any]) -> None:
    async def main() -> None:
        names: list[str] = []

        class Opened(base):  # type: ignore[misc]
            def __init__(self) -> None:
                self._sink, self._batch = Sink(), iter(())

            async def _first_of_next_batch(self) -> None:
                await trio.sleep_forever()

        async def loop() -> None:
            async for _ in Opened():
                pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(loop)
            await trio.testing.wait_all_tasks_blocked()
            [task] = nursery.child_tasks
            names += [frame.f_code.co_name for frame, _ in task.iter_await_frames()]
            nursery.cancel_scope.cancel()
        assert names[0] == "loop"
        assert "_first_of_next_batch" in names

    trio.run(main)


def test_nothing_is_kept(base: type[Any]) -> None:
    with only_new_objects():

        class Item: ...

        taken, left = Item(), Item()
        items = opened(base, [])
        items._batch = iter([left, taken].pop, None)
        gone = [weakref.ref(each) for each in (items, taken, left)]
        assert finish(anext(items)) is taken
        waiting = anext(items)
        del taken, left
        gc.collect()
        assert [reference() is None for reference in gone] == [False, True, False]
        waiting.close()
        del items, waiting
        gc.collect()
        assert not any(reference() for reference in gone)


def test_references_in_a_circle_are_found(base: type[Any]) -> None:
    with only_new_objects():
        items = opened(base, [])
        items._batch = iter([items])
        items.waiting = anext(items)
        token = items._sink
        gone = weakref.ref(token)
        items.waiting.close()
        del items, token
        gc.collect()
        assert gone() is None
