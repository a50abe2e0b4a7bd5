"""Senders of the latency benchmark of Spark, in a process of their own.

    python -m benchmarks._spark_sender MESSAGES RATE                 lines to the one client of a plain socket
    python -m benchmarks._spark_sender MESSAGES RATE URL ADDRESS     messages to a queue

A message is the time of its sending, as text. One message is sent at once. The others follow, `RATE` a second, after a
line on the standard input; the process ends when that closes. The first line of output is the port of the socket, or 0.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress

import trio

import rstreams
from rstreams import Stream


@contextmanager
def running_sender(messages: int, rate: int, *to: str) -> Iterator[tuple[int, Callable[[], None]]]:
    """Have a sender for a block.

    Args:
        messages: How many follow the first one.
        rate: How many a second.
        to: The url and the address of a queue; none: the sender listens on a socket.

    Returns: Its port, and the function that lets the other messages follow.
    """
    command = [sys.executable, "-m", "benchmarks._spark_sender", str(messages), str(rate), *to]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def follow() -> None:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()

        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), follow
        finally:
            process.kill()


def _stamp() -> bytes:
    return b"%.6f" % time.time()


def _say_port(port: int) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


async def _paced(messages: int, rate: int) -> AsyncIterator[bytes]:
    yield _stamp()
    await trio.to_thread.run_sync(sys.stdin.readline)
    began = trio.current_time()
    for number in range(messages):
        await trio.sleep_until(began + number / rate)
        yield _stamp()


async def _serve(messages: int, rate: int) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        _say_port(listener.socket.getsockname()[1])
        async with await listener.accept() as peer:
            with suppress(trio.BrokenResourceError):
                async for stamp in _paced(messages, rate):
                    await peer.send_all(stamp + b"\n")
            await trio.to_thread.run_sync(sys.stdin.read)  # the query ends before the connection


async def _publish(messages: int, rate: int, url: str, address: str) -> None:
    _say_port(0)
    async with rstreams.connect(url) as connection:
        await connection.publish(address, Stream.from_async_iterable(_paced(messages, rate)))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        trio.run(_publish, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        trio.run(_serve, int(sys.argv[1]), int(sys.argv[2]))
