"""The portal: calls from threads without trio into a trio run."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from rstreams import RStreamsError, Stream
from rstreams.runtime.portal import open_portal, start_portal


async def double(number: int) -> int:
    await trio.lowlevel.checkpoint()
    return 2 * number


async def refuse() -> None:
    raise LookupError


def test_a_call_returns_its_result_or_raises() -> None:
    with start_portal() as portal:
        assert portal.run(double, 21) == 42
        with pytest.raises(LookupError):
            portal.run(refuse)
        assert portal.run(Stream.of(1, 2).map_async(double).to_list) == [2, 4]


def test_posted_calls_are_made_in_order() -> None:
    made: list[int] = []
    done = threading.Event()
    with start_portal() as portal:
        for number in range(3):
            portal.post(made.append, number)
        portal.post(done.set)
        assert done.wait(10)
    assert made == [0, 1, 2]


def test_calls_after_the_end_are_refused() -> None:
    with start_portal() as portal:
        pass
    portal.post(pytest.fail, "nobody is there")
    with pytest.raises(RStreamsError, match="the portal is closed"):
        portal.run(double, 1)


def test_a_call_that_waits_when_the_portal_closes_fails() -> None:
    begun = threading.Event()
    failures: list[BaseException] = []

    async def wait() -> None:
        begun.set()
        await trio.sleep_forever()

    def call() -> None:
        try:
            portal.run(wait)
        except RStreamsError as error:
            failures.append(error)

    with start_portal() as portal:
        thread = threading.Thread(target=call)
        thread.start()
        assert begun.wait(10)
    thread.join(10)
    assert [str(error) for error in failures] == ["the portal is closed: its trio run has ended, or is ending"]


def test_an_interrupt_while_a_call_is_handed_over_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[bool] = []

    async def wait() -> None:
        running.append(True)
        try:
            await trio.sleep_forever()
        finally:
            running.pop()

    with start_portal() as portal:
        post = portal.post

        def interrupted(*args: Any) -> None:  # noqa: ANN401 - whatever is posted
            monkeypatch.undo()
            post(*args)
            raise KeyboardInterrupt

        monkeypatch.setattr(portal, "post", interrupted)
        with pytest.raises(KeyboardInterrupt):
            portal.run(wait)
        assert portal.run(double, 2) == 4
        assert not running


async def test_the_trio_run_itself_needs_no_portal() -> None:
    async with open_portal() as portal:
        with pytest.raises(RuntimeError, match="await the function"):
            portal.run(double, 1)
        assert await trio.to_thread.run_sync(portal.run, double, 4) == 8


def test_an_async_context_manager_is_entered_and_left_in_one_task() -> None:
    tasks: list[object] = []

    @asynccontextmanager
    async def manager(*, swallow: bool) -> AsyncIterator[str]:
        tasks.append(trio.lowlevel.current_task())
        try:
            yield "value"
        except LookupError:
            if not swallow:
                raise
        finally:
            tasks.append(trio.lowlevel.current_task())

    with start_portal() as portal:
        with portal.enter(manager(swallow=False)) as value:
            assert value == "value"
        assert tasks[0] is tasks[1]
        with portal.enter(manager(swallow=True)):
            raise LookupError
        with pytest.raises(LookupError), portal.enter(manager(swallow=False)):
            raise LookupError


def test_a_manager_that_cannot_be_entered() -> None:
    @asynccontextmanager
    async def closed() -> AsyncIterator[None]:
        raise LookupError
        yield

    with start_portal() as portal, pytest.raises(LookupError), portal.enter(closed()):
        pytest.fail("never entered")
