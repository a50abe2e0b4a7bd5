from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing

from rstreams import sources
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import SLICE, UNBOUNDED
from rstreams.abc import Subscription
from rstreams.errors import ConfigError, DemandError
from rstreams.runtime.scope import Scope
from rstreams.testing import ProbeSubscriber


class Readings:
    """An async generator function that counts how far its generator got, and notes its end."""

    def __init__(
        self, end: int = 5, *, failure: Exception | None = None, close_failure: Exception | None = None
    ) -> None:
        self.drawn = 0
        self.tasks: set[object] = set()
        self.closed = False
        self.wait = trio.lowlevel.checkpoint
        self._end = end
        self._failure = failure
        self._close_failure = close_failure

    async def __call__(self) -> AsyncGenerator[int, None]:
        try:
            while self.drawn < self._end:
                self.tasks.add(trio.lowlevel.current_task())
                self.drawn += 1
                await self.wait()
                yield self.drawn
            if self._failure is not None:
                raise self._failure
        finally:
            self.tasks.add(trio.lowlevel.current_task())
            self.closed = True
            if self._close_failure is not None:
                raise self._close_failure


def test_without_a_scope_it_fails() -> None:
    probe = ProbeSubscriber[int](1)
    sources.from_async_iterable(Readings()()).subscribe(probe)
    assert isinstance(probe.error, ConfigError)
    assert "from_async_iterable needs a scheduler" in str(probe.error)
    assert probe.signals == ["on_subscribe", "on_error"]


def test_a_subscriber_of_none_is_refused() -> None:
    nobody: Any = None
    with pytest.raises(TypeError, match=r"rule 1\.9"):
        sources.from_async_iterable(Readings()()).subscribe(nobody)


async def test_items_in_order_then_the_end() -> None:
    readings, probe = Readings(), ProbeSubscriber[int](UNBOUNDED, hold=True)
    async with Scope():
        sources.from_async_iterable(readings()).subscribe(probe)
        await trio.testing.wait_all_tasks_blocked()
    assert probe.items == [1, 2, 3, 4, 5]
    assert probe.completed
    assert probe.holds == [NO_HOLD] * 5


async def test_required_1_01_an_item_is_drawn_when_it_is_requested() -> None:
    readings, probe = Readings(), ProbeSubscriber[int]()
    async with Scope():
        sources.from_async_iterable(readings()).subscribe(probe)
        for requested, received in ((0, 0), (1, 1), (2, 3), (9, 5)):
            if requested:
                probe.request(requested)
            await trio.testing.wait_all_tasks_blocked()
            assert len(probe.items) == readings.drawn == received
    assert probe.completed


async def test_required_3_03_requests_inside_on_next() -> None:
    probe = ProbeSubscriber[int](1, on_item=lambda _: probe.request(1))
    async with Scope():
        sources.from_async_iterable(Readings(5000)()).subscribe(probe)
        await trio.testing.wait_all_tasks_blocked()
    assert len(probe.items) == 5000


async def test_one_task_does_it_all() -> None:
    readings, probe = Readings(), ProbeSubscriber[int](1)
    async with Scope():
        sources.from_async_iterable(readings()).subscribe(probe)
        await trio.testing.wait_all_tasks_blocked()
        probe.request(2)
        await trio.testing.wait_all_tasks_blocked()
        probe.cancel()
        await trio.testing.wait_all_tasks_blocked()
    assert readings.closed
    assert len(readings.tasks) == 1


@pytest.mark.parametrize("waiting_for", ["demand", "item", "on_next"])
async def test_a_cancel_ends_the_task_and_closes_the_generator(waiting_for: str) -> None:
    readings, probe = Readings(), ProbeSubscriber[int](1)
    if waiting_for == "item":
        readings.wait = trio.sleep_forever
    elif waiting_for == "on_next":
        probe.on_item = lambda _: probe.cancel()
    async with Scope() as scope:
        sources.from_async_iterable(readings()).subscribe(probe)
        await trio.testing.wait_all_tasks_blocked()
        if waiting_for != "on_next":
            assert not readings.closed
            probe.cancel()
            probe.cancel()
            await trio.testing.wait_all_tasks_blocked()
        assert readings.closed
        assert not scope.nursery.child_tasks
        probe.request(1)
    assert not probe.ended


async def test_a_cancel_inside_on_subscribe_starts_nothing() -> None:
    class CancelsAtOnce(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            subscription.cancel()

    readings = Readings()
    async with Scope() as scope:
        sources.from_async_iterable(readings()).subscribe(CancelsAtOnce(1))
        assert not scope.nursery.child_tasks
    assert readings.drawn == 0


async def test_an_item_that_was_on_its_way_is_dropped_after_a_cancel() -> None:
    class Stubborn:
        """Takes no notice of being cancelled."""

        def __aiter__(self) -> AsyncIterator[int]:
            return self

        async def __anext__(self) -> int:
            with trio.CancelScope(shield=True):
                await released.wait()
            return 1

    released = trio.Event()
    probe = ProbeSubscriber[int](1)
    async with Scope():
        sources.from_async_iterable(Stubborn()).subscribe(probe)
        await trio.testing.wait_all_tasks_blocked()
        probe.cancel()
        released.set()
        await trio.testing.wait_all_tasks_blocked()
    assert probe.items == []


@pytest.mark.parametrize("outcome", ["ends", "fails"])
async def test_an_end_that_was_on_its_way_is_dropped_after_a_cancel(
    outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Stubborn:
        def __aiter__(self) -> AsyncIterator[int]:
            return self

        async def __anext__(self) -> int:
            with trio.CancelScope(shield=True):
                await released.wait()
            raise StopAsyncIteration if outcome == "ends" else ValueError

    released = trio.Event()
    probe = ProbeSubscriber[int](1)
    async with Scope():
        sources.from_async_iterable(Stubborn()).subscribe(probe)
        await trio.testing.wait_all_tasks_blocked()
        probe.cancel()
        released.set()
        await trio.testing.wait_all_tasks_blocked()
    assert not probe.ended
    assert ("an async iterator failed" in caplog.text) == (outcome == "fails")


async def test_the_end_of_the_scope_closes_the_generator() -> None:
    readings = Readings()
    async with Scope():
        sources.from_async_iterable(readings()).subscribe(ProbeSubscriber[int](1))
        await trio.testing.wait_all_tasks_blocked()
    assert readings.closed


async def test_what_the_iteration_raises_is_the_error() -> None:
    failure = ValueError("broken")
    probe = ProbeSubscriber[int](UNBOUNDED)
    async with Scope():
        sources.from_async_iterable(Readings(2, failure=failure)()).subscribe(probe)
        await trio.testing.wait_all_tasks_blocked()
    assert probe.items == [1, 2]
    assert probe.error is failure


async def test_what_cannot_be_iterated_after_all_fails() -> None:
    class NoIterable:
        __aiter__: Any = 5

    no_iterable: Any = NoIterable()
    probe = ProbeSubscriber[int](1)
    async with Scope():
        sources.from_async_iterable(no_iterable).subscribe(probe)
        await trio.testing.wait_all_tasks_blocked()
    assert isinstance(probe.error, TypeError)


async def test_what_closing_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    probe = ProbeSubscriber[int](1)
    async with Scope():
        sources.from_async_iterable(Readings(close_failure=ValueError("late"))()).subscribe(probe)
        await trio.testing.wait_all_tasks_blocked()
        probe.cancel()
        await trio.testing.wait_all_tasks_blocked()
    assert not probe.ended
    assert "an async generator failed while it was being closed" in caplog.text


@pytest.mark.parametrize("n", [0, -1])
async def test_required_3_09_a_bad_request_fails(n: int) -> None:
    readings, probe = Readings(), ProbeSubscriber[int](1)
    async with Scope() as scope:
        sources.from_async_iterable(readings()).subscribe(probe)
        await trio.testing.wait_all_tasks_blocked()
        probe.request(n)
        probe.request(n)
        await trio.testing.wait_all_tasks_blocked()
        assert not scope.nursery.child_tasks
    assert isinstance(probe.error, DemandError)
    assert probe.signals == ["on_subscribe", "on_next", "on_error"]
    assert readings.closed


async def test_required_2_13_what_on_next_raises_ends_the_scope() -> None:
    def refuse(item: int) -> None:
        raise ValueError(item)

    readings = Readings()
    with pytest.raises(ValueError, match="1"):
        async with Scope():
            sources.from_async_iterable(readings()).subscribe(ProbeSubscriber[int](1, on_item=refuse))
            await trio.sleep_forever()
    assert readings.closed


async def test_an_iteration_that_never_waits_lets_others_run() -> None:
    async def instant() -> AsyncIterator[int]:
        while True:
            yield 1

    probe = ProbeSubscriber[int](UNBOUNDED)
    async with Scope():
        sources.from_async_iterable(instant()).subscribe(probe)
        for _ in range(5):
            await trio.lowlevel.checkpoint()
        assert SLICE <= len(probe.items) <= 6 * SLICE
        probe.cancel()
