"""The receiving side of the source's link: the messages of the next batch.

Theory of operation. Every message that was requested and is not yet settled is in one of three places:

    demand      requested, not yet here: the sender may still send it
    waiting     here, in no batch that Spark knows
    assigned    in a batch that Spark has not committed, as far as is known

    demand + waiting + assigned <= limit, always

A message is settled when its batch has been committed, and only then a new one is requested in its place. Therefore,
with a limit of N, the sender sees at most N messages unsettled, and the other messages stay at the sender.

A message becomes a row of a record batch when it comes (see `_record_batches`). Nothing else of it is kept but a claim,
which settles it.

A message that cannot become a row ends the stream (`onUnparsable=fail`): the messages before it go out first, and this
message and all later ones stay unsettled. With `reject` it is rejected and another takes its place.

The connection may be lost and come back. The peer then has every unsettled message back, and sends it again:

- Waiting messages are forgotten until they come again. A batch of which parts were taken begins anew (`BatchLost`).
- An assigned message is in a batch already. When a message with its id comes again, it gets the place of the lost one:
  it is settled with that batch, or at once if the batch has been committed. A message without an id is not recognised.

All of this lives in the trio thread of the connection, where signals come as plain calls (`rstreams.abc`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import trio

from rstreams.abc import Hold, Subscription
from rstreams.errors import Condition, ConfigError, DeliveryFailed, RemoteProtocolError
from rstreams.message import decode_message
from rstreams_spark._bodies import as_text
from rstreams_spark._claims import Claims, claims_of
from rstreams_spark._record_batches import RecordBatches, Rows
from rstreams_spark.errors import SourceFailed, UnparsableMessage

IDLE_WAIT_S: Final = 0.1
"""How long to wait for a first message before Spark is told that there is none."""

ANSWER_WAIT_S: Final = 30.0
"""How long the peer may take to answer an attach or a drain."""

MAX_ROWS: Final = 10_000
"""The most rows of a record batch."""

MAX_BYTES: Final = 64 * 1024 * 1024
"""The bytes of messages at which a record batch has enough."""


class Drains(Protocol):
    """The methods of a link's subscription beyond `Subscription`."""

    def drain(self, on_drained: Callable[[], None]) -> None:
        """Have the peer send the messages it has now; then take back the rest of the credit and call `on_drained`."""
        ...


class TooLarge(Exception):
    """A message that is larger than option maxMessageSize allows."""


class Part(NamedTuple):
    """A part of a batch.

    Attributes:
        record_batches: Its rows.
        ends: Whether it is the last part.
    """

    record_batches: list[pa.RecordBatch]
    ends: bool


class BatchLost(Exception):
    """The connection was lost while a batch came: its messages come again, and it begins anew."""


@dataclass
class _Assigned:
    """A batch that Spark knows.

    Attributes:
        end: How many messages had been taken when it was complete.
        claims: How many of the claims in order are on its messages.
        holds: The claims on messages that came again after a loss.
    """

    end: int
    claims: int
    holds: list[Hold] = field(default_factory=list)


