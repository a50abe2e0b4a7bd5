"""The receiving side of the source's link: from messages to the rows of the next batch.

Theory of operation. Every message that was requested and is not yet settled is in one of three places:

    demand      requested, not yet here: the sender may still send it
    waiting     here as a row, in no batch yet
    assigned    in a batch that Spark has not committed, as far as is known

    demand + waiting + assigned <= limit, always

A message is settled when its batch has been committed, and only then a new one is requested in its place. Therefore,
with a limit of N, the sender sees at most N messages unsettled, and the other messages stay at the sender.

A message that cannot be made a row ends the stream (`onUnparsable=fail`): the rows before it go out first, and the
message and all later ones stay unsettled. With `reject` it is rejected and another takes its place.

All of this lives in the trio thread of the connection, where signals come as plain calls (`rstreams.abc`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import trio

from rstreams.abc import Hold, Subscription
from rstreams.errors import Condition, ConfigError, DeliveryFailed, RemoteProtocolError
from rstreams.message import Message, decode_message
from rstreams_spark._schema import Row
from rstreams_spark.errors import SourceFailed, UnparsableMessage

IDLE_WAIT_S: Final = 0.1
"""How long to wait for a first message before Spark is told that there is none."""

ANSWER_WAIT_S: Final = 30.0
"""How long the peer may take to answer an attach or a drain."""


class Drains(Protocol):
    """The methods of a link's subscription beyond `Subscription`."""

    def drain(self, on_drained: Callable[[], None]) -> None:
        """Have the peer send the messages it has now; then take back the rest of the credit and call `on_drained`."""
        ...


def decode(encoded: bytes) -> Message | RemoteProtocolError:
    """Return the message, or the error of its encoding: one bad message must not end the link."""
    try:
        return decode_message(encoded)
    except RemoteProtocolError as error:
        return error


class RowIntake:
    """The subscriber of the source's link; see the module's text.

    Context: The trio thread of the connection, for every method.
    """

    def __init__(self, limit: int, parse: Callable[[Message], Row], *, reject_unparsable: bool) -> None:
        """Make an intake that requests nothing yet.

        Args:
            limit: The most messages granted, waiting and assigned together.
            parse: Makes the row of a message, or raises `UnparsableMessage`.
            reject_unparsable: Whether to reject a message that `parse` refuses, instead of ending the stream.
        """
        self._limit = limit
        self._parse = parse
        self._reject_unparsable = reject_unparsable
        self._subscription: Subscription | None = None
        self._demand = 0
        self._waiting: list[Row] = []
        self._holds: deque[Hold] = deque()  # of the assigned messages, then of the waiting ones
        self._set_aside: list[Hold] = []  # of the message that ended the stream, and of all behind it
        self._assigned = 0
        self._first_came_at = 0.0
        self._received = 0
        self._unparsable: UnparsableMessage | None = None
        self._lost: SourceFailed | None = None
        self._completed = False
        self._drained = False
        self._empty = False
        self._wanted = 1
        self._news = trio.Event()

    # the link calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Take the link on."""
        self._subscription = subscription
        self._news.set()

    def on_next(self, item: Message | RemoteProtocolError) -> None:
        """Make a row of a message, or take the error of its encoding; the message stays unsettled."""
        assert self._subscription is not None
        self._received += 1
        self._demand -= 1
        hold = self._subscription.hold()
        if self._unparsable is not None:
            self._set_aside.append(hold)
            return
        try:
            if isinstance(item, RemoteProtocolError):
                raise item  # noqa: TRY301 - one of the ways in which a message cannot be made a row
            row = self._parse(item)
        except Exception as error:  # a message must never vanish, also after an error of the parser
            self._on_unparsable(item, hold, error)
            return
        if not self._waiting:
            self._first_came_at = trio.current_time()
        self._waiting.append(row)
        self._holds.append(hold)
        if len(self._waiting) >= self._wanted:
            self._news.set()

    def on_error(self, error: BaseException) -> None:
        """Note that the link is gone, and with it everything that was not settled."""
        self._lost = SourceFailed(
            f"{type(error).__name__}: {error}; messages that Spark has not committed are delivered again when the "
            "query is started again"
        )
        self._news.set()

    def on_complete(self) -> None:
        """Note that no further message will come."""
        self._completed = True
        self._news.set()

    def _on_unparsable(self, item: Message | RemoteProtocolError, hold: Hold, error: Exception) -> None:
        name = f"message {self._received} of this link"
        if isinstance(item, Message):
            name += f" (message_id {item.id!r})"
        if self._reject_unparsable:
            hold.fail(DeliveryFailed("rejected", Condition.DECODE_ERROR.value, f"not a row: {error}"))
            self._request(1)
            return
        self._set_aside.append(hold)
        self._unparsable = UnparsableMessage(
            f"{name} cannot be made a row: {error}. It was not settled. Set option onUnparsable=reject to have such "
            "messages rejected, or take it out of the queue"
        )
        self._news.set()

    # the runner calls these

    async def subscribed(self) -> None:
        """Wait until the peer has answered the attach.

        Errors: `SourceFailed` if it refused, was lost, or did not answer in time.
        """
        with trio.move_on_after(ANSWER_WAIT_S):
            while self._subscription is None and self._lost is None:
                await self._next_news(0)
        self._raise_if_lost()
        if self._subscription is None:
            msg = f"the peer did not answer the attach within {ANSWER_WAIT_S:g} s"
            raise SourceFailed(msg)

    async def collect(self, committed: int, most: int, delay_s: float) -> list[Row]:
        """Return the rows of the next batch.

        Args:
            committed: How many assigned messages Spark has committed since; they are settled and replaced.
            most: The most rows to return.
            delay_s: Seconds to wait for more after the first message has come.

        Errors: `SourceFailed` if the link is gone; `UnparsableMessage` if the next message is one.
        """
        self._settle(committed)
        with trio.move_on_after(IDLE_WAIT_S):
            await self._until(1)
            if self._completed and not self._waiting:
                await trio.sleep(IDLE_WAIT_S)  # Spark asks again at once
        if self._waiting:
            with trio.move_on_at(self._first_came_at + delay_s):
                await self._until(most)
        return self._take(most)

    async def collect_queued(self, committed: int, most: int) -> list[Row]:
        """Return the rows of the next batch from the messages queued now; none once a drain has found the queue empty.

        Args:
            committed: As for `collect`.
            most: As for `collect`.

        Errors: As for `collect`; and `SourceFailed` if the peer does not answer the drain.
        """
        self._settle(committed)
        while not (self._waiting or self._empty or self._over):
            await self._drain()
        return self._take(most)

    def give_back(self) -> None:
        """Release every message that is not settled, and end the subscription."""
        for hold in (*self._holds, *self._set_aside):
            hold.release()
        self._holds.clear()
        self._set_aside.clear()
        self._waiting.clear()
        if self._subscription is not None:
            self._subscription.cancel()

    async def _drain(self) -> None:
        """Receive the queued messages, up to the demand; note it when the queue was found empty.

        The queue is empty if a drain brings fewer messages than requested, and all demand was credit when the drain
        began. That is not certain the first time, because a link may grant credit late. It is certain the second time,
        because a drain leaves no credit.
        """
        for _ in range(2):
            asked, before = self._demand, self._received
            await self._drain_once()
            came = self._received - before
            if came == 0:
                break
            if came >= asked or self._over:
                return
        self._empty = True

    async def _drain_once(self) -> None:
        subscription: Drains = self._subscription  # type: ignore[assignment]
        self._drained = False

        def on_drained() -> None:
            self._drained = True
            self._news.set()

        try:
            subscription.drain(on_drained)
        except ConfigError as error:
            msg = f"trigger availableNow reads queued messages by a drain; use another trigger here: {error}"
            raise SourceFailed(msg) from None
        while not (self._drained or self._over):
            before = self._received
            with trio.move_on_after(ANSWER_WAIT_S):
                await self._next_news(self._limit)
                continue
            if self._received == before:
                msg = f"the peer did not answer a drain within {ANSWER_WAIT_S:g} s, which trigger availableNow needs"
                raise SourceFailed(msg)

    @property
    def _over(self) -> bool:
        return self._lost is not None or self._unparsable is not None or self._completed

    async def _until(self, rows: int) -> None:
        while len(self._waiting) < rows and not self._over:
            await self._next_news(rows)

    async def _next_news(self, rows: int) -> None:
        self._wanted = rows
        self._news = trio.Event()
        await self._news.wait()

    def _settle(self, committed: int) -> None:
        self._raise_if_lost()
        for _ in range(committed):
            self._holds.popleft().done()
        self._assigned -= committed
        if not self._over:
            self._request(self._limit - self._demand - len(self._waiting) - self._assigned)

    def _request(self, n: int) -> None:
        assert self._subscription is not None
        if n > 0:
            self._demand += n
            self._subscription.request(n)

    def _take(self, most: int) -> list[Row]:
        self._raise_if_lost()
        rows = self._waiting[:most]
        if not rows and self._unparsable is not None:
            raise self._unparsable
        del self._waiting[:most]
        self._assigned += len(rows)
        return rows

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost
