"""Where the messages of a queue are: the seam between what a queue does with messages and how they are kept.

A queue is a policy over a storage. Each of the two knows these things:

    the storage   which messages there are, their positions and bytes, which of them are in memory and wait there
                  (`backlog`), which are on their way to the disk or only there, and the numbers of their producers
    the policy    which consumer gets which message and when (`competing`), what becomes of a message that comes back,
                  and of those that come when there is no room (`limits.WhenFull`)

A message goes this way:

    receive -> storage.append           it is stored, and its producer is told when it is safe
            -> policy.dispatch          it waits in `backlog`, where the policy takes it from
            -> policy: a consumer has it; it is given back to `backlog`, or leaves:
               storage.let_go           it is gone for good: its place is free
               storage.begin_leaving    it is on its way to the dead letters; `leave` when it has arrived there

`memory_storage` and `disk_storage` are the two storages. A storage knows nothing of consumers. An order of messages by
priority, a filter, or a group of consumers is a matter of the backlog and of the policy, whatever the storage is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from rstreams._events.table import MESSAGE_DROPPED
from rstreams.abc import Subscriber
from rstreams.errors import DeliveryFailed, StoreError
from rstreams.net.links.effectively_once import Stamp
from rstreams.node.address import NodeServices
from rstreams.node.backlog import Backlog
from rstreams.node.browser import Browser
from rstreams.node.lifetime import QueueClock
from rstreams.node.limits import Limits, WhenFull
from rstreams.node.message_deadlines import MessageDeadlines
from rstreams.node.producer import Producer
from rstreams.node.room import Room
from rstreams.node.seen_messages import Seen
from rstreams.node.stored_message import Stored, is_gone
from rstreams.store import Done


class Keeps(Protocol):
    """The queue of a storage.

    Attributes:
        name: The address.
        kind: Its kind, for the log.
        clock: Its source of time.
    """

    name: str
    kind: str
    clock: QueueClock

    @property
    def dispatch(self) -> Callable[[], None]:
        """The function that hands over messages that wait; called when there are more of them."""
        ...

    def nothing_more_comes(self) -> None:
        """Tell the consumers with demand that all has been read that there is."""
        ...

    def go_on_leaving(self, message: Stored, reason: str) -> bool:
        """Send a message to the dead letters that was on its way there when the node ended; False: there are none."""
        ...

    def cannot_read(self, *, failed: bool) -> None:
        """End the consumers with an error: the messages cannot be read now, or the store has failed for good."""
        ...


class Storage(ABC):
    """The messages of one queue; the module's docstring tells what it knows, and what not.

    Args:
        limits: How much it keeps.
        seen: The numbers of the producers of its messages.
        deadlines: Its messages in memory that can be too old.

    Attributes:
        room: The places, and how many are promised to producers. `join` makes it.
        backlog: The messages in memory that wait.
        browsers: Those who look at the messages.
        drops_oldest: Whether the oldest ones are dropped while there are too many.
        enqueued: How many messages have come.
        refused: How many were refused, because they could not be stored.
        dropped: How many were dropped, because they were the oldest ones.
        dropped_newest: How many were accepted and dropped, because it was full when they came.
        durable: Whether the messages outlive the process.
        on_disk: How many messages are only on the disk.
        comes_later: Whether messages are being read from there. A consumer may get some without asking again.
        error: Why no more messages can be read; None while they can.
    """

    durable = False
    on_disk = 0
    comes_later = False
    error: StoreError | None = None

    room: Room
    _queue: Keeps

    def __init__(self, limits: Limits, seen: Seen, deadlines: MessageDeadlines) -> None:
        self.limits = limits
        self.seen = seen
        self.deadlines = deadlines
        self.backlog = Backlog()
        self.browsers: dict[Browser, None] = {}
        self.enqueued = 0
        self.refused = 0
        self.dropped = self.dropped_newest = 0
        self.drops_oldest = False

    def join(self, queue: Keeps, when_full: WhenFull) -> None:
        """Belong to a queue from now on."""
        self._queue = queue
        self.room = self._make_room(when_full)

    @abstractmethod
    def _make_room(self, when_full: WhenFull) -> Room:
        """Return the places of a queue."""

    def begin(self, services: NodeServices) -> None:  # noqa: ARG002 - for those in the memory of a node
        """Begin to live in a node."""
        self.read_on()

    @abstractmethod
    def clear(self) -> None:
        """Delete all, because the address is removed."""

    def drop(self, done: Done) -> None:
        """Delete all for good, in the store too; `done` is called when nothing will come back."""
        done(None)

    async def written(self) -> None:  # noqa: B027 - in memory they are safe at once
        """Wait until all changes so far are safe; see `Address.written`."""

    # messages come

    @abstractmethod
    def append(
        self, producer: Producer, run: Sequence[bytes], stamps: Sequence[Stamp], repeated: int, dropped: int = 0
    ) -> None:
        """Store messages; see `Receives.receive`. `dropped` further ones are accepted with them, and dropped.

        Their producer hears of all of them when those that came first are safe. There is at least one message.
        """

    @abstractmethod
    def refuse_in_turn(self, producer: Producer, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages when the outcomes of all earlier ones of their producer are told."""

    def read_on(self) -> None:  # noqa: B027 - in memory all are there
        """Bring more messages into memory, if some are only on the disk and there is room."""

    # messages leave

    def let_go(self, messages: Sequence[bytes | Stored]) -> None:
        """Forget messages that have left the queue for good."""
        if self.deadlines:
            self.deadlines.forget_all(messages)
        if self.backlog.failing:
            self._forget_failing(messages)
        self.leave(messages)

    def begin_leaving(self, message: Stored, reason: str) -> None:  # noqa: ARG002 - for those that outlive the process
        """Note that a message is on its way to the dead letters; `leave` follows when it has arrived there."""
        self.deadlines.forget(message)
        self._forget_failing((message,))

    def _forget_failing(self, messages: Sequence[bytes | Stored]) -> None:
        for message in messages:
            if isinstance(message, Stored):
                self.backlog.failing.pop(message, None)

    @abstractmethod
    def leave(self, messages: Sequence[bytes | Stored]) -> None:
        """Forget messages that have arrived at the dead letters."""

    def moving(self, message: Stored | None) -> AbstractContextManager[None]:  # noqa: ARG002
        """Have a message leave in the same commit in which the block stores it elsewhere."""
        return nullcontext()

    def together(self) -> AbstractContextManager[None]:
        """Have the messages that leave in the block leave together."""
        return nullcontext()

    def note(self, message: Stored) -> None:  # noqa: B027 - in memory the message knows it
        """Keep what has become known of a message, such as a failed attempt."""

    def drop_oldest(self) -> None:
        """Drop messages that no consumer has, the oldest first, while there are too many that are safe.

        Those on disk are read first. Those on their way to the disk count when they are there.
        """
        room, backlog, before = self.room, self.backlog, self.dropped
        with self.together():
            while (backlog.returned or backlog.fresh) and not self.limits.hold(
                room.stored - room.unsafe, room.size - room.unsafe_size
            ):
                message = backlog.take_first()
                if is_gone(message):
                    backlog.gone -= 1
                else:
                    self.let_go((message,))
                    self.dropped += 1
        if self.dropped > before:
            name, which = self._queue.name, "the oldest message"
            MESSAGE_DROPPED.tell(name, kind=self.kind, address=name, which=which, count=self.dropped)

    # sight

    @property
    def oldest_s(self) -> float:
        """The age of the oldest message that waits, about, in seconds; 0 if none does."""
        return self.backlog.oldest_s

    @property
    def kind(self) -> str:
        """The kind of its queue, for the log."""
        return self._queue.kind.removeprefix("durable ")

    def browse(self, subscriber: Subscriber[bytes]) -> Browser:
        """Return the subscription of a new browser."""
        browser = Browser(self, self._queue.name, subscriber)
        self.browsers[browser] = None
        return browser

    @abstractmethod
    def look(self, browser: Browser, most: int) -> bool:
        """See `Shows.look`."""

    @abstractmethod
    def has_more(self, browser: Browser) -> bool:
        """See `Shows.has_more`."""

    def show(self) -> None:
        """Show browsers what has come."""
        for browser in list(self.browsers):
            browser.emit()

    def forget_gone(self) -> None:
        """Drop messages that have left, but still stand among those that wait, if they are many."""
        self.backlog.forget_gone(())

    @property
    def cannot_write(self) -> bool:
        """Whether it can take no messages any more."""
        return False

    @property
    def trouble(self) -> StoreError | None:
        """Why it cannot be written now; None while it can."""
        return None

    @abstractmethod
    def is_full(self, *, waits: bool) -> bool:
        """Return whether there is no room for a further message; with `waits` producers are not granted any then."""

    @property
    def out(self) -> int:
        """How many messages consumers have, or are on their way to the dead letters."""
        room, backlog = self.room, self.backlog
        return room.stored - room.unsafe - self.on_disk - backlog.ready - backlog.delayed.count
