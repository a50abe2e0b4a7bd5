"""What asyncio alone has: one guest run a loop, which leaves nothing behind, however the loop ends."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import thread_time
from typing import Any

import pytest

from rstreams.aio import Node, Scope, Stream, connect
from rstreams.aio import _guest as guests
from rstreams.aio._turns import Turns
from rstreams.errors import ConfigError, ConnectFailed, RStreamsError
from rstreams.testing import VirtualTimeLoop
from tests.aio.own_loops import connected, nothing_left, run
from tests.loops import without_warnings

Main = Callable[[], Awaitable[object]]


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def numbers_go_around() -> None:
    async with connected() as (node, connection):
        node.serve("numbers", Stream.range(3000))
        assert await connection.stream("numbers").to_list() == list(range(3000))
        assert len(guests._guests) >= 1


def test_a_loop_leaves_nothing_behind() -> None:
    with nothing_left():
        without_warnings(lambda: run(numbers_go_around, debug=True))


@pytest.mark.slow
def test_loops_one_after_the_other_and_in_several_threads() -> None:
    with nothing_left():
        for _ in range(3):
            run(numbers_go_around)
        with ThreadPoolExecutor(4) as threads:
            for result in [threads.submit(run, numbers_go_around) for _ in range(8)]:
                result.result()


def test_connections_of_one_loop_share_one_run() -> None:
    async def main() -> None:
        async with connected(), connected() as (_, connection):
            [guest] = guests._guests.values()
            assert guest.users == 4
            with pytest.raises(ConnectFailed):
                async with connect("amqp://127.0.0.1:1"):
                    pass
            assert guest.users == 4
        assert not guests._guests
        with pytest.raises(RStreamsError, match="closed"):
            await connection.publish("nowhere", Stream.of(1))
        async with connected():
            assert guests._guests

    with nothing_left():
        run(main)


def test_a_run_begins_while_the_last_one_ends() -> None:
    async def main() -> None:
        async def open_one(_: int) -> None:
            async with Node():
                await asyncio.sleep(0)

        for _ in range(20):
            await asyncio.gather(*map(open_one, range(3)))

    with nothing_left():
        run(main)


def test_with_trios_own_guest_mode_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "_take_over", lambda _self, _step: False)
    run(numbers_go_around)
    assert not guests._guests


@pytest.mark.parametrize("debug", [False, True])
def test_on_uvloop(debug: bool) -> None:  # noqa: FBT001 - a parameter of the test
    uvloop = pytest.importorskip("uvloop")
    run(lambda: asyncio.sleep(0), loop_factory=uvloop.new_event_loop)  # the first one opens files of the process
    with nothing_left():
        run(numbers_go_around, loop_factory=uvloop.new_event_loop, debug=debug)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio has eager tasks since Python 3.12")
def test_with_eager_tasks() -> None:
    async def main() -> None:
        factory: Any = getattr(asyncio, "eager_task_factory")  # noqa: B009 - unknown to type checkers for 3.11
        asyncio.get_running_loop().set_task_factory(factory)

        async def same(number: int) -> int:
            return number

        async with connected() as (node, connection):
            node.respond("same", same)
            node.serve("numbers", Stream.range(100).map_async(same))
            async with connection.requester("same") as requester:
                asked = [asyncio.create_task(requester.request(number)) for number in range(10)]
                assert await asyncio.gather(*asked) == list(range(10))
            assert await asyncio.create_task(connection.stream("numbers").map_async(same).to_list()) == list(range(100))

    with nothing_left():
        run(main)


class CpuTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose clock is the processor time of its thread: other programs make no callback slow."""

    def time(self) -> float:
        return thread_time()


