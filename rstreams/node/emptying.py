"""Taking messages out of a queue, as management does: a purge, and dead letters that go back.

Both are consumers of the queue for a moment, like any other: they take turns with its consumers, and leave messages
alone that these have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import trio

from rstreams._codec.annotations import with_annotations
from rstreams._codec.decode import Malformed
from rstreams._core.claims import DONE, Claims, Ending, Settles
from rstreams._core.subscription import ENDED
from rstreams.abc import Hold, Subscriber, Subscription
from rstreams.errors import DeliveryFailed, ProtocolError
from rstreams.message import decode_message
from rstreams.net.links.failures import FAILURE_ADDRESS, FAILURE_TEXT
from rstreams.net.management import MovedLetters
from rstreams.node.address import Address
from rstreams.node.failure import TOLD
from rstreams.node.lifetime import DELIVERY_COUNT
from rstreams.node.producer_outlet import ProducerOutlet
from rstreams.node.statistics import QueueStatistics

AT_ONCE: Final = 256
"""How many messages are taken before other tasks run."""

NEXT_WITHIN_S: Final = 5.0
"""How long a queue may take to hand over its next message, in seconds."""


class Emptied(Protocol):
    """A queue."""

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Add a consumer."""
        ...

    def statistics(self) -> QueueStatistics:
        """Return the queue's counters."""
        ...

    def moving(self, subscription: Subscription) -> AbstractContextManager[None]:
        """Have a message that is handed over leave the queue as another address stores it."""
        ...


async def purge(queue: Emptied) -> int:
    """Delete all messages that are ready; return how many."""
    return await _Purging(lambda _message, taken: taken.hold().done()).take(queue, queue.statistics().ready)


async def move_back(
    queue: Emptied, find: Callable[[str], Address | None], *, to: str | None = None, most: int | None = None
) -> MovedLetters:
    """Move dead letters to the queues that they came from.

    A message that cannot be moved stays. The annotations about its failure are removed from a message that is moved.
    If both queues are in the store of the node, a message is in one of them at any time, and never in both.

    Args:
        queue: The queue of dead letters.
        find: Returns the address of a name, or None.
        to: The address that all of them go to; None: the queue that each came from.
        most: The most messages that are looked at; None: all that are ready.
    """
    moving = _Moving(queue, find, to)
    ready = queue.statistics().ready
    await _Taking(moving.move).take(queue, ready if most is None else min(ready, most))
    with trio.move_on_after(NEXT_WITHIN_S):
        while moving.on_the_way:
            await moving.arrived()
    return MovedLetters(moving.moved, dict(moving.no_room), dict(moving.no_address))


class _Taking:
    """A consumer that asks for one message after another.

    Args:
        handle: Called with each message, and the subscription, of which it takes a hold on the message.
    """

    def __init__(self, handle: Callable[[bytes, Subscription], None]) -> None:
        self._handle = handle
        self._subscription: Subscription = ENDED
        self._taken = 0
        self._came = trio.Event()

    async def take(self, queue: Emptied, most: int) -> int:
        """Take up to `most` messages, as long as there are some; return how many."""
        queue.subscribe(self)
        try:
            while self._taken < most and await self._take_one(queue):
                if self._taken % AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()
        finally:
            self._subscription.cancel()
        return self._taken

    async def _take_one(self, queue: Emptied) -> bool:
        before = self._taken
        self._came = trio.Event()
        self._subscription.request(1)
        if self._taken == before and queue.statistics().ready:  # it is not in memory
            with trio.move_on_after(NEXT_WITHIN_S):
                await self._came.wait()
        return self._taken > before

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def on_next(self, item: bytes) -> None:
        self._taken += 1
        self._handle(item, self._subscription)
        self._came.set()

    def on_error(self, error: BaseException) -> None:
        """Do nothing: no more messages come."""

    def on_complete(self) -> None:
        """Do nothing, as `on_error`."""


class _Purging(_Taking):
    """Takes messages to delete them."""

    purges = True


class _Moving:
    """Moves messages to other addresses.

    Attributes:
        moved: How many have arrived.
        on_the_way: How many have been sent and have not arrived.
        no_room: See `MovedLetters`.
        no_address: See `MovedLetters`.
    """

    def __init__(self, queue: Emptied, find: Callable[[str], Address | None], to: str | None) -> None:
        self._queue = queue
        self.moved = 0
        self.on_the_way = 0
        self.no_room: Counter[str] = Counter()
        self.no_address: Counter[str] = Counter()
        self._find = find
        self._to = to
        self._outlets: dict[str, _Way] = {}
        self._news = trio.Event()

    async def arrived(self) -> None:
        """Wait until a message has arrived, or was given back."""
        self._news = trio.Event()
        await self._news.wait()

    def move(self, message: bytes, subscription: Subscription) -> None:
        """Send one message on, or give it back."""
        hold = subscription.hold()
        name = self._to or _came_from(message)
        way = self._way(name)
        if way is None:
            self.no_address[name] += 1
            _leave(hold)
            return
        self.on_the_way += 1
        with self._queue.moving(subscription):
            way.put(_without_failure(message), Claims(_Move(self, hold), 0, (0,)))
        if way.waiting:
            self.on_the_way -= 1
            self.no_room[name] += 1
            _leave(way.take_last().hold)

    def settled(self, *, moved: bool) -> None:
        """Note that a message has arrived, or was given back."""
        self.on_the_way -= 1
        self.moved += moved
        self._news.set()

    def _way(self, name: str) -> _Way | None:
        way = self._outlets.get(name)
        address = self._find(name) if name else None
        if way is None and address is not None:
            try:
                address.producer()
            except ProtocolError:
                return None
            way = self._outlets[name] = _Way(address.producer)
        return way


class _Way(ProducerOutlet):
    """The way to one address."""

    def take_last(self) -> _Move:
        """Take out the message that waits; return its hold."""
        move = self._waiting.pop()[1].source
        self._idle()
        assert isinstance(move, _Move), "no other is put in"
        return move


class _Move(Settles):
    """A message that is being moved, with the hold on it in its queue."""

    def __init__(self, moving: _Moving, hold: Hold) -> None:
        self.hold = hold
        self._moving = moving

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:  # noqa: ARG002 - it is one message
        if how is DONE:
            self.hold.done()
        else:
            _leave(self.hold)  # whatever the reason
        self._moving.settled(moved=how is DONE)


def _leave(hold: Hold) -> None:
    """Give a message back, for other consumers than this one."""
    hold.fail(DeliveryFailed("modified", delivery_failed=False, undeliverable_here=True))


def _came_from(message: bytes) -> str:
    """Return the name of the queue that a dead letter left; "" if it has none."""
    try:
        return str(decode_message(message).annotations.get(FAILURE_ADDRESS, ""))
    except (*Malformed, ValueError):
        return ""


def _without_failure(message: bytes) -> bytes:
    try:
        return with_annotations(message, {}, removed=(FAILURE_TEXT, FAILURE_ADDRESS, DELIVERY_COUNT, *TOLD))
    except Malformed:
        return message
