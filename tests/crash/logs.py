"""The clients of the logs of the crash harness.

    events    a log with partitions: a producer with keys, a reader of each partition, and two members of a group
    state     a compacted log: a producer, and a reader that begins with the first message
    latest    a `latest` address, with the same clients

A reader goes on at its own position after each crash, and now and then reads everything again: each offset must have
the number that it had before. A member of the group settles a batch, and then publishes two marks to a durable queue of
the node. The group's position may wait until an earlier one is safe; that one is safe with the first mark. When the
second mark is accepted, the outcomes of the batch are certain to be safe.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import trio

from rstreams import Connection, Stream
from rstreams.message import Message, encode_item
from rstreams.node.log_keys import Keys
from tests.crash.log_accounts import KEY, LatestAccount, LogAccount

PARTITIONS: Final = 3
GROUP: Final = "billing"
COMPACTED: Final[tuple[str, ...]] = ("state", "latest")

Work = Callable[[Connection, str], Awaitable[None]]


class LogClients:
    """The clients of the logs, and their accounts.

    Args:
        chance: Decides what they do.
        certain: Tells whether a mark makes the outcomes before it certain.
        on_accepted: Called when messages of a producer have been accepted.
    """

    def __init__(self, chance: random.Random, certain: Callable[[], bool], on_accepted: Callable[[], None]) -> None:
        self._chance = chance
        self._on_accepted = on_accepted
        self._certain = certain
        names = [f"events-{number}" for number in range(PARTITIONS)]
        self.events = {name: LogAccount(name) for name in names}
        self.compacted = {name: LatestAccount(name) for name in COMPACTED}
        self._next: dict[str, int] = dict.fromkeys(("events", *COMPACTED), 0)
        self._parts = list(self.events.values())
        self._keys = Keys(KEY, PARTITIONS)

    @property
    def accounts(self) -> dict[str, LogAccount | LatestAccount]:
        """All accounts by name."""
        return {**self.events, **self.compacted}

    def producers(self) -> Iterator[tuple[Work, str]]:
        """Return the clients that run until the node is killed, besides `consumers`."""
        for name in self._next:
            yield self._produce, name
        for name in COMPACTED:
            yield self._look, name

    def consumers(self) -> Iterator[tuple[Work, str]]:
        """Return the clients that take what is there."""
        for name in self.events:
            yield self._read, name
        for _ in range(2):
            yield self._share, "events"

    async def _produce(self, connection: Connection, name: str) -> None:
        while True:
            begin = self._next[name]
            self._next[name] = end = begin + self._chance.randint(1, 60)
            messages = [_message(name, number) for number in range(begin, end)]
            await connection.publish(name, Stream.from_iterable(messages))
            for message in messages:
                self._accept(name, message)
            self._on_accepted()

    def _accept(self, name: str, message: Message) -> None:
        number = _number(message)
        if name == "events":
            self._part_of(message).accepted.add(number)
        else:
            self.compacted[name].accept(message.annotations[KEY], number)

    def _part_of(self, message: Message) -> LogAccount:
        plain = Message(b"", annotations={KEY: message.annotations[KEY]})
        return self._parts[self._keys.partition_of(encode_item(plain), None)]

    async def _read(self, connection: Connection, name: str) -> None:
        account = self.events[name]
        if self._chance.random() < 0.1:
            account.reread()
        async with connection.messages(name, start=account.position).open() as messages:
            async for message in messages:
                account.read_one(message.annotations["x-stream-offset"], _number(message))

    async def _share(self, connection: Connection, name: str) -> None:
        while True:
            settled: list[tuple[LogAccount, int]] = []
            most = self._chance.randint(1, 60)
            group = connection.messages(name, group=GROUP, settlement="manual").take(most)
            async with group.open() as deliveries:
                with trio.move_on_after(0.2):
                    async for delivery in deliveries:
                        account, offset = self._part_of(delivery.item), delivery.item.annotations["x-stream-offset"]
                        account.deliver(offset, _number(delivery.item))
                        delivery.accept()
                        settled.append((account, offset))
            for _ in range(2):
                await connection.publish("marks", Stream.of(len(settled)))
            if self._certain():
                for account, offset in settled:
                    account.settle(offset)

    async def _look(self, connection: Connection, name: str) -> None:
        """Read the numbers of a compacted log in their order."""
        last = -1
        async with connection.messages(name, start="first").open() as messages:
            async for message in messages:
                number = _number(message)
                self.compacted[name].disordered += number <= last
                last = number

    def is_through(self, numbers: dict[str, Any]) -> bool:
        """Return whether readers and the group have all messages, and compaction has no more to do."""
        logs = numbers["logs"]
        ends = [part["next"] for part in logs["events"]["partitions"]]
        group = logs["events"]["groups"].get(GROUP)
        return (
            ends == [account.position for account in self._parts]
            and (group is None or (group["lag"], group["unsettled"]) == (0, 0))
            and all(logs[name]["partitions"][0]["messages"] <= self._keys_of(name) for name in COMPACTED)
        )

    def _keys_of(self, name: str) -> int:
        """Return how many keys a compacted log may have."""
        return len({_key(name, number) for number in range(self._next[name])})

    async def finish(self, connection: Connection, numbers: dict[str, Any]) -> None:
        """Read what the compacted logs have."""
        for name, account in self.compacted.items():
            account.begin()
            count = numbers["logs"][name]["partitions"][0]["messages"]
            for message in await connection.messages(name, start="first").take(count).to_list():
                account.read_one(message.annotations[KEY], _number(message))


def _key(name: str, number: int) -> str:
    if name == "events":
        return f"customer {number % 9}"
    return f"once {number}" if number % 25 == 0 else f"often {number % 20}"


def _message(name: str, number: int) -> Message:
    size = 5_000 if number % 50 == 0 else 1 + number * 37 % 300
    body = b"" if name != "events" and number % 11 == 0 else bytes(size)  # b"" is a tombstone
    return Message(body, annotations={KEY: _key(name, number)}, properties={"number": number})


def _number(message: Message) -> int:
    number = message.properties["number"]
    assert isinstance(number, int)
    return number
