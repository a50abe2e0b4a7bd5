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
from tests.crash.notes import NODE, Notes

KEY: Final = "x-opt-partition-key"
PARTITIONS: Final = 3
GROUP: Final = "billing"
COMPACTED: Final[tuple[str, ...]] = ("state", "latest")

Work = Callable[[Connection, str], Awaitable[None]]


class LogClients:
    """The clients of the logs.

    Args:
        chance: Decides what they do.
        notes: Their history.
        certain: Tells whether a mark makes the outcomes before it certain.
        on_accepted: Called when messages of a producer have been accepted.

    Attributes:
        names: The names of all partitions and compacted logs.
    """

    def __init__(
        self, chance: random.Random, notes: Notes, certain: Callable[[], bool], on_accepted: Callable[[], None]
    ) -> None:
        self._chance = chance
        self._notes = notes
        self._on_accepted = on_accepted
        self._certain = certain
        self._parts = [f"events-{number}" for number in range(PARTITIONS)]
        self.names = (*self._parts, *COMPACTED)
        self._next: dict[str, int] = dict.fromkeys(("events", *COMPACTED), 0)
        self._keys = Keys(KEY, PARTITIONS)
        self._positions = dict.fromkeys(self._parts, 0)  # of the readers
        self._committed = dict.fromkeys(self._parts, 0)  # what is certain to be
        for name in self.names:
            drops = ["superseded"] if name in COMPACTED else []
            notes.note("address", address=name, part=NODE, copies=True, promise="effectively_once", drops=drops)
        for name in self._parts:
            self._begin(f"reader of {name}", name, "first")
            group = {"subscription": GROUP, "from": "first", "promise": "at_least_once"}
            notes.note("subscribed", by=GROUP, address=name, **group)

    def _begin(self, by: str, name: str, begin: object) -> None:
        self._notes.note("subscribed", by=by, address=name, **{"from": begin})

    def _got(self, by: str, name: str, message: Message, **fields: object) -> int:
        """Note that a message has come, and return its offset."""
        offset = message.annotations["x-stream-offset"]
        assert isinstance(offset, int)
        self._notes.note("got", by=by, address=name, item=_number(message), offset=offset, **fields)
        return offset

    def producers(self) -> Iterator[tuple[Work, str]]:
        """Return the clients that run until the node is killed, besides `consumers`."""
        for name in self._next:
            yield self._produce, name
        for name in COMPACTED:
            yield self._look, name

    def consumers(self) -> Iterator[tuple[Work, str]]:
        """Return the clients that take what is there."""
        for name in self._parts:
            yield self._read, name
        for _ in range(2):
            yield self._share, "events"

    async def _produce(self, connection: Connection, name: str) -> None:
        while True:
            begin = self._next[name]
            self._next[name] = end = begin + self._chance.randint(1, 60)
            messages = [_message(name, number) for number in range(begin, end)]
            with self._notes.sending(f"producer of {name}", [self._item(name, message) for message in messages]):
                await connection.publish(name, Stream.from_iterable(messages))
            self._on_accepted()

    def _item(self, name: str, message: Message) -> dict[str, object]:
        if name == "events":
            return {"address": self._part_of(message), "item": _number(message)}
        return {"address": name, "item": _number(message), "key": message.annotations[KEY]}

    def _part_of(self, message: Message) -> str:
        plain = Message(b"", annotations={KEY: message.annotations[KEY]})
        return self._parts[self._keys.partition_of(encode_item(plain), None)]

    async def _read(self, connection: Connection, name: str) -> None:
        by = f"reader of {name}"
        if self._chance.random() < 0.1:
            self._positions[name] = 0
        self._begin(by, name, self._positions[name])
        async with connection.messages(name, start=self._positions[name]).open() as messages:
            async for message in messages:
                self._positions[name] = self._got(by, name, message) + 1

    async def _share(self, connection: Connection, name: str) -> None:
        while True:
            settled = dict.fromkeys(self._parts, 0)
            most = self._chance.randint(1, 60)
            group = connection.messages(name, group=GROUP, settlement="manual").take(most)
            async with group.open() as deliveries:
                with trio.move_on_after(0.2):
                    async for delivery in deliveries:
                        part = self._part_of(delivery.item)
                        settled[part] = self._got(GROUP, part, delivery.item, subscription=GROUP) + 1
                        delivery.accept()
                        who = {"by": GROUP, "subscription": GROUP, "address": part}
                        self._notes.note("done", item=_number(delivery.item), **who)
            for _ in range(2):
                await connection.publish("marks", Stream.of(sum(settled.values())))
            if self._certain():
                self._commit(settled)

    def _commit(self, ends: dict[str, int]) -> None:
        """Note that the outcomes of all messages before some offsets are certain to be safe.

        A partition has one member at a time, which settles in the order of the offsets. Each message was settled by it,
        or by a member before it, maybe in a life of the node without marks.
        """
        for part, end in ends.items():
            if end > self._committed[part]:
                self._committed[part] = end
                self._notes.note("committed", address=part, subscription=GROUP, offset=end)

    async def _look(self, connection: Connection, name: str) -> None:
        """Read a compacted log in its order."""
        self._begin(f"reader of {name}", name, "first")
        async with connection.messages(name, start="first").open() as messages:
            async for message in messages:
                self._got(f"reader of {name}", name, message)

    def is_through(self, numbers: dict[str, Any]) -> bool:
        """Return whether readers and the group have all messages, and compaction has no more to do."""
        logs = numbers["logs"]
        ends = [part["next"] for part in logs["events"]["partitions"]]
        group = logs["events"]["groups"].get(GROUP)
        return (
            ends == list(self._positions.values())
            and (group is None or (group["lag"], group["unsettled"]) == (0, 0))
            and all(logs[name]["partitions"][0]["messages"] <= self._keys_of(name) for name in COMPACTED)
        )

    def _keys_of(self, name: str) -> int:
        """Return how many keys a compacted log may have."""
        return len({_key(name, number) for number in range(self._next[name])})

    async def finish(self, connection: Connection, numbers: dict[str, Any]) -> None:
        """Read what the compacted logs have."""
        for name in COMPACTED:
            self._notes.note("unsubscribed", by=f"reader of {name}", address=name)
            self._begin("at the end", name, "first")
            count = numbers["logs"][name]["partitions"][0]["messages"]
            for message in await connection.messages(name, start="first").take(count).to_list():
                self._got("at the end", name, message)


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