class RowIntake:
    """The subscriber of the source's link, whose items are encoded messages; see the module's text.

    Context: The trio thread of the connection, for every method.
    """

    def __init__(
        self,
        limit: int,
        rows: RecordBatches,
        *,
        largest: int,
        reject_unparsable: bool,
        most_rows: int = MAX_ROWS,
    ) -> None:
        """Make an intake that requests nothing yet.

        Args:
            limit: The most messages granted, waiting and assigned together.
            rows: Makes rows of messages.
            largest: The most bytes of a message.
            reject_unparsable: Whether to reject a message that cannot become a row, instead of ending the stream.
            most_rows: The most rows of a record batch.
        """
        self._limit = limit
        self._pack = 1  # the most messages in a delivery
        self._rows = rows
        self._largest = largest
        self._reject_unparsable = reject_unparsable
        self._most_rows = most_rows
        self._subscription: Subscription | None = None
        self._claims: Claims | None = None
        self._demand = 0
        self._chunks: deque[Rows] = deque()  # of waiting messages; the last ones are in `_rows`
        self._waiting = 0
        self._taken = 0  # messages of batches, the present one also
        self._making = 0  # messages of the present batch
        self._batches: deque[_Assigned] = deque()
        self._ids: deque[tuple[int, pa.Array]] = (
            deque()
        )  # of taken messages, also of the latest committed; their places
        self._committed = 0
        self._lost_ids: dict[str, int] = {}  # message ids that may come again, and their places among all taken
        self._forget_at = 0  # how many messages have been received when these are forgotten
        self._restarts = False  # whether the present batch was lost
        self._first_came_at = 0.0
        self._batch_until = 0.0  # when the batch in hand ends, even if it is not full
        self._asked = False  # whether Spark asks for the batch that `collect_ahead` makes
        self._received = 0
        self._left: int | None = None  # how many of the counted messages have not been taken
        self._unparsable: UnparsableMessage | None = None
        self._lost: SourceFailed | None = None
        self._away = False
        self._completed = False
        self._draining = False
        self._drain_demand = self._before = 0  # the demand, and what had been received, when the drain began
        self._short = False  # whether the last drain brought fewer than asked for
        self._empty = False
        self._wanted = 1
        self._news = trio.Event()

    # the link calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        """Take the link on."""
        self._subscription = subscription
        self._claims = claims_of(subscription)
        self._news.set()

    def on_next(self, item: bytes) -> None:
        """Take a message; it stays unsettled."""
        if not self._take_in(item):
            assert self._claims is not None
            self._claims.keep()
        self._tell()

    def on_run(self, items: Iterator[bytes]) -> None:
        """Take many messages."""
        assert self._claims is not None
        if not self._claims.whole_runs:
            for item in items:
                self.on_next(item)
            return
        try:
            while True:
                if self._lost_ids or self._unparsable is not None:
                    for item in items:
                        self._take_in(item)
                    return
                rare = self._add(items)
                if rare is not None:
                    self._received += 1
                    self._demand -= 1
                    self._add_rare(rare)
                elif not self._cut_full():
                    return
        finally:
            self._tell()

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

    def _take_in(self, message: bytes) -> bool:
        """Take one message; return whether it has been settled, or another hold is on it."""
        if self._unparsable is None and not self._lost_ids:
            rare = self._add(iter((message,)))
            if rare is None:
                self._cut_full()
                return False
        self._received += 1
        self._demand -= 1
        if self._unparsable is not None:
            return False  # its claim is behind all others
        if self._lost_ids and self._takes_place_of_lost(message):
            return True
        return self._add_rare(message)

    def _add(self, messages: Iterator[bytes]) -> bytes | None:
        """Add messages until one is rare, or a record batch is full."""
        rows = self._rows
        before = rows.rows
        try:
            return rows.add(messages, self._most_rows, MAX_BYTES, min(self._largest, MAX_BYTES))
        finally:
            added = rows.rows - before
            self._received += added
            self._demand -= added
            self._count_waiting(added)

    def _add_rare(self, message: bytes) -> bool:
        """Add a message that `_add` has not added; return whether it has been settled."""
        assert self._subscription is not None
        try:
            self._check_size(message)
            if len(message) > MAX_BYTES:
                self._cut()  # its record batch has nothing else
            self._rows.add_rare(message)
        except (RemoteProtocolError, TooLarge) as error:
            return self._on_unparsable(error)
        self._count_waiting(1)
        self._cut_full()
        return False

    def _check_size(self, message: bytes) -> None:
        if len(message) > self._largest:
            msg = f"it has {len(message)} bytes, more than option maxMessageSize={self._largest} allows"
            raise TooLarge(msg)

    def _count_waiting(self, added: int) -> None:
        if added and not self._waiting:
            self._first_came_at = trio.current_time()
        self._waiting += added

    def _tell(self) -> None:
        if self._chunks or self._waiting >= self._wanted or self._is_full:
            self._news.set()

    def _cut_full(self) -> bool:
        """End a record batch that is full; return whether it was."""
        full = self._rows.rows >= self._most_rows or self._rows.size >= MAX_BYTES
        if full:
            self._cut()
        return full

    def _cut(self) -> None:
        if self._rows.rows:
            self._chunks.append(self._rows.take())

    def _on_unparsable(self, error: RemoteProtocolError | TooLarge) -> bool:
        if self._reject_unparsable:
            assert self._subscription is not None
            large = isinstance(error, TooLarge)
            condition = Condition.LINK_MESSAGE_SIZE_EXCEEDED if large else Condition.DECODE_ERROR
            failure = DeliveryFailed("rejected", condition.value, f"not a row: {error}")
            self._subscription.hold().fail(failure)
            if self._left is not None:
                self._left -= 1
            self._request_more()
            self._news.set()
            return True
        self._unparsable = UnparsableMessage(
            f"message {self._received} of this link cannot be made a row: {error}. It was not settled. Set option "
            "onUnparsable=reject to have such messages rejected, or take it out of the queue"
        )
        self._news.set()
        return False

    def _takes_place_of_lost(self, message: bytes) -> bool:
        """Return whether the message is in a batch already; a hold on it then takes the place of the lost one."""
        lost = self._lost_ids
        if self._received > self._forget_at:
            lost.clear()  # lost messages come first; a later one with such an id is another message
            return False
        try:
            message_id = as_text(decode_message(message).id)
        except RemoteProtocolError:
            return False
        place = None if message_id is None else lost.pop(message_id, None)
        if place is None:
            return False
        assert self._subscription is not None
        hold = self._subscription.hold()
        batch = next((batch for batch in self._batches if place < batch.end), None)
        if batch is None or place < self._committed:
            hold.done()
        else:
            batch.holds.append(hold)
        self._request_more()
        return True

    # the connection calls these

    def on_away(self) -> None:
        """Note that the connection was lost, and may come back; the peer has everything unsettled back."""
        self._away = True
        if self._claims is not None and self._subscription is not None:
            self._claims.release()
            self._claims = claims_of(self._subscription)
        for batch in self._batches:
            batch.claims = 0
            for hold in batch.holds:
                hold.release()
            batch.holds.clear()
        self._forget_waiting()
        self._unparsable = None
        self._empty = self._short = False
        self._lost_ids = {name: place for name, place in self._lost_ids.items() if place < 0} | {
            name: place
            for first, ids in self._ids
            for place, name in enumerate(ids.to_pylist(), first)
            if name is not None
        }
        self._forget_at = self._received + 2 * self._limit
        if self._subscription is not None:
            self._request_more()

    def _forget_waiting(self) -> None:
        self._rows.take()
        self._chunks.clear()
        self._waiting = 0
        self._restarts = self._making > 0
        if self._left is not None:
            self._left += self._making
        self._taken -= self._making
        self._making = 0
        while self._ids and self._ids[-1][0] >= self._taken:
            self._ids.pop()
        self._news.set()

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

    def expect_packs(self, pack_items: int) -> None:
        """Expect up to `pack_items` messages in a delivery, before anything is requested.

        The link grants no credit for less than a pack. A pack is unsettled at the peer until all its messages are
        settled, which may be in two batches. Therefore a batch may have two packs less than the limit allows.
        """
        self._pack = pack_items
        self._limit -= pack_items - 1

    def know(self, ids: Iterable[str]) -> None:
        """Accept messages with these ids, and do not hand them out: they are in batches of an earlier run."""
        self._lost_ids = dict.fromkeys(ids, -1)
        self._forget_at = 2 * self._limit

    def take_only(self, count: int) -> None:
        """From now on hand out `count` messages, and then none: so many are there, by the peer's own count."""
        self._left = count

    def settle(self, committed: int) -> None:
        """Settle the batches of the first `committed` of all messages that were taken, and request as many others.

        The same number, or a smaller one, changes nothing.
        """
        if committed <= self._committed:
            return
        while self._batches and self._batches[0].end <= committed:
            batch = self._batches.popleft()
            if batch.claims and self._claims is not None:
                self._claims.done(batch.claims)
            for hold in batch.holds:
                hold.done()
        self._committed = committed
        while self._ids and self._ids[0][0] + len(self._ids[0][1]) <= committed - self._limit:
            self._ids.popleft()
        if self._lost is None:
            self._request_more()

    async def collect(self, committed: int, most: int, delay_s: float, *, goes_on: bool = False) -> Part:
        """Return the rows of the next batch as they come, or the next part of one.

        Args:
            committed: How many of all messages taken so far Spark has committed: they are settled, and replaced.
            most: The most rows that the batch may still get.
            delay_s: Seconds to wait for more after the first message has come.
            goes_on: Whether this is not the first part of the batch.

        Errors: `SourceFailed` if the link is gone; `UnparsableMessage` if the next message is one, at the first part;
            `BatchLost` if the earlier parts will come again.
        """
        self._begin(committed, goes_on=goes_on)
        return await self._collect(most, delay_s, goes_on=goes_on)

    async def collect_ahead(self, most: int, delay_s: float, *, goes_on: bool = False) -> Part:
        """Return the next part of a batch that Spark has not asked for yet.

        The last part waits until Spark asks (`ask`). From then on this is as `collect`.

        Args:
            most: As for `collect`.
            delay_s: As for `collect`.
            goes_on: As for `collect`.

        Errors: As for `collect`.
        """
        await self._until_asked(most, goes_on=goes_on)
        if not self._asked:
            if not goes_on:
                self._batch_until = self._first_came_at + delay_s
            return self._take(most, chunks_only=True)
        self._begin(self._committed, goes_on=goes_on)
        return await self._collect(most, delay_s, goes_on=goes_on)

    async def _until_asked(self, most: int, *, goes_on: bool) -> None:
        """Wait until Spark asks for the batch, or there is a part of it that does not end it."""
        self._raise_if_restarted(goes_on=goes_on)
        while not self._asked and (not self._chunks or self._waiting - self._rows.rows >= most or self._over):
            await self._next_news(self._limit + 1)
            self._raise_if_restarted(goes_on=goes_on)

    def plan_ahead(self) -> None:
        """Begin a batch for `collect_ahead`."""
        self._asked = False

    def ask(self) -> None:
        """Tell `collect_ahead` that Spark asks for the batch now."""
        self._asked = True
        self._news.set()

    async def _collect(self, most: int, delay_s: float, *, goes_on: bool) -> Part:
        if not goes_on:
            with trio.move_on_after(IDLE_WAIT_S):
                await self._until(1)
                if self._completed and not self._waiting:
                    await trio.sleep(IDLE_WAIT_S)  # Spark asks again at once
            if not self._waiting:
                return self._take(most)
            self._batch_until = self._first_came_at + delay_s
        with trio.move_on_at(self._batch_until) as scope:
            await self._until(most)
            self._raise_if_restarted(goes_on=goes_on)
        in_time = not scope.cancelled_caught
        return self._take(most, goes_on=goes_on, chunks_only=in_time and self._waiting < most and not self._is_full)

    async def collect_queued(self, committed: int, most: int, delay_s: float, *, goes_on: bool = False) -> Part:
        """Return the rows of the next batch of the queued messages, or the next part of one.

        There are none after the messages of `take_only`, or when a drain has found the queue empty.

        Args:
            committed: As for `collect`.
            most: As for `collect`.
            delay_s: Seconds to wait for more when the peer sends no more and does not answer the drain either. It may
                have a limit of its own for what is unsettled, as a node has.
            goes_on: As for `collect`.

        Errors: As for `collect`; and `SourceFailed` if the peer does not answer the drain.
        """
        self._begin(committed, goes_on=goes_on)
        await self._until_queued(most, delay_s, goes_on=goes_on)
        return self._take(most, goes_on=goes_on, chunks_only=self._waiting < most and not self._is_full)

    async def collect_queued_ahead(self, most: int, delay_s: float, *, goes_on: bool = False) -> Part:
        """Return the next part of a batch of the queued messages that Spark has not asked for yet.

        The last part waits until Spark asks (`ask`).

        Args:
            most: As for `collect`.
            delay_s: As for `collect_queued`.
            goes_on: As for `collect`.

        Errors: As for `collect_queued`.
        """
        self._begin(self._committed, goes_on=goes_on)
        await self._until_queued(most, delay_s, goes_on=goes_on)
        await self._until_asked(most, goes_on=goes_on)
        return self._take(
            most, goes_on=goes_on, chunks_only=not self._asked or (self._waiting < most and not self._is_full)
        )

    async def _until_queued(self, most: int, delay_s: float, *, goes_on: bool) -> None:
        """Wait for rows, until none are left."""
        while not (self._waiting >= most or self._chunks or self._is_full or self._empty or self._over):
            if self._left is not None and self._waiting >= self._left:
                return
            before = self._received
            if self._pack > 1 and self._left is not None:  # a drain of packs brings what is ready, and that is not all
                with trio.move_on_after(IDLE_WAIT_S):
                    await self._until(min(most, self._left))
            if self._received == before:
                await self._drain(max(delay_s, IDLE_WAIT_S), most)
                if self._waiting or (self._making and self._draining):
                    return
            self._raise_if_restarted(goes_on=goes_on)

    def give_back(self) -> None:
        """Release every message that is not settled, and end the subscription."""
        if self._claims is not None:
            self._claims.release()
        for batch in self._batches:
            for hold in batch.holds:
                hold.release()
        self._batches.clear()
        self._chunks.clear()
        self._rows.take()
        self._waiting = 0
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
                self._drain_demand, self._before = self._demand, self._received
                self._begin_drain()
            await self._answered(delay_s, most)
            if self._draining:
                return
            came = self._received - self._before
            if came >= self._drain_demand > 0 or self._is_full:
                self._short = False
                return
            if came == 0 or (self._short and self._pack == 1):
                self._empty = True
                return
            self._short = True

    def _begin_drain(self) -> None:
        subscription: Drains = self._subscription  # type: ignore[assignment]

        def on_drained() -> None:
            self._draining = False
            self._news.set()

        self._draining = True
        try:
            subscription.drain(on_drained)
        except ConfigError as error:
            msg = f"trigger availableNow reads queued messages by a drain; use another trigger here: {error}"
            raise SourceFailed(msg) from None

    async def _answered(self, delay_s: float, most: int) -> None:
        """Wait for the answer of a drain, until `most` messages wait, or until no more come for `delay_s`."""
        while self._draining and not (self._over or self._waiting >= most or self._chunks or self._is_full):
            before, rows = self._received, self._waiting + self._making
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

    @property
    def _is_full(self) -> bool:
        """Whether there is no room for another delivery."""
        return self._pack > 1 and self._limit - self._waiting - self._assigned < self._pack

    async def _until(self, rows: int) -> None:
        while self._waiting < rows and not self._chunks and not self._over and not self._is_full:
            await self._next_news(rows)

    async def _next_news(self, rows: int) -> None:
        self._wanted = rows
        self._news = trio.Event()
        await self._news.wait()

    def _begin(self, committed: int, *, goes_on: bool) -> None:
        self._raise_if_lost()
        self._raise_if_restarted(goes_on=goes_on)
        self.settle(committed)
        self._request_more()

    def _raise_if_restarted(self, *, goes_on: bool) -> None:
        restarts, self._restarts = self._restarts, False
        if restarts and goes_on:
            raise BatchLost

    def _request_more(self) -> None:
        """Request what the limit allows, and no more than is left of the counted messages."""
        assert self._subscription is not None
        if self._over:
            return
        here = self._demand + self._waiting
        n = self._limit - here - self._assigned
        if self._left is not None:
            n = min(n, self._left - here)
        if n > 0:
            self._demand += n
            self._subscription.request(n)

    def _take(self, most: int, *, goes_on: bool = False, chunks_only: bool = False) -> Part:
        """Take up to `most` waiting rows; with `chunks_only` only whole record batches, if there are some."""
        self._raise_if_lost()
        ends = not (chunks_only and self._chunks)
        if ends:
            self._cut()
        taken: list[pa.RecordBatch] = []
        while self._chunks and most:
            rows = self._chunks.popleft()
            if len(rows.ids) > most:
                self._chunks.appendleft(rows.slice(most))
                rows = rows.slice(0, most)
            count = len(rows.ids)
            taken.append(rows.batch)
            self._ids.append((self._taken, rows.ids))
            most -= count
            self._waiting -= count
            self._taken += count
            self._making += count
            if self._left is not None:
                self._left -= count
        if not taken and self._unparsable is not None and not goes_on:
            raise self._unparsable
        if ends and self._making:
            self._batches.append(_Assigned(self._taken, self._making))
            self._making = 0
        return Part(taken, ends)

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost
