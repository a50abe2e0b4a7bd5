"""The asynchronous part of a stream's terminals: a scope, a sink, and the task that requests for it.

A terminal requests at most `SLICE` items, lets other tasks run, and tops up when half of them are outstanding.
Therefore a source that answers inside `request` sends one slice at a time, and one that answers later always has
demand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeVar

from rstreams import _machine
from rstreams._checks.choices import require_choice
from rstreams._checks.functions import refuse_unrun
from rstreams._core.contexts import has_changed
from rstreams._core.demand import SLICE, TURN_S
from rstreams._core.nesting import too_deep
from rstreams._stages.stage import GatherAck
from rstreams.abc import Event, Publisher
from rstreams.runtime.ground import Ground, ground_here
from rstreams.runtime.items import Items
from rstreams.sinks.buffer_sink import BufferSink
from rstreams.sinks.first_sink import FirstSink
from rstreams.sinks.for_each_sink import ForEachSink
from rstreams.sinks.list_sink import ListSink
from rstreams.sinks.sink import Sink

T = TypeVar("T")

_MANY: Final = 256
"""The most items that a loop gives out without a look at the clock, however quick the ones before were."""


async def to_list(source: Publisher[T], ack: GatherAck = "within_window") -> list[T]:
    """Return all items of `source`."""
    require_choice("to_list", "ack", ack, GatherAck)
    ground = ground_here()
    bell = _Bell(ground)
    sink = ListSink[T](bell.ring, ack)
    with _settled(sink):
        await _drain(source, sink, bell, ground)
    return sink.items


async def for_each(source: Publisher[T], function: Callable[[T], object]) -> None:
    """Call `function` with every item of `source`."""
    ground = ground_here()
    bell = _Bell(ground)
    await _drain(source, ForEachSink(bell.ring, function), bell, ground)


async def await_each(source: Publisher[T], function: Callable[[T], Awaitable[object]]) -> None:
    """Await `function` with every item of `source`, one after the other."""
    ground = ground_here()
    async with open_items(source, None) as items, ground.scope() as scope:
        is_through = False

        async def work(ended: Event) -> None:
            nonlocal is_through
            context = copy_context()
            async for item in items:
                refuse_unrun("for_each", "function", await function(item))
                if has_changed(context):
                    break
            else:
                is_through = True
            ended.set()

        while not is_through:
            ended = ground.event()
            scope.scheduler.start(partial(work, ended))
            await ended.wait()


async def first_or_none(source: Publisher[T]) -> T | None:
    """Return the first item of `source`, and request no other."""
    ground = ground_here()
    bell = _Bell(ground)
    sink = FirstSink[T](bell.ring)
    sink.request(1)
    await ground.checkpoint_if_cancelled()
    with _settled(sink):
        async with _subscribed(source, sink, ground):
            while not sink.ended:
                await bell.wait()
    return sink.first


@contextmanager
def _settled(sink: ListSink[Any] | FirstSink[Any]) -> Iterator[None]:
    """Settle the sink's items if the block ends well; otherwise give them back, because there is no result."""
    try:
        yield
    except BaseException:
        sink.give_back()
        raise
    sink.settle()


async def _drain(source: Publisher[T], sink: Sink[T], bell: _Bell, ground: Ground) -> None:
    """Keep `sink` supplied with demand until it has ended."""
    half = SLICE // 2
    sink.request(SLICE, top_up_at=half)
    await ground.checkpoint_if_cancelled()
    async with _subscribed(source, sink, ground):
        while not sink.ended:
            if sink.outstanding > half:
                await bell.wait()
            else:
                await ground.checkpoint()
            if sink.outstanding <= half and not sink.ended:
                sink.request(SLICE - sink.outstanding, top_up_at=half)


def _subscribe(source: Publisher[T], sink: Sink[T]) -> None:
    try:
        source.subscribe(sink)
    except RecursionError as error:
        raise too_deep() from error


@asynccontextmanager
async def _subscribed(source: Publisher[T], sink: Sink[T], ground: Ground) -> AsyncIterator[None]:
    """Subscribe `sink` in a scope of its own, which ends with the body; raise the error of the stream."""
    async with ground.scope():
        try:
            _subscribe(source, sink)
            yield
        finally:
            sink.cancel()
        if sink.failure is not None:
            raise _not_an_end(sink.failure.again())


@asynccontextmanager
async def open_items(source: Publisher[T], window: int | None) -> AsyncIterator[OpenItems[T]]:
    """Subscribe to `source` and give its items to the body one by one."""
    ground = ground_here()
    bell = _Bell(ground)
    sink = BufferSink[T](bell.ring, window)
    async with ground.scope():
        items = OpenItems(sink, bell, ground)
        try:
            _subscribe(source, sink)
            yield items
        except BaseException as error:
            items.close(error)
            raise
        else:
            items.close(None)


class OpenItems(Items[T]):
    """The items of an open stream, for `async for`.

    An item is done when the next one is asked for. When the stream is closed, the item given out last is done if the
    body ended well, and failed if the body raised or was cancelled. Kept items that were never given out are released.

    The loop takes items in batches, of 1 at first, and of twice as many each time, up to 256. Between two batches it
    looks at the clock. It lets other tasks run after 5 ms or 1,024 items, and when a link has been asked for more: the
    link answers while the loop goes on. Behind slow items the batches begin with 1 again.

    Context: One task at a time.
    """

    def __init__(self, sink: BufferSink[T], bell: _Bell, ground: Ground) -> None:
        self._sink = sink
        self._bell = bell
        self._ground = ground
        self._waiting = False
        self._batch: Iterator[T] = iter(())
        self._most = 1  # items of the next batch
        self._given = 0  # items since other tasks ran
        self._turn_ends = _machine.now() + TURN_S

    def close(self, error: BaseException | None) -> None:
        """End the stream; `error` is what the body raised."""
        self._sink.close(error)
        self._batch = iter(())

    async def _first_of_next_batch(self) -> T:
        sink = self._sink
        if self._waiting:
            msg = "another task is waiting for the next item of this stream"
            raise self._ground.busy(msg)
        wanted = sink.want()
        is_over = _machine.now() >= self._turn_ends
        if is_over or sink.asked or self._given >= SLICE:
            if is_over and self._given < _MANY:
                self._most = 1
            if sink.asked:
                await self._pause(self._ground.checkpoint)  # a turn more: in the first one the link may come last
            await self._pause(self._ground.checkpoint)
            wanted = sink.want()  # items may have come meanwhile, and their bell has rung for nobody
        while not wanted:
            if sink.closed:
                msg = "this stream has been closed: its items end with the `async with` block that opened it"
                raise self._ground.closed(msg)
            if sink.failure is not None:
                raise _not_an_end(sink.failure.again())
            if sink.ended:
                raise StopAsyncIteration
            await self._pause(self._ground.checkpoint if sink.draws else self._bell.wait)
            wanted = sink.want()
        self._batch, size = sink.take(self._most)
        self._given += size
        self._most = min(2 * self._most, _MANY)
        return next(self._batch)

    async def _pause(self, wait: Callable[[], Awaitable[None]]) -> None:
        self._waiting = True
        try:
            await wait()
        finally:
            self._waiting = False
        self._given = 0
        self._sink.asked = False
        self._turn_ends = _machine.now() + TURN_S


def _not_an_end(error: BaseException) -> BaseException:
    """Return `error`, or a `RuntimeError` in place of one that would look like the end of the items (as in PEP 479)."""
    if isinstance(error, StopIteration | StopAsyncIteration):
        replacement = RuntimeError(
            f"the stream failed with {type(error).__name__}, as if a function called next() on a finished iterator"
        )
        replacement.__cause__ = error
        return replacement
    return error


class _Bell:
    """The bell that a sink rings and its terminal's task waits for; ringing does nothing while no task waits."""

    __slots__ = ("_event", "_ground")

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._event = ground.event()

    def ring(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        self._event = self._ground.event()
        await self._event.wait()
