"""RabbitMQ 4 short of memory or disk: it closes the windows of all sessions, and publishers wait for the end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest
import trio

import rstreams
from rstreams import Connection, Reconnect, Stream
from tests.interop.processes import eventually
from tests.interop.rabbitmq import RabbitMQ

pytestmark = pytest.mark.broker

SIZES: Final = (200, 200, 5_000, 1_000_000)
"""The bytes of each publisher's items. RabbitMQ takes frames of 128 KiB, and its window counts frames."""

LEAST: Final = 10
"""The fewest items that each publisher sends before the alarm, and behind it."""

ALARMS: Final = {
    "memory": (("set_vm_memory_high_watermark", "0.00001"), ("set_vm_memory_high_watermark", "0.6")),
    "disk": (("set_disk_free_limit", "100000GB"), ("set_disk_free_limit", "50MB")),
}
"""The commands of rabbitmqctl that begin and end them."""


class Publisher:
    """Publishes numbered items until the alarm is over, and some more."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self._rest = bytes(size)
        self.emitted = self.accepted = 0
        self.is_over = False
        self.connection: Connection | None = None

    def items(self) -> Iterator[bytes]:
        left = LEAST
        while left:
            left -= self.is_over
            yield b"%d:%d " % (self.number, self.emitted) + self._rest
            self.emitted += 1

    async def run(self, url: str, queue: str) -> None:
        async with rstreams.connect(url, reconnect=Reconnect() if self.number % 2 else None) as self.connection:
            self.accepted = (await self.connection.publish(queue, Stream.from_iterable(self.items()))).accepted

    @property
    def says(self) -> str:
        assert self.connection is not None
        return str(self.connection.explain())


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
@pytest.mark.parametrize("alarm", ALARMS)
async def test_publishers_wait_while_an_alarm_lasts_and_lose_nothing(
    rabbitmq_4: RabbitMQ, alarm: str, kind: str
) -> None:
    queue = f"alarmed-by-{alarm}-{kind}"
    rabbitmq_4.declare(queue, type=kind)
    begin, end = ALARMS[alarm]
    control = partial(trio.to_thread.run_sync, rabbitmq_4.control)
    publishers = [Publisher(number, size) for number, size in enumerate(SIZES)]
    with trio.fail_after(90):
        async with trio.open_nursery() as nursery:
            for each in publishers:
                nursery.start_soon(each.run, rabbitmq_4.url, queue)
            await eventually(lambda: all(each.emitted > LEAST for each in publishers))
            try:
                await control(*begin)
                await eventually(
                    lambda: all("the peer's session window is closed since" in each.says for each in publishers)
                )
                emitted = [each.emitted for each in publishers]
                await trio.sleep(1)
                assert [each.emitted for each in publishers] == emitted
            finally:
                for each in publishers:
                    each.is_over = True
                await control(*end)
    expected = {(each.number, at) for each in publishers for at in range(each.emitted)}
    assert sum(each.accepted for each in publishers) == len(expected)
    async with rstreams.connect(rabbitmq_4.url) as connection:
        stored = connection.stream(queue, start="first" if kind == "stream" else None)
        items = await stored.take(len(expected)).to_list()
    found = [tuple(map(int, bytes(item).partition(b" ")[0].split(b":"))) for item in items]
    assert len(found) == len(expected)
    assert set(found) == expected
