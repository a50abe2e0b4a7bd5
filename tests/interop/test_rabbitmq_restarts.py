"""A RabbitMQ 4 that is started again lets clients in before its streams are ready, and refuses them for some 100 ms."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import pytest
import trio

import rstreams
from rstreams import Reconnect, Stream
from rstreams.net.dialects import Offset
from tests.interop.processes import eventually
from tests.interop.rabbitmq import RabbitMQ

pytestmark = pytest.mark.broker

KINDS: Final = ("stream", "quorum")


class Traffic:
    """Publishes numbers to one queue and reads them from it, over two connections that are opened again."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.emitted = self.accepted = 0
        self.seen: set[int] = set()
        self.ends = trio.Event()
        self._policy = Reconnect(first_delay_s=0.01, max_delay_s=0.05)

    async def _numbers(self) -> AsyncIterator[int]:
        while not self.ends.is_set():
            yield self.emitted
            self.emitted += 1
            await trio.sleep(0.005)

    async def publish(self, url: str) -> None:
        async with rstreams.connect(url, reconnect=self._policy) as connection:
            self.accepted = (await connection.publish(self.kind, Stream.from_async_iterable(self._numbers()))).accepted

    async def read(self, url: str) -> None:
        start: Offset | None = "first" if self.kind == "stream" else None
        async with rstreams.connect(url, reconnect=self._policy) as connection:
            await connection.stream(self.kind, start=start).for_each(self.seen.add)

    async def sees(self, count: int) -> None:
        """Wait until so many numbers have been read; a broker that starts takes its own time."""
        while len(self.seen) < count:  # noqa: ASYNC110 - as `eventually`
            await trio.sleep(0.01)


@pytest.mark.parametrize("orderly", [True, False])
async def test_publishers_and_readers_go_through_a_restart(killable: RabbitMQ, orderly: bool) -> None:  # noqa: FBT001
    """Whether a link comes early enough to be refused is a matter of time: `test_returning_peers` has each refusal."""
    in_thread = partial(trio.to_thread.run_sync)
    for kind in KINDS:
        killable.declare(kind, type=kind)
    killable.restart()  # their declarations are on the disk then
    traffic = [Traffic(kind) for kind in KINDS]
    with trio.fail_after(100):
        async with trio.open_nursery() as readers:
            for each in traffic:
                readers.start_soon(each.read, killable.url)
            async with trio.open_nursery() as publishers:
                for each in traffic:
                    publishers.start_soon(each.publish, killable.url)
                await eventually(lambda: all(len(each.seen) > 50 for each in traffic))
                for _ in range(2):
                    if orderly:
                        await in_thread(killable.restart)
                    else:
                        await in_thread(killable.kill)
                        await in_thread(killable.start)
                    for each in traffic:
                        await each.sees(len(each.seen) + 1)
                for each in traffic:
                    each.ends.set()
            for each in traffic:
                await each.sees(each.emitted)
            readers.cancel_scope.cancel()
    for each in traffic:
        assert each.accepted == each.emitted
        assert each.seen == set(range(each.emitted))


ITEMS: Final = 100


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("way", ["publish", "sender"])
async def test_what_was_accepted_is_there_after_a_restart(killable: RabbitMQ, kind: str, way: str) -> None:
    killable.declare(kind, type=kind)
    async with rstreams.connect(killable.url) as connection:
        if way == "publish":
            assert (await connection.publish(kind, Stream.range(ITEMS))).accepted == ITEMS
        else:
            async with connection.sender(kind) as sender:
                for number in range(ITEMS):
                    await sender.send(number)
    await trio.to_thread.run_sync(killable.restart)
    with trio.fail_after(60):
        async with rstreams.connect(killable.url, reconnect=Reconnect(at_start=True)) as connection:
            assert await connection.stream(kind).take(ITEMS).to_list() == list(range(ITEMS))
