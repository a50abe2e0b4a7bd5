"""A reader of a log: the subscription behind one link, which gets the messages of a partition from an offset on."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from rstreams._codec import Described, Symbol
from rstreams._core.claims import no_claims
from rstreams.abc import Subscriber
from rstreams.errors import Condition, ProtocolError
from rstreams.net.dialects import Offset
from rstreams.net.dialects.stream_offsets import START_AT
from rstreams.net.links.offsets import TO_END, read_start, read_to_end
from rstreams.node.incarnations import require_incarnation
from rstreams.node.log_partition import LogCursor, LogPartition
from rstreams.node.subscription import OwnDemand

SLICE: Final = 1024
"""The most messages handed over in one call."""


class TakesOffsets(OwnDemand):
    """Base of the subscriptions of a log: the hand-over of messages with their offsets.

    Demand: Its own; no other subscription waits for it. Messages that are on disk come later; see `comes_later`.
    Context: The node's trio run.
    """

    operator = "log"

    def emit(self) -> None:
        """Hand over messages as far as there is demand; a nested call does nothing."""
        super().emit()
        if not self.demand and not self.ended and not self._emitting:
            self._rest()

    @abstractmethod
    def _rest(self) -> None:
        """Keep nothing that there is no room for: there is no demand."""


class LogReader(TakesOffsets):
    """Reads one partition.

    Args:
        partition: The partition.
        subscriber: Gets the messages, each with its offset.
        start: Where it begins.
        on_leave: Called when it has ended.
        end: The offset at which it completes; None: it goes on.

    Errors: `on_error` with `ProtocolError` (`amqp:not-found`) if the next message is not there any more.
    """

    def __init__(
        self,
        partition: LogPartition,
        subscriber: Subscriber[bytes],
        start: Offset,
        on_leave: Callable[[LogReader], None],
        end: int | None = None,
    ) -> None:
        super().__init__(partition.name, subscriber)
        self._partition = partition
        self._on_leave = on_leave
        self._end = math.inf if end is None else end
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

    def emit(self) -> None:
        """Hand over messages as far as there is demand, and complete behind the last one."""
        super().emit()
        if self._cursor.position >= self._end and not self.comes_later and not self._emitting:
            self.complete()

    def _emit_some(self) -> bool:
        if self._cursor.position >= self._end:
            return False
        offsets, messages = self._cursor.take(min(self.demand, SLICE))
        if offsets and offsets[-1] >= self._end:
            messages = messages[: bisect_left(offsets, self._end)]
        if messages:
            self._began = True
            self._hand_over_run(messages, no_claims(len(messages)))
        elif self._cursor.error is not None:
            self.fail(self._cursor.error)
        return bool(messages)

    def _has_more(self) -> bool:
        return self._cursor.position < min(self._end, self._partition.safe_end)

    def _rest(self) -> None:
        self._cursor.rest()

    def _leave(self) -> None:
        self._cursor.close()
        self._on_leave(self)

    def _lose(self) -> ProtocolError | None:
        return self._partition.gone(self._cursor.position) if self._began else None


def end_of(partition: LogPartition, filters: Mapping[str, Any]) -> tuple[int | None, dict[str, Any]]:
    """Return the offset at which a link to a partition completes, and the filter in force; None: it goes on.

    Errors: `ProtocolError` for a value that is not allowed.
    """
    try:
        end = read_to_end(filters)
    except ValueError as error:
        raise ProtocolError(Condition.INVALID_FIELD.value, str(error)) from None
    if end is None:
        return None, {}
    end = partition.safe_end if end < 0 else end
    return end, {TO_END: Described(Symbol(TO_END), end)}


def begin_of(partition: LogPartition, filters: Mapping[str, Any], default: Offset) -> tuple[Offset, dict[str, Any]]:
    """Return where a link to a partition begins, and the filters that are in force.

    Args:
        partition: The partition.
        filters: The filters of the peer.
        default: Where a link begins that does not say it.

    Errors: `ProtocolError` if the partition has no such place, or the place is one of an earlier log.
    """
    try:
        start = read_start(filters)
    except ValueError as error:
        raise ProtocolError(Condition.INVALID_FIELD.value, str(error)) from None
    used = require_incarnation(filters, partition.incarnation.id, f"log {partition.name!r:.80}")
    begin = default if start is None else start
    position = position_of(partition, begin)  # an offset that is gone refuses the link
    if start in {"next", "last"}:  # after a loss they would be another place
        used[START_AT] = Described(Symbol(START_AT), position)
    elif START_AT in filters:
        used[START_AT] = filters[START_AT]
    return begin, used


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
