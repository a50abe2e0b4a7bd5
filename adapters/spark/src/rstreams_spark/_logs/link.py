"""One link to a partition of a log: messages become rows when they come, and credit ends where the range ends.

Theory of operation. A link has a position: the offset behind the last row that was taken from it. To read up to an
offset, it requests as many messages as there are offsets in between, and no more than its window at a time:

    demand + waiting rows <= end - position

Offsets may have no message: after compaction, or where RabbitMQ keeps notes of its own. Then fewer messages come than
were requested, or messages behind the end come in their place, which are dropped. Therefore a drain follows when no
more messages come. If it brings nothing, there are none left before the end, as far as the peer of this link knows.

Messages come settled: a log takes none back. The link stays attached when a range is read, and goes on with the next
range if that begins where it stands. All of this lives in the trio thread of the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import trio

from rstreams import Connection
from rstreams.abc import Run
from rstreams.errors import RemoteProtocolError
from rstreams_spark._columns import Column
from rstreams_spark._logs.jumps import Jump, jumps_in
from rstreams_spark._logs.rows import OFFSET, rows_within, with_an_offset, with_offset
from rstreams_spark._record_batches import RecordBatches
from rstreams_spark._waiting_rows import MAX_ROWS, TooLarge, WaitingRows
from rstreams_spark.errors import UnparsableMessage

WINDOW: Final = 20_000
"""The most messages requested and not here, or here and not taken."""

WINDOW_BYTES: Final = 32 * 1024 * 1024
"""The most bytes of these messages, if the next ones are as large as the last ones."""

PACK_ITEMS: Final = 64
"""The most messages in a delivery, from a peer that knows packs. The last delivery of a range may have messages behind
the range. They wait in the link for the next range."""

INCARNATION: Final = "rstreams:incarnation"
"""The filter by which a node refuses a link to another log than the one with an id."""

QUIET_S: Final = 0.05
"""How long to wait for requested messages before a drain."""

FIRST_WINDOW: Final = 500
"""The window of a new link: a task that needs few rows reads few messages."""

GROWTH: Final = 8
"""By how much the window grows with each request. All requested messages must come first, therefore each step waits."""


class LinkOptions(NamedTuple):
    """How the messages of a link become rows.

    Attributes:
        columns: The columns of the rows.
        annotation: The annotation with a message's offset.
        max_message_bytes: The size above which a message cannot become a row.
        skips_unparsable: Whether a message that cannot become a row is left out, instead of ending the read.
    """

    columns: tuple[Column, ...]
    annotation: str
    max_message_bytes: int
    skips_unparsable: bool


class LinkPart(NamedTuple):
    """Rows of a range.

    Attributes:
        batches: The rows, with their offsets in the last column.
        jumps: Places where two offsets or more have no message, although later ones came; a place begins at its first
            offset and ends behind its last.
        exhausted: Whether a drain has brought no message, and the range has not ended.
    """

    batches: list[pa.RecordBatch]
    jumps: list[Jump]
    exhausted: bool


class LinkLost(Exception):
    """The link was lost, and the connection may have come back: the rest of the range needs a new link."""


class _Subscription(Protocol):
    losses: int

    def request(self, n: int) -> None: ...

    def cancel(self) -> None: ...

    def drain(self, on_drained: Callable[[], None]) -> None: ...


class LogLink:
    """The subscriber of a link to one partition; see the module's text.

    Attributes:
        position: The offset behind the last row that was taken.
        skipped: The number of messages that could not become rows.
    """

    def __init__(
        self, address: str, position: int, options: LinkOptions, mean_bytes: int = 0, incarnation: str = ""
    ) -> None:
        """Make a link that is not attached yet.

        Args:
            address: The partition.
            position: The offset of the first message.
            options: How messages become rows.
            mean_bytes: The mean size of the messages, as far as the driver knows it.
            incarnation: The id of the log that a node compares; "": any log will do.
        """
        self.address = address
        self.incarnation = incarnation
        self.position = position
        self.options = options
        self.skipped = 0
        maker = RecordBatches(address, with_offset(options.columns, options.annotation))
        self._waiting = WaitingRows(maker, largest=options.max_message_bytes, most_rows=MAX_ROWS)
        self._window = FIRST_WINDOW
        self._mean_bytes = mean_bytes
        self._end = position
        self._subscription: _Subscription | None = None
        self._demand = 0
        self._came = 0
        self._reads = 0  # the number of the present call of `read`
        self._drained_at: int | None = None  # how many messages had come at the answer of a drain of this call
        self._draining = False
        self._error: BaseException | None = None
        self._news = trio.Event()

    def attach(self, connection: Connection) -> None:
        """Attach the link at its position."""
        connection.stream(
            self.address,
            decode=bytes,
            settlement="at_most_once",
            window=WINDOW,
            pack_items=PACK_ITEMS,
            filters={
                **connection.dialect.offset(self.position),
                **({INCARNATION: self.incarnation} if self.incarnation else {}),
            },
        ).subscribe(self)

    @property
    def is_lost(self) -> bool:
        """Whether its place at the peer is lost, or will be: a new link must take its place."""
        return self._error is not None or (self._subscription is not None and self._subscription.losses > 0)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is requested, and no rows wait."""
        return not (self._demand or self._waiting.count or self.is_lost)

    def close(self) -> None:
        """Detach the link."""
        if self._subscription is not None:
            self._subscription.cancel()

    async def read(self, end: int, *, drains: bool) -> LinkPart:
        """Return the next rows before the offset `end`.

        Args:
            end: The offset where the range ends.
            drains: Whether the peer is to say that it has no more; otherwise this waits for messages.

        Errors: `LinkLost`; the error that ended the link; `UnparsableMessage`.
        """
        before = self._came
        self._end = end
        self._reads += 1
        self._drained_at = None
        self._request()
        while not (self.is_lost or self._waiting.has_whole or self._is_quiet(before, drains=drains)):
            self._news = trio.Event()
            with trio.move_on_after(QUIET_S) as scope:
                await self._news.wait()
            if drains and scope.cancelled_caught:
                self._drain()
        if self._error is not None:
            raise self._error.with_traceback(None)
        if self.is_lost:
            raise LinkLost
        exhausted = self._demand > 0 and not self._waiting.count
        return self._take(end, exhausted=exhausted, whole_only=self._waiting.has_whole and self._demand > 0)

    def _is_quiet(self, came: int, *, drains: bool) -> bool:
        """Whether all requested messages are here, or the peer has said that it has no more."""
        if self._demand <= 0 and self._subscription is not None:
            return True
        return self._drained_at == self._came if drains else self._came > came

    def _request(self) -> None:
        if self._subscription is None:
            return
        left = self._end - self.position - self._waiting.count - self._demand
        window = min(self._window, max(1, WINDOW_BYTES // max(1, self._mean_bytes)))
        room = window - self._waiting.count - self._demand
        n = min(left, room)
        if n > 0:
            self._demand += n
            self._window = min(WINDOW, GROWTH * self._window)
            self._subscription.request(n)

    def _drain(self) -> None:
        if not self._draining and self._subscription is not None:
            self._draining = True
            self._drained_at = None
            self._subscription.drain(partial(self._on_drained, self._reads))

    def _on_drained(self, read: int) -> None:
        """Note the answer of a drain. That of an earlier `read` tells nothing: it was asked for less than this one."""
        self._draining = False
        if read == self._reads:
            self._drained_at = self._came
        self._news.set()

    def _take(self, end: int, *, exhausted: bool, whole_only: bool) -> LinkPart:
        made: list[pa.RecordBatch] = []
        jumps: list[Jump] = []
        for rows in self._waiting.take(self._waiting.count, whole_only=whole_only):
            batch = with_an_offset(rows)
            if not batch.num_rows:
                continue
            offsets = batch.column(OFFSET)
            jumps += jumps_in(offsets, self.position, end)
            here = rows_within(batch, self.position, end)
            if here.num_rows:
                made.append(here)
            self.position = max(self.position, offsets[len(offsets) - 1].as_py() + 1)
            self._mean_bytes = batch.nbytes // batch.num_rows
        return LinkPart(made, jumps, exhausted)

    # the link calls these

    def on_subscribe(self, subscription: Any) -> None:  # noqa: ANN401 - a subscription of a link
        """Request the first messages."""
        self._subscription = subscription
        self._request()
        self._news.set()

    def on_next(self, item: bytes) -> None:
        """Take a message."""
        self._take_in(iter((item,)))

    def on_run(self, run: Run[bytes]) -> None:
        """Take many messages."""
        self._take_in(run.items())

    def _take_in(self, items: Iterator[bytes]) -> None:
        """Take messages; those of a link that has been attached again come from its old position."""
        if self.is_lost:
            for _ in items:
                pass
        else:
            while True:
                before = self._waiting.count
                try:
                    rare = self._waiting.add(items)
                finally:
                    self._count(self._waiting.count - before)
                if rare is None:
                    break
                self._add_rare(rare)
        self._news.set()

    def _add_rare(self, message: bytes) -> None:
        self._count(1)
        try:
            self._waiting.add_rare(message)
        except (RemoteProtocolError, TooLarge) as error:
            self.skipped += 1
            if not self.options.skips_unparsable:
                self.on_error(
                    UnparsableMessage(
                        f"a message behind offset {self.position + self._waiting.count - 1} of {self.address!r} cannot "
                        f"be made a row: {error}. With option onUnparsable=reject such messages are left out"
                    )
                )

    def _count(self, messages: int) -> None:
        self._came += messages
        self._demand -= messages

    def on_error(self, error: BaseException) -> None:
        """Note that the link has ended."""
        if self._error is None:
            self._error = error
        self._news.set()

    def on_complete(self) -> None:
        """Note that the peer has ended the link."""
        self.on_error(LinkLost())
