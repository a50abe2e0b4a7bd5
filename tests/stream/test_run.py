"""`rstreams.run`: a service that is told to stop ends in order, without a traceback, and says so by its exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

import rstreams
from rstreams.errors import ConfigError
from rstreams.runtime.service import ends_in_order

SERVICE = """
import logging
import sys

import trio

import rstreams
from rstreams import Stream

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


@contextmanager
def started(work: str, drain_s: float) -> Iterator[subprocess.Popen[str]]:
    code = SERVICE.format(work=work, drain_s=drain_s)
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as process:
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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_service_that_is_told_to_stop_finishes_what_it_has_begun(number: signal.Signals, code: int) -> None:
    with started("await trio.to_thread.run_sync(sys.stdin.readline)", drain_s=30) as process:
        read_until(process, "begun a")
        process.send_signal(number)
        read_until(process, f"log {number.name}: the program ends when the work in hand is done, in at most 30 s")
        out, err = process.communicate("\n", timeout=50)
    assert err == ""
    assert process.returncode == code
    assert "begun b" not in out, "nothing new is begun"
    assert "left True 1 0 2 0" in out


@pytest.mark.slow  # it starts another program
def test_a_service_without_time_to_drain_gives_back_what_is_in_hand() -> None:
    with started("await trio.sleep_forever()", drain_s=0) as process:
        read_until(process, "begun a")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=50)
    assert err == ""
    assert process.returncode == 130
    assert "left False 0 " in out
    assert " 3 0" in out


@pytest.mark.slow  # it starts another program
def test_a_second_signal_waits_for_nothing() -> None:
    with started("await trio.sleep_forever()", drain_s=1000) as process:
        read_until(process, "begun a")
        process.send_signal(signal.SIGINT)
        read_until(process, "log SIGINT")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=50)
    assert err == ""
    assert process.returncode == 130


@pytest.mark.slow  # it starts another program
def test_a_third_signal_ends_a_program_that_does_not_listen() -> None:
    with started("import time; time.sleep(1000)", drain_s=1000) as process:
        read_until(process, "begun a")
        for _ in range(200):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            break
        assert process.wait(10) == -signal.SIGINT


def test_a_function_that_ends_by_itself() -> None:
    async def add(one: int, other: int) -> int:
        await trio.lowlevel.checkpoint()
        return one + other

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert rstreams.run(add, 1, 2) == 3
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_sent_while_the_program_ends_is_no_failure(number: signal.Signals) -> None:
    async def send(connection: rstreams.Connection) -> None:
        async with connection.sender("work") as sender:
            while True:
                await sender.send("again")
                signal.raise_signal(number)

    async def main() -> None:
        async with rstreams.Node() as node:
            node.queue("work")
            listener = await node.listen("127.0.0.1:0")
            async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:
                nursery.start_soon(send, connection)
                nursery.start_soon(send, connection)

    with pytest.raises(SystemExit) as ended:
        rstreams.run(main, drain_s=1000)
    assert ended.value.code == (130 if number == signal.SIGINT else 0)


def test_a_failure_while_the_program_ends_is_one() -> None:
    async def main() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()
        finally:
            raise KeyError(1)

    with pytest.raises(KeyError):
        rstreams.run(main)


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


def test_what_the_function_raises_is_raised() -> None:
    async def fail() -> None:
        raise KeyError(1)

    with pytest.raises(KeyError):
        rstreams.run(fail)


def test_what_cannot_be_run() -> None:
    async def main() -> None: ...

    wrong: Any = main()
    with pytest.raises(TypeError, match=r"`rstreams\.run\(main\)`"):
        rstreams.run(wrong)
    with pytest.raises(ConfigError, match="drain_s=-1"):
        rstreams.run(main, drain_s=-1)
    raised: list[BaseException] = []

    def in_thread() -> None:
        try:
            rstreams.run(main)
        except ConfigError as error:
            raised.append(error)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert "main thread" in str(raised[0])


@pytest.mark.parametrize(
    ("main", "said"),
    [
        (3, r"^run\(main\): main must be an async function, not 3$"),
        (lambda: 3, r"^run\(main\): main must return an awaitable, not 3; define it with `async def`$"),
        (print, r"^run\(main\): main must return an awaitable, not None; define it with `async def`$"),
    ],
)
def test_what_is_not_an_async_function_is_named(main: Any, said: str) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match=said):
        rstreams.run(main)
