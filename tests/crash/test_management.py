"""A node that is killed (-9) when the management or an attach has been answered, or while dead letters are moved."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Connection, Stream
from rstreams.errors import RStreamsError
from rstreams.net.management import Management
from rstreams.testing import ProbeSubscriber
from tests.crash.shop import fill, shop
from tests.net.over_tcp import until

MESSAGES = 300


@asynccontextmanager
async def process(store: Path) -> AsyncIterator[tuple[subprocess.Popen[str], Connection, Management]]:
    """A node in a process of its own, with messages; it is killed at the end at the latest."""
    command = [sys.executable, "-m", "tests.crash.shop", str(store)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - nothing else runs yet
    assert running.stdout is not None
    try:
        url = (await trio.to_thread.run_sync(running.stdout.readline)).strip()
        async with rstreams.connect(url, container_id="shop") as connection, connection.management() as management:
            await fill(connection, MESSAGES)
            yield running, connection, management
    except* RStreamsError:
        pass  # the node was killed
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


@pytest.mark.slow
async def test_what_was_answered_outlives_a_kill(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with process(tmp_path) as (running, connection, management):
            calls: list[Callable[[], Awaitable[object]]] = [
                lambda: management.purge("orders"),
                lambda: management.delete("events", "logs"),
                lambda: management.delete("news", "multicasts"),
                lambda: management.move_dead_letters("dead"),
                lambda: connection.unsubscribe("prices", "of prices"),
            ]
            async with trio.open_nursery() as nursery:
                for call in calls:
                    nursery.start_soon(call)
            running.kill()
    async with shop(tmp_path) as node:
        now = node.statistics()
        assert {name: numbers.ready for name, numbers in now.queues.items()} == {
            "orders": 0,
            "dead": 0,
            "bills": 2 * MESSAGES,
        }
        assert now.logs["events"].partitions[0].messages == 0
        assert [numbers.named for numbers in now.multicasts.values()] == [(), ()]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
async def test_what_was_begun_outlives_a_kill(tmp_path: Path, number: int) -> None:
    """The node is killed at the first answer, so that others are on their way."""
    answered: list[str] = []
    with trio.fail_after(60):
        async with process(tmp_path) as (running, connection, _):

            async def begin(name: str, stream: Stream[Any]) -> None:
                probe = ProbeSubscriber[Any](0)
                stream.subscribe(probe)
                await until(lambda: probe.signals)
                if probe.error is None:
                    answered.append(name)
                    running.kill()

            async with trio.open_nursery() as nursery:
                for each in range(1 + 2 * number):
                    late, group = f"late {each}", f"group {each}"
                    nursery.start_soon(begin, late, connection.stream("prices", subscription=late))
                    nursery.start_soon(begin, group, connection.stream("events", group=group, start="next"))
    async with shop(tmp_path) as node:
        now = node.statistics()
        there = [named.name for named in now.multicasts["prices"].named] + list(now.logs["events"].groups)
        assert answered
        assert set(answered) <= set(there)


@pytest.mark.slow
async def test_a_kill_while_dead_letters_are_moved_neither_loses_nor_doubles(tmp_path: Path) -> None:
    with trio.fail_after(60):
        async with process(tmp_path) as (running, _, management), trio.open_nursery() as nursery:
            nursery.start_soon(management.move_dead_letters, "dead")
            await trio.sleep(0.01)  # any time will do
            running.kill()
            nursery.cancel_scope.cancel()
    async with shop(tmp_path) as node:
        queues = node.statistics().queues
        assert queues["dead"].ready + queues["bills"].ready == 2 * MESSAGES