@pytest.mark.slow
def test_debug_mode_finds_no_slow_callback(caplog: pytest.LogCaptureFixture) -> None:
    taken: list[int] = []
    take = taken.append

    async def same(number: int) -> int:
        return number

    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = 0.05
        async with connected() as (node, connection):
            node.serve("numbers", Stream.range(50_000))
            async with connection.stream("numbers").open() as items:
                async for item in items:
                    take(item)
        await Stream.range(30_000).map_async(same, concurrency=16).for_each(take)

    run(main, debug=True, loop_factory=CpuTimeLoop)
    assert len(taken) == 80_000
    assert [
        record.getMessage() for record in caplog.records if record.name == "asyncio" and "took" in record.getMessage()
    ] == []


def test_the_check_for_slow_callbacks_finds_one(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        asyncio.get_running_loop().slow_callback_duration = 0.05
        began = thread_time()
        while thread_time() < began + 0.1:
            pass

    run(main, debug=True, loop_factory=CpuTimeLoop)
    assert "took 0.1" in caplog.text


# the ends of a loop


def test_a_main_function_that_fails_ends_all() -> None:
    async def main() -> None:
        async with connected() as (node, connection):
            node.queue("jobs")
            tasks = [asyncio.create_task(connection.stream("jobs").to_list()) for _ in range(3)]
            await asyncio.sleep(0.01)
            assert all(not task.done() for task in tasks)
            raise LookupError

    with nothing_left(), pytest.raises(LookupError):
        run(main)


def test_a_loop_that_is_stopped_ends_all() -> None:
    async def main() -> None:
        async with connected():
            asyncio.get_running_loop().call_soon(asyncio.get_running_loop().stop)
            await forever()

    with nothing_left(), pytest.raises(RuntimeError, match="Event loop stopped"):
        without_warnings(lambda: run(main, debug=True))


def test_a_time_out_around_everything() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60), connected() as (node, connection):
                node.queue("jobs")
                await connection.stream("jobs").to_list()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run(main, loop_factory=VirtualTimeLoop)


@pytest.mark.slow
def test_cancelled_at_every_moment() -> None:
    """Cancel a task after each number of turns: it ends with one CancelledError, and nothing is left."""

    async def work() -> None:
        async with connected() as (node, connection):
            node.queue("jobs")
            await connection.publish("jobs", Stream.range(3))
            async with connection.sender("jobs") as sender:
                await sender.send("last")
            async with connection.stream("jobs").open() as items:
                await anext(items)

    async def main() -> None:
        turns, done = 0, False
        while not done:
            task = asyncio.create_task(work())
            for _ in range(turns):
                await asyncio.sleep(0)
                if task.done():
                    break
            done = task.done()
            task.cancel()
            if done:
                task.result()
            else:
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert not guests._guests
            assert asyncio.all_tasks() == {asyncio.current_task()}
            turns += 1 + turns // 8

    with nothing_left():
        run(main)


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["asyncio.run(main())", "asyncio.new_event_loop().run_until_complete(main())"])
def test_an_interrupt_ends_the_program(tmp_path: Path, runner: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"""
import asyncio, os, signal, threading
import rstreams.aio as rstreams

async def main():
    async with rstreams.Node() as node:
        node.serve("numbers", rstreams.Stream.range(10**9))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            seen = 0
            async with connection.stream("numbers").open() as items:
                async for item in items:
                    seen += 1
                    if seen == 5000:
                        os.kill(os.getpid(), signal.SIGINT)
try:
    {runner}
except KeyboardInterrupt:
    print("interrupted", threading.active_count(), flush=True)
    if "new_event_loop" in {runner!r}:
        os._exit(0)  # that loop was left as it was
""")
    command = [sys.executable, "-W", "error", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("interrupted 1\n", "", 0)


def test_a_block_may_be_left_in_another_task_than_it_was_entered_in() -> None:
    """Fixtures of pytest-asyncio do that."""

    async def main() -> None:
        block = connected()
        _, connection = await asyncio.create_task(block.__aenter__())
        node_stream = connection.stream("$statistics").take(1)
        assert len(await node_stream.to_list()) == 1
        await asyncio.create_task(block.__aexit__(None, None, None))
        assert not guests._guests

    with nothing_left():
        run(main)


# what functions meet


def test_handlers_may_use_time_outs_and_groups_of_asyncio() -> None:
    async def handle(number: int) -> int:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.sleep(0.01, number + 1))
        return await task

    async def main() -> None:
        async with connected() as (node, connection):
            node.respond("next", handle)
            async with connection.requester("next") as requester:
                assert await asyncio.gather(*map(requester.request, range(5))) == [1, 2, 3, 4, 5]
        assert await Stream.range(5).map_async(handle, concurrency=5).to_list() == [1, 2, 3, 4, 5]

    run(main, loop_factory=VirtualTimeLoop)


def test_a_function_whose_future_is_cancelled_ends_the_call_as_an_await_would() -> None:
    async def main() -> None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def wait(_: int) -> int:
            return await future

        call = asyncio.create_task(Stream.of(1).map_async(wait).to_list())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    run(main)


def test_a_handler_of_requests_that_is_cancelled_from_elsewhere_is_a_failed_request() -> None:
    async def handle(_: int) -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        async with connected(expose_errors=True) as (node, connection):
            node.respond("never", handle)
            async with connection.requester("never") as requester:
                with pytest.raises(RStreamsError, match="an async function was cancelled by the program"):
                    await requester.request(1)

    run(main)


def test_a_failing_task_of_a_served_stream_ends_the_nodes_block() -> None:
    async def main() -> None:
        async with connected() as (node, connection):
            async with Scope() as scope:
                scope.scheduler.call_later(0, lambda: divide(0))
                await connection.stream("nowhere").on_error_resume(lambda _: Stream.never()).to_list()
            assert node

    with nothing_left(), pytest.raises(ZeroDivisionError):
        run(main)


def divide(by: int) -> None:
    assert 1 // by


def test_tokens_come_from_a_coroutine_function() -> None:
    asked: list[str] = []

    async def tokens(audience: str) -> Any:  # noqa: ANN401 - refused by the connection
        await asyncio.sleep(0)
        asked.append(audience)
        return "no token"

    async def main() -> None:
        async with Node() as node:
            node.queue("jobs")
            listener = await node.listen("127.0.0.1:0")
            async with connect(listener.url, cbs=tokens) as connection:
                with pytest.raises(ConfigError, match="cbs must return a Token, not str"):
                    await connection.stream("jobs").to_list()

    run(main)
    assert asked


def test_a_context_is_that_of_the_call() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    async def look(number: int) -> int:
        seen.append(variable.get())
        return number

    async def main() -> None:
        async with connected() as (node, connection):
            node.respond("look", look)
            variable.set("after the node")
            async with connection.requester("look") as requester:
                await requester.request(1)
            node.queue("jobs")
            responder = asyncio.create_task(connection.respond("jobs", look))
            async with connection.requester("jobs") as requester:
                await requester.request(1)
            responder.cancel()

    run(main)
    assert seen == ["unset", "after the node"]


# how asyncio wakes trio


def test_asyncio_wakes_trio_without_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of asyncio that gives a sleeping trio work has its next step called; trio's own way writes to a socket."""
    forced: list[object] = []
    manager: Any = importlib.import_module("trio._core._io_epoll").EpollIOManager
    force_wakeup = manager.force_wakeup

    def counted(self: object) -> None:
        forced.append(self)
        force_wakeup(self)

    monkeypatch.setattr(manager, "force_wakeup", counted)
    run(numbers_go_around)
    assert not forced


def test_a_loop_that_was_closed_is_not_called_for_trio() -> None:
    loop = asyncio.new_event_loop()
    turns = Turns(loop, lambda _: None)
    turns._waiting = True
    loop.close()
    turns._wake()
    assert turns._waiting


def test_several_calls_into_a_sleeping_trio_make_one_step() -> None:
    steps: list[None] = []

    async def main() -> None:
        turns = Turns(asyncio.get_running_loop(), lambda _: None)
        turns._step = lambda: steps.append(None)  # type: ignore[method-assign]
        turns._waiting = True
        for _ in range(3):
            turns._wake()
        turns._ready()
        turns._time_is_up()
        assert not steps
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    run(main)
    assert steps == [None]
