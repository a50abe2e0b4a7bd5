"""Rows that the receiver refuses, on their way to another address: option deadLetterAddress of the sink."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

import trio

from rstreams import Receipt
from rstreams.abc import Hold, Subscription
from rstreams.errors import DeliveryFailed
from rstreams.message import Message, decode_message, encode_item
from rstreams_spark._log import ROWS_REFUSED, say
from rstreams_spark._options import SinkOptions
from rstreams_spark._outbox import Outbox
from rstreams_spark._rows import RowPublisher, SentRows

FAILURE_TEXT: Final = "x-opt-rstreams-failure"
"""The annotation of a dead letter with the answer of the receiver."""

FAILURE_ADDRESS: Final = "x-opt-rstreams-failed-at"
"""The annotation of a dead letter with the address where the row was refused."""


class DeadLetterOutbox(Outbox):
    """An outbox whose rows do not end the task when the receiver refuses them.

    Each row is a message with an outcome of its own. A refused one goes to the other address, with the reason as
    annotations. The task is done when these are accepted there.
    """

    def __init__(self, options: SinkOptions, task: str, address: str) -> None:
        """Open no link yet.

        Args:
            options: Where to send.
            task: The name of the task, for messages.
            address: The address for refused rows.
        """
        super().__init__(options, task)
        self._dead_address = address
        self._refused = 0
        self._first = ""

    async def _finish(self) -> None:
        for lane in self._senders():
            lane.finish()
        await self._until(lambda: all(lane.accepted == lane.added for lane in self._senders()))
        if self._refused:
            self._lane(self._dead_address).finish()
        await self._until(lambda: not self._scopes)
        if self._refused:
            say(
                ROWS_REFUSED,
                f"rstreams sink at {self._options.peer}, {self._task}",
                f"{self._refused} rows were refused, and are at "
                f"address {self._dead_address!r} now; the first: {self._first}",
            )

    def _senders(self) -> list[RowPublisher]:
        return [lane for address, lane in self._lanes.items() if address != self._dead_address]

    async def _send(self, address: str, lane: RowPublisher) -> None:
        if address == self._dead_address:
            await super()._send(address, lane)
            return
        rows = _Rows()
        lane.subscribe(rows)
        async with self._connected.connection.sender(address) as sender:
            while (row := await rows.next(lane)) is not None:
                message, hold = decode_message(row[0]), row[1]
                receipt = await sender.submit(message)
                receipt.when_settled(partial(self._settled, address, message, hold))

    def _settled(self, address: str, message: Message, hold: Hold, receipt: Receipt) -> None:
        error = receipt.error
        if isinstance(error, DeliveryFailed) and error.outcome in {"rejected", "modified"}:
            self._bury(address, message, error)
        elif error is not None:
            hold.fail(error)
            self._note_failure(address, error)
            return
        hold.done()
        self._ring()

    def _bury(self, address: str, message: Message, error: DeliveryFailed) -> None:
        self._refused += 1
        self._first = self._first or f"message_id {message.id!r} at address {address!r}: {error}"
        reasons: dict[str | int, object] = {FAILURE_TEXT: str(error), FAILURE_ADDRESS: address}
        letter = replace(message, annotations={**message.annotations, **reasons})
        self._lane(self._dead_address).add(SentRows((self._refused,), [encode_item(letter)]))


class _Rows:
    """A subscriber that takes one row at a time."""

    def __init__(self) -> None:
        self._row: tuple[bytes, Hold] | None = None
        self._subscription: Subscription | None = None
        self._completed = False
        self._news = trio.Event()

    async def next(self, lane: RowPublisher) -> tuple[bytes, Hold] | None:
        """Return the next row, encoded, and its hold; None after the last one."""
        self._row, self._news = None, trio.Event()
        lane.request(1)
        if self._row is None and not self._completed:
            await self._news.wait()
        return self._row

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def on_next(self, item: bytes) -> None:
        assert self._subscription is not None
        self._row = item, self._subscription.hold()
        self._news.set()

    def on_error(self, error: BaseException) -> None:
        raise AssertionError(error)  # a lane has none

    def on_complete(self) -> None:
        self._completed = True
        self._news.set()
