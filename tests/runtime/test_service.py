"""`run` of either loop: a service that is told to stop ends in order, without a traceback, and with an exit code."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import trio

import rstreams
import rstreams.aio
from rstreams.aio._guest import services
from rstreams.errors import ConfigError
from rstreams.runtime.service import ends_in_order

SERVICE = """
import logging
import sys

import {loop}

import {names} as rstreams

Stream = rstreams.Stream

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="log %(message)s")
begun = []


async def handle(item):
    begun.append(item)
    print("begun", item, flush=True)
    {work}


async def main():
    async with rstreams.Node() as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        try:
            async with rstreams.connect(listener.url) as connection:
                await connection.publish("work", Stream.of("a", "b", "c"))
                await connection.consume("work", handle)
        finally:
            now = queue.statistics()
            print("left", now.accepted == len(begun), now.accepted, now.modified, now.ready, now.unsettled, flush=True)


rstreams.run(main, drain_s={drain_s})
"""


LINE = {"trio": "trio.to_thread.run_sync(sys.stdin.readline)", "asyncio": "asyncio.to_thread(sys.stdin.readline)"}
FOREVER = {"trio": "trio.sleep_forever()", "asyncio": "asyncio.get_running_loop().create_future()"}
NAMES: dict[str, Any] = {"trio": rstreams, "asyncio": rstreams.aio}
SLEEP: dict[str, Callable[[float], Awaitable[None]]] = {"trio": trio.sleep, "asyncio": asyncio.sleep}
RUN: dict[str, Any] = {
    "trio": rstreams.run,
    # with a factory the thread keeps its loop, which other tests look for
    "asyncio": partial(rstreams.aio.run, loop_factory=asyncio.new_event_loop),
}

over_both = pytest.mark.parametrize("loop", list(NAMES))


@contextmanager
def started(loop: str, work: str, drain_s: float) -> Iterator[subprocess.Popen[str]]:
    code = SERVICE.format(work=work, drain_s=drain_s, loop=loop, names=NAMES[loop].__name__)
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-W", "error", "-c", code], text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return line
    raise AssertionError(words)


@pytest.mark.slow
@over_both
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_service_that_is_told_to_stop_finishes_what_it_has_begun(
    loop: str, number: signal.Signals, code: int
) -> None:
    with started(loop, f"await {LINE[loop]}", drain_s=30) as process:
        read_until(process, "begun a")
        process.send_signal(number)
        read_until(process, f"log {number.name}: the program ends when the work in hand is done, in at most 30 s")
        out, err = process.communicate("\n", timeout=50)
    assert err == ""
    assert process.returncode == code
    assert "begun b" not in out, "nothing new is begun"
    assert "left True 1 0 2 0" in out


@over_both
@pytest.mark.slow  # it starts another program
def test_a_service_without_time_to_drain_gives_back_what_is_in_hand(loop: str) -> None:
    with started(loop, f"await {FOREVER[loop]}", drain_s=0) as process:
        read_until(process, "begun a")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=50)
    assert err == ""
    assert process.returncode == 130
    assert "left False 0 " in out
    assert " 3 0" in out


@over_both
@pytest.mark.slow  # it starts another program
def test_a_second_signal_waits_for_nothing(loop: str) -> None:
    with started(loop, f"await {FOREVER[loop]}", drain_s=1000) as process:
        read_until(process, "begun a")
        process.send_signal(signal.SIGINT)
        read_until(process, "log SIGINT")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=50)
    assert err == ""
    assert process.returncode == 130


@over_both
@pytest.mark.slow  # it starts another program
def test_a_third_signal_ends_a_program_that_does_not_listen(loop: str) -> None:
    with started(loop, "import time; time.sleep(1000)", drain_s=1000) as process:
        read_until(process, "begun a")
        for _ in range(200):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            break
        assert process.wait(10) == -signal.SIGINT


@over_both
def test_a_function_that_ends_by_itself(loop: str) -> None:
    async def add(one: int, other: int) -> int:
        await SLEEP[loop](0)
        return one + other

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert RUN[loop](add, 1, 2) == 3
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@over_both
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_sent_while_the_program_ends_is_no_failure(loop: str, number: signal.Signals) -> None:
    async def send(connection: Any) -> None:  # noqa: ANN401 - of either loop
        async with connection.sender("work") as sender:
            while True:
                await sender.send("again")
                signal.raise_signal(number)

    async def main() -> None:
        names = NAMES[loop]
        async with names.Node() as node:
            node.queue("work")
            listener = await node.listen("127.0.0.1:0")
            async with names.connect(listener.url) as connection:
                if loop == "trio":
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(send, connection)
                        nursery.start_soon(send, connection)
                else:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(send(connection))
                        group.create_task(send(connection))

    with pytest.raises(SystemExit) as ended:
        RUN[loop](main, drain_s=1000)
    assert ended.value.code == (130 if number == signal.SIGINT else 0)


@over_both
def test_a_failure_while_the_program_ends_is_one(loop: str) -> None:
    async def main() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await SLEEP[loop](1000)
        finally:
            raise KeyError(1)

    with pytest.raises(KeyError):
        RUN[loop](main)


def test_a_drain_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_timeout_s: float) -> None:
        raise ValueError

    async def main() -> None:
        ends_in_order(fail)
        signal.raise_signal(signal.SIGTERM)
        await trio.sleep_forever()

    with pytest.raises(SystemExit):
        rstreams.run(main)
    assert "could not be drained" in caplog.text


@over_both
@pytest.mark.slow  # it takes its time
def test_a_handler_sends_over_another_connection_until_it_has_ended(loop: str) -> None:
    """That connection receives nothing, and waits for the handlers of the others."""
    names, sleep = NAMES[loop], SLEEP[loop]
    counted: list[tuple[int, int]] = []

    async def main() -> None:
        async with names.Node() as node:
            orders, bills = node.queue("orders"), node.queue("bills")
            listener = await node.listen("127.0.0.1:0")
            try:
                async with names.connect(listener.url) as receives, names.connect(listener.url) as sends:
                    await sends.publish("orders", names.Stream.of(1, 2))
                    async with sends.sender("bills") as sender:

                        async def handle(order: int) -> None:
                            signal.raise_signal(signal.SIGTERM)
                            await sleep(0.3)
                            await sender.send(order)

                        await receives.consume("orders", handle)
            finally:
                counted.append((orders.statistics().accepted, bills.statistics().enqueued))

    with pytest.raises(SystemExit) as ended:
        RUN[loop](main, drain_s=0.5)
    assert ended.value.code == 0
    assert counted == [(1, 1)]


@over_both
def test_what_the_function_raises_is_raised(loop: str) -> None:
    async def fail() -> None:
        raise KeyError(1)

    with pytest.raises(KeyError):
        RUN[loop](fail)


@over_both
def test_what_cannot_be_run(loop: str) -> None:
    async def main() -> None: ...

    wrong: Any = main()
    with pytest.raises(TypeError, match=rf"`{NAMES[loop].__name__}\.run\(main\)`"):
        RUN[loop](wrong)
    with pytest.raises(ConfigError, match="drain_s=-1"):
        RUN[loop](main, drain_s=-1)
    raised: list[BaseException] = []

    def in_thread() -> None:
        try:
            RUN[loop](main)
        except ConfigError as error:
            raised.append(error)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert "main thread" in str(raised[0])


@over_both
@pytest.mark.parametrize(
    ("main", "said"),
    [
        (3, r"^run\(main\): main must be an async function, not 3$"),
        (lambda: 3, r"^run\(main\): main must return an awaitable, not 3; define it with `async def`$"),
        (print, r"^run\(main\): main must return an awaitable, not None; define it with `async def`$"),
    ],
)
def test_what_is_not_an_async_function_is_named(loop: str, main: Any, said: str) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=said):
        RUN[loop](main)


def test_asyncio_ends_in_order_without_a_connection_and_on_uvloop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(1000)

    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with pytest.raises(SystemExit) as ended:
            rstreams.aio.run(main, loop_factory=factory)
        assert ended.value.code == 0
    assert caplog.text.count("SIGTERM: the program ends when") == 2
    assert not services


def test_a_cancellation_by_the_program_itself_is_not_swallowed() -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1000)

    with pytest.raises(asyncio.CancelledError):
        RUN["asyncio"](main)
