"""The receiving side of the source's link: the messages of the next batch.

Theory of operation. Every message that was requested and is not yet settled is in one of three places:

    demand      requested, not yet here: the sender may still send it
    waiting     here, in no batch yet
    assigned    in a batch that Spark has not committed, as far as is known

    demand + waiting + assigned <= limit, always

A message is settled when its batch has been committed, and only then a new one is requested in its place. Therefore,
with a limit of N, the sender sees at most N messages unsettled, and the other messages stay at the sender.

A message that cannot become a row ends the stream (`onUnparsable=fail`): the messages before it go out first, and this
message and all later ones stay unsettled. With `reject` it is rejected and another takes its place.

The connection may be lost and come back. The peer then has every unsettled message back, and sends it again:

- A waiting message is forgotten until it comes again.
- An assigned message is in a batch already. When a message with its id comes again, it gets the place of the lost one:
  it is settled with that batch, or at once if the batch has been committed. A message without an id is not recognised.

All of this lives in the trio thread of the connection, where signals come as plain calls (`rstreams.abc`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import trio

from rstreams.abc import Hold, Subscription
from rstreams.errors import Condition, ConfigError, DeliveryFailed, RemoteProtocolError
from rstreams.message import Message, MessageId, decode_message
from rstreams_spark._bodies import as_text
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


class TooLarge(Exception):
    """A message that is larger than option maxMessageSize allows; nothing of it is kept."""


Received = Message | RemoteProtocolError | TooLarge
"""A message, or the reason why there is none."""


def decoder(most_bytes: int) -> Callable[[bytes], Received]:
    """Return what decodes a message; a message that cannot be decoded must not end the link."""

    def decode(encoded: bytes) -> Received:
        if len(encoded) > most_bytes:
            return TooLarge(f"it has {len(encoded)} bytes, more than option maxMessageSize={most_bytes} allows")
        try:
            return decode_message(encoded)
        except RemoteProtocolError as error:
            return error

    return decode


class RowIntake:
    """The subscriber of the source's link; see the module's text.

    Context: The trio thread of the connection, for every method.
    """

    def __init__(self, limit: int, *, reject_unparsable: bool) -> None:
        """Make an intake that requests nothing yet.

        Args:
            limit: The most messages granted, waiting and assigned together.
            reject_unparsable: Whether to reject a message that cannot become a row, instead of ending the stream.
        """
        self._limit = limit
        self._reject_unparsable = reject_unparsable
        self._subscription: Subscription | None = None
        self._demand = 0
        self._waiting: list[Message] = []
        self._holds: deque[Hold] = deque()  # of the assigned messages, then of the waiting ones
        self._ids: deque[MessageId | None] = deque()  # of the latest committed, then of the assigned
        self._taken = 0
        self._committed = 0
        self._lost_ids: dict[MessageId, int] = {}  # message ids that may come again, and their places among all taken
        self._forget_at = 0  # how many messages have been received when these are forgotten
        self._forgets = True
        self._set_aside: list[Hold] = []  # of the message that ended the stream, and of all behind it
        self._first_came_at = 0.0
        self._batch_until = 0.0  # when the batch in hand ends, even if it is not full
        self._received = 0
        self._left: int | None = None  # how many of the counted messages have not been taken
        self._unparsable: UnparsableMessage | None = None
        self._lost: SourceFailed | None = None
        self._away = False
        self._completed = False
        self._draining = False
        self._asked = self._before = 0  # the demand, and what had been received, when the drain began
        self._short = False  # whether the last drain brought fewer than asked for
        self._empty = False
        self._wanted = 1
        self._news = trio.Event()

    # the link calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Take the link on."""
        self._subscription = subscription
        self._news.set()

    def on_next(self, item: Received) -> None:
        """Take a message, or the error of one; the message stays unsettled."""
        assert self._subscription is not None
        self._received += 1
        self._demand -= 1
        hold = self._subscription.hold()
        if self._unparsable is not None:
            self._set_aside.append(hold)
            return
        if not isinstance(item, Message):
            self._on_unparsable(item, hold)
            return
        if self._lost_ids and self._takes_place_of_lost(item.id, hold):
            return
        if not self._waiting:
            self._first_came_at = trio.current_time()
        self._waiting.append(item)
        self._holds.append(hold)
        if len(self._waiting) >= self._wanted:
            self._news.set()

    def on_error(self, error: BaseException) -> None:
        """Note that the link is gone, and with it everything that was not settled; the first reason counts."""
        if self._lost is None:
            self._lost = SourceFailed(
                f"{type(error).__name__}: {error}; messages that Spark has not committed are delivered again when the "
                "query is started again"
            )
        self._news.set()

    def on_complete(self) -> None:
        """Note that no further message will come."""
        self._completed = True
        self._news.set()

    def _on_unparsable(self, error: RemoteProtocolError | TooLarge, hold: Hold) -> None:
        if self._reject_unparsable:
            large = isinstance(error, TooLarge)
            condition = Condition.LINK_MESSAGE_SIZE_EXCEEDED if large else Condition.DECODE_ERROR
            hold.fail(DeliveryFailed("rejected", condition.value, f"not a row: {error}"))
            if self._left is not None:
                self._left -= 1
            self._request_more()
            self._news.set()
            return
        self._set_aside.append(hold)
        self._unparsable = UnparsableMessage(
            f"message {self._received} of this link cannot be made a row: {error}. It was not settled. Set option "
            "onUnparsable=reject to have such messages rejected, or take it out of the queue"
        )
        self._news.set()

    def _takes_place_of_lost(self, message_id: MessageId | None, hold: Hold) -> bool:
        """Return whether the message is in a batch already; its hold then takes the place of the lost one."""
        lost = self._lost_ids
        if self._forgets and self._received > self._forget_at:
            lost.clear()  # lost messages come first; a later one with such an id is another message
        if message_id is None:
            return False
        place = lost.pop(message_id, None)
        if place is None and not isinstance(message_id, str):
            place = lost.pop(as_text(message_id) or "", None)
        if place is None:
            return False
        if place < self._committed:
            hold.done()
        else:
            self._holds[place - self._committed].done()  # the lost one: nobody hears it
            self._holds[place - self._committed] = hold
        self._request_more()
        return True

    # the connection calls these

    def on_away(self) -> None:
        """Note that the connection was lost, and may come back; the peer has everything unsettled back."""
        self._away = True
        for _ in self._waiting:
            self._holds.pop().release()
        for hold in self._set_aside:
            hold.release()
        self._waiting.clear()
        self._set_aside.clear()
        self._unparsable = None
        first = self._taken - len(self._ids)
        kept = 0 if self._forgets else first
        self._lost_ids = {message_id: place for message_id, place in self._lost_ids.items() if place < kept} | {
            message_id: place for place, message_id in enumerate(self._ids, first) if message_id is not None
        }
        self._forget_at = self._received + 2 * self._limit
        if self._subscription is not None:
            self._request_more()

    def on_back(self) -> None:
        """Note that the connection has come back."""
        self._away = False
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

    def know(self, ids: Iterable[str]) -> None:
        """Accept messages with these ids, and do not hand them out: they are in batches of an earlier run.

        From now on each id counts as that of one message, however late it comes again: a peer that has not noticed the
        end of an old connection keeps its messages until then.
        """
        self._lost_ids = dict.fromkeys(ids, -1)
        self._forgets = False

    def take_only(self, count: int) -> None:
        """From now on hand out `count` messages, and then none: so many are there, by the peer's own count."""
        self._left = count

    def settle(self, committed: int) -> None:
        """Settle the first `committed` of all messages that were taken, and request as many others.

        The same number, or a smaller one, changes nothing.
        """
        if committed <= self._committed:
            return
        for _ in range(committed - self._committed):
            self._holds.popleft().done()
        for _ in range(len(self._ids) - (self._taken - committed) - self._limit):
            self._ids.popleft()
        self._committed = committed
        if self._lost is None:
            self._request_more()

    async def collect(self, committed: int, most: int, delay_s: float, *, goes_on: bool = False) -> list[Message]:
        """Return the messages of the next batch as they come, or the next part of one.

        Args:
            committed: How many of all messages taken so far Spark has committed: they are settled, and replaced.
            most: The most messages to return. Fewer are the end of the batch.
            delay_s: Seconds to wait for more after the first message has come.
            goes_on: Whether this is not the first part of the batch.

        Errors: `SourceFailed` if the link is gone; `UnparsableMessage` if the next message is one, at the first part.
        """
        self._begin(committed)
        if not goes_on:
            with trio.move_on_after(IDLE_WAIT_S):
                await self._until(1)
                if self._completed and not self._waiting:
                    await trio.sleep(IDLE_WAIT_S)  # Spark asks again at once
            if not self._waiting:
                return self._take(most)
            self._batch_until = self._first_came_at + delay_s
        with trio.move_on_at(self._batch_until):
            await self._until(most)
        return self._take(most, goes_on=goes_on)

    async def collect_queued(
        self, committed: int, most: int, delay_s: float, *, goes_on: bool = False
    ) -> list[Message]:
        """Return the messages of the next batch of those that are queued, or the next part of one.

        There are none after the messages of `take_only`, or when a drain has found the queue empty.

        Args:
            committed: As for `collect`.
            most: As for `collect`.
            delay_s: Seconds to wait for more when the peer sends no more and does not answer the drain either. It may
                have a limit of its own for what is unsettled, as a node has.
            goes_on: As for `collect`.

        Errors: As for `collect`; and `SourceFailed` if the peer does not answer the drain.
        """
        self._begin(committed)
        while not (self._empty or self._over or self._left == 0 or len(self._waiting) >= most):
            await self._drain(max(delay_s, IDLE_WAIT_S), most)
            if self._waiting:
                break
        return self._take(most, goes_on=goes_on)

    def give_back(self) -> None:
        """Release every message that is not settled, and end the subscription."""
        for hold in (*self._holds, *self._set_aside):
            hold.release()
        self._holds.clear()
        self._set_aside.clear()
        self._waiting.clear()
        if self._subscription is not None:
            self._subscription.cancel()

    async def _drain(self, delay_s: float, most: int) -> None:
        """Receive the queued messages, up to the demand; note it when the queue was found empty.

        The queue is empty if a drain brings fewer messages than requested, and all demand was credit when the drain
        began. That is not certain the first time, because a link may grant credit late. It is certain the second time,
        because a drain leaves no credit.

        A drain that is not answered yet goes on with the next call.
        """
        while not self._over:
            if not self._draining:
                self._asked, self._before = self._demand, self._received
                self._begin_drain()
            await self._answered(delay_s, most)
            if self._draining:
                return
            came = self._received - self._before
            if came >= self._asked > 0:
                self._short = False
                return
            if came == 0 or self._short:
                self._empty = True
                return
            self._short = True

    def _begin_drain(self) -> None:
        subscription: Drains = self._subscription  # type: ignore[assignment]

        def on_drained() -> None:
            self._draining = self._away = False
            self._news.set()

        self._draining = True
        try:
            subscription.drain(on_drained)
        except ConfigError as error:
            msg = f"trigger availableNow reads queued messages by a drain; use another trigger here: {error}"
            raise SourceFailed(msg) from None

    async def _answered(self, delay_s: float, most: int) -> None:
        """Wait for the answer of a drain, until `most` messages wait, or until no more come for `delay_s`."""
        while self._draining and not self._over and len(self._waiting) < most:
            before, rows = self._received, len(self._waiting)
            with trio.move_on_after(delay_s if rows else ANSWER_WAIT_S):
                await self._next_news(most if rows else 1)
                continue
            if self._received > before:
                continue
            if rows:
                return
            if not self._away:
                msg = f"the peer did not answer a drain within {ANSWER_WAIT_S:g} s, which trigger availableNow needs"
                raise SourceFailed(msg)

    @property
    def _assigned(self) -> int:
        return self._taken - self._committed

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

    def _begin(self, committed: int) -> None:
        self._raise_if_lost()
        self.settle(committed)
        self._request_more()

    def _request_more(self) -> None:
        """Request what the limit allows, and no more than is left of the counted messages."""
        assert self._subscription is not None
        if self._over:
            return
        here = self._demand + len(self._waiting)
        n = self._limit - here - self._assigned
        if self._left is not None:
            n = min(n, self._left - here)
        if n > 0:
            self._demand += n
            self._subscription.request(n)

    def _take(self, most: int, *, goes_on: bool = False) -> list[Message]:
        self._raise_if_lost()
        if len(self._waiting) <= most:
            messages, self._waiting = self._waiting, []
        else:
            messages = self._waiting[:most]
            del self._waiting[:most]
        if not messages and self._unparsable is not None and not goes_on:
            raise self._unparsable
        self._taken += len(messages)
        self._ids.extend([message.id for message in messages])
        if self._left is not None:
            self._left -= len(messages)
        return messages

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost
