"""A reader of a log: the subscription behind one link, which gets the messages of a partition from an offset on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from rstreams._core.demand import add_demand, demand_error, take_demand
from rstreams._core.fast_paths import held_runs_of
from rstreams._core.holds import NO_HOLD, Hold, HoldRun, NoHolds
from rstreams._core.sight import Scannable
from rstreams.abc import Subscriber
from rstreams.errors import ProtocolError
from rstreams.net.dialects import Offset
from rstreams.net.links.offsets import with_offset
from rstreams.node.handover import end_raised, hand_over
from rstreams.node.log_partition import LogCursor, LogPartition

_SLICE = 1024
"""The most messages handed over in one call."""


class TakesOffsets(Scannable):
    """Base of the subscriptions of a log: demand, and the hand-over of messages with their offsets.

    Demand: Its own; no other subscription waits for it. Messages that are on disk come later; see `comes_later`.
    Context: The node's trio run.
    """

    operator = "log"

    def __init__(self, address: str, subscriber: Subscriber[bytes]) -> None:
        self._address = address
        self._subscriber = subscriber
        self._on_held_run = held_runs_of(subscriber)
        self._demand = 0
        self._ended = False
        self._suspended = False
        self._emitting = False

    def request(self, n: int) -> None:
        """Ask for `n` more messages."""
        if self._ended:
            return
        error = demand_error(n)
        if error is None:
            self._demand = add_demand(self._demand, n)
            self.emit()
        else:
            self.fail(error)

    @property
    def ended(self) -> bool:
        """Whether it gets no more messages."""
        return self._ended

    def cancel(self) -> None:
        """Get no more messages."""
        if not self._ended:
            self._ended = True
            self._leave()

    def fail(self, error: BaseException) -> None:
        """End with an error."""
        if not self._ended:
            self.cancel()
            self._subscriber.on_error(error)

    def suspend(self) -> None:
        """Get no messages until `resume`."""
        self._suspended = True

    def resume(self) -> None:
        """Get messages again."""
        self._suspended = False
        self.emit()

    def hold(self) -> Hold:
        """Return a hold that does nothing: a log keeps its messages, whatever becomes of them at a reader."""
        return NO_HOLD

    @property
    def comes_later(self) -> bool:
        """Whether messages are being read from the disk, which come without a further request."""
        raise NotImplementedError

    @property
    def demand(self) -> int:
        """How many messages it has asked for and not received."""
        return self._demand

    def emit(self) -> None:
        """Hand over messages as far as there is demand; a nested call does nothing."""
        if self._emitting:
            return
        self._emitting = True
        try:
            while self._demand and not self._ended and not self._suspended:
                if not self._emit_some(min(self._demand, _SLICE)):
                    break
        finally:
            self._emitting = False
        if not self._demand and not self._ended:
            self._rest()

    def on_ready(self) -> None:
        """Hand over messages that have come; if no more come now, the subscriber hears of it."""
        self.emit()
        if not self._ended and not self.comes_later:
            look_again = getattr(self._subscriber, "look_again", None)
            if look_again is not None:
                look_again()

    def _hand_over(self, offsets: Sequence[int], messages: Sequence[bytes], holds: HoldRun) -> None:
        """Hand over messages, which count as demanded."""
        items = list(map(with_offset, messages, offsets))
        self._demand = take_demand(self._demand, len(items))
        if self._on_held_run is not None:
            try:
                self._on_held_run(items, holds)
            except Exception as error:
                end_raised(self._subscriber, error, self._address, self.cancel)
            return
        for at, item in enumerate(items):
            self._begin_item(holds, at)
            failed = hand_over(self._subscriber, item, self._address, self.cancel)
            self._end_item(failed)
            if self._ended:
                for hold in holds[at + 1 :]:
                    hold.release()
                break

    # a subclass has these

    def _emit_some(self, most: int) -> bool:
        """Hand over up to `most` messages; return whether there may be more."""
        raise NotImplementedError

    def _rest(self) -> None:
        """Keep nothing that there is no room for: there is no demand."""
        raise NotImplementedError

    def _leave(self) -> None:
        """Leave the log: the subscription has ended."""
        raise NotImplementedError

    def _begin_item(self, holds: HoldRun, at: int) -> None:
        """Begin to hand over one message."""

    def _end_item(self, error: BaseException | None) -> None:
        """End the hand-over of one message; `error` is what the subscriber raised."""


class LogReader(TakesOffsets):
    """Reads one partition.

    Args:
        partition: The partition.
        subscriber: Gets the messages, each with its offset.
        start: Where it begins.
        on_leave: Called when it has ended.

    Errors: `on_error` with `ProtocolError` (`amqp:not-found`) if the next message is not there any more.
    """

    def __init__(
        self,
        partition: LogPartition,
        subscriber: Subscriber[bytes],
        start: Offset,
        on_leave: Callable[[LogReader], None],
    ) -> None:
        super().__init__(partition.name, subscriber)
        self._partition = partition
        self._on_leave = on_leave
        position = position_of(partition, start)
        self._began = isinstance(start, int)
        self._cursor = LogCursor(partition, position, self.on_ready, self._lose)
        if isinstance(start, datetime):
            self._cursor.seek(start.timestamp())

    @property
    def comes_later(self) -> bool:
        """Whether messages are being read from the disk."""
        return self._cursor.comes_later

    @property
    def lag(self) -> int:
        """How many messages are behind the next one, itself included; 0 while its position is not known."""
        return self._partition.safe_end - max(self._cursor.position, 0)

    def _emit_some(self, most: int) -> bool:
        offsets, messages = self._cursor.take(most)
        if messages:
            self._began = True
            self._hand_over(offsets, messages, NoHolds(len(messages)))
        elif self._cursor.error is not None:
            self.fail(self._cursor.error)
        return bool(messages)

    def _rest(self) -> None:
        self._cursor.rest()

    def _leave(self) -> None:
        self._cursor.close()
        self._on_leave(self)

    def _lose(self) -> ProtocolError | None:
        return self._partition.gone(self._cursor.position) if self._began else None


def position_of(partition: LogPartition, start: Offset) -> int | None:
    """Return the first offset for a place to begin at; None for a time, which is looked up.

    Errors: `ProtocolError` for an offset that is gone, or that is behind the next one.
    """
    if isinstance(start, datetime):
        return None
    if isinstance(start, int):
        if start > partition.safe_end or (start < partition.kept.first and not partition.has_gaps):
            raise partition.gone(start)
        return start
    if start == "first":
        return partition.kept.first
    return max(partition.kept.first, partition.safe_end - 1) if start == "last" else partition.safe_end
