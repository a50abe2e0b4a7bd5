"""What comes to a queue: messages are stored, or refused or dropped because there is no room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress, groupby

from rstreams import _machine
from rstreams._events.table import MESSAGE_DROPPED, QUEUE_FREE_AGAIN, QUEUE_FULL, QUEUE_REFUSES
from rstreams.errors import Condition, DeliveryFailed
from rstreams.net.links.effectively_once import Stamp, read_stamp
from rstreams.node.address_waits import Waits
from rstreams.node.limits import WhenFull
from rstreams.node.producer import Producer
from rstreams.node.storage import Storage


class QueueIntake:
    """The policy for messages that come when a queue may be full, and the address of its producers; see `Receives`.

    Args:
        name: The address.
        storage: Where the messages are stored.
        when_full: What becomes of messages that come to a full queue.
        ask_for_room: Called when a producer waits for room; consumers may let go of messages.
        explain: As for `Receives`.
        waits: As for `Receives`.

    Attributes:
        refused: How many messages were refused.
    """

    def __init__(
        self,
        name: str,
        storage: Storage,
        when_full: WhenFull,
        ask_for_room: Callable[[], None],
        explain: Callable[[], str],
        *,
        waits: Waits,
    ) -> None:
        self.name = name
        self.title = f"{storage.kind} {name!r:.80}"  # for the log
        self.explain = explain
        self.waits = waits
        self.refused = 0
        self._dropped = 0  # how many were dropped, because the queue was full when they came
        self._full_since = 0.0
        self._storage = storage
        self._room = storage.room
        self._room.on_half_empty = self._tell_of_room
        self._ask_for_room = ask_for_room
        self.when_full = when_full

    @property
    def when_full(self) -> WhenFull:
        """What becomes of messages that come to a full queue; it may change if the storage always grants some."""
        return self._when_full

    @when_full.setter
    def when_full(self, when_full: WhenFull) -> None:
        self._when_full: WhenFull = when_full
        self._storage.drops_oldest = when_full == "drop_oldest" and self._storage.error is None

    @property
    def tells_outcomes(self) -> bool:
        """Whether a message is accepted later than it comes: when it is safe."""
        return self._storage.durable

    @property
    def takes_singly(self) -> bool:
        """Whether a message may be refused: the queue may be full, or the node has no memory for it."""
        return self._when_full == "reject" or self._room.total.is_tight

    def join(self, producer: Producer) -> None:
        """Grant a new producer its part of the room."""
        self._room.join(producer)
        if self._room.is_short:
            self._on_short()

    def leave(self, producer: Producer) -> None:
        """Take back what was granted to a producer that has gone."""
        self._room.leave(producer)

    def receive(
        self, producer: Producer, run: Sequence[bytes], stamps: Sequence[Stamp] = (), repeated: int = 0
    ) -> None:
        """Store messages, as far as there is room; `repeated` further ones came before."""
        room, limits, when_full = self._room, self._storage.limits, self._when_full
        if room.total.is_tight and not producer.draws and not all(fits := room.fits_in_node(run)):
            text = f"the node has no memory for a message of {len(run[fits.index(False)])} bytes more"
            self._store_or_refuse(producer, run, stamps, repeated, fits=fits, text=f"{text}: see total_stored_bytes")
        elif (
            when_full == "block"
            or self._storage.drops_oldest
            or not run
            or limits.hold(room.stored + len(run), room.size + sum(map(len, run)))
        ):
            self._storage.append(producer, run, stamps, repeated)
        elif when_full == "reject":
            fits = limits.fitting(run, room.stored, room.size)
            self._store_or_refuse(producer, run, stamps, repeated, fits=fits, text=f"{self.title} is full")
        else:
            kept = list(compress(run, limits.fitting(run, room.stored, room.size)))
            dropped = len(run) - len(kept)
            self._dropped += dropped
            kind, which = self._storage.kind, "a message that came"
            MESSAGE_DROPPED.tell(self.name, kind=kind, address=self.name, which=which, count=self._dropped)
            room.take_back(producer, dropped)
            self._storage.append(producer, kept, stamps, repeated, dropped)
        room.top_up(producer)
        if room.is_short:
            self._on_short()

    def _on_short(self) -> None:
        """Have consumers let go of messages; log that the queue is full, if it was half empty since the last time."""
        self._ask_for_room()
        room = self._room
        if not room.full_with and room.is_short and self._storage.is_full(waits=False):
            room.full_with, self._full_since = room.stored, _machine.monotonic()
            QUEUE_FULL.tell(self.name, why=self.explain(), address=self.name, stored=room.stored)

    def _tell_of_room(self) -> None:
        kind, seconds = self._storage.kind, _machine.monotonic() - self._full_since
        QUEUE_FREE_AGAIN.tell(self.name, kind=kind, address=self.name, stored=self._room.stored, seconds=seconds)

    def _store_or_refuse(
        self,
        producer: Producer,
        run: Sequence[bytes],
        stamps: Sequence[Stamp],
        repeated: int,
        *,
        fits: list[bool],
        text: str,
    ) -> None:
        """Store the messages that fit, and refuse the others; of numbered ones all behind a refused one."""
        kept = fits.index(False)
        if producer.numbered:
            fits = [True] * kept + [False] * (len(run) - kept)
            numbered = sum(read_stamp(message) is not None for message in run[:kept])  # not all of them must be
            for stamp in stamps[numbered:]:
                self._storage.seen.gaps.open(stamp)
            stamps = stamps[:numbered]
        if repeated or kept:
            self._storage.append(producer, run[:kept], stamps, repeated)
            run, fits = run[kept:], fits[kept:]
        error = DeliveryFailed("rejected", Condition.RESOURCE_LIMIT_EXCEEDED.value, text)
        at = 0
        for fit, same in groupby(fits):
            end = at + len(list(same))
            if fit:
                self._storage.append(producer, run[at:end], (), 0)
            else:
                self._room.take_back(producer, end - at)
                self.refuse_in_turn(producer, end - at, error)
            at = end

    def refuse_in_turn(self, producer: Producer, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages when the outcomes of all earlier ones of their producer are told."""
        self.refused += messages
        kind, why = self._storage.kind, error.description
        QUEUE_REFUSES.tell(self.name, kind=kind, address=self.name, count=self.refused, why=why)
        self._storage.refuse_in_turn(producer, messages, error)
