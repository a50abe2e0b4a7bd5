"""The rows of the next batch, as the runner asks for them; `_incoming` has their way here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import trio

from rstreams.culprits import Culprit
from rstreams.errors import ConfigError
from rstreams_spark._incoming import IncomingRows
from rstreams_spark._record_batches import count_redelivered
from rstreams_spark._report import SourceCounts
from rstreams_spark.errors import SourceFailed

IDLE_WAIT_S: Final = 0.1
"""How long to wait for a first message before Spark is told that there is none."""

CREDIT_WAIT_S: Final = 1.0
"""How long the peer may take to send a first message after it got credit.

Spark asks again with its next trigger. That may be an hour later.
"""

ANSWER_WAIT_S: Final = 30.0
"""How long the peer may take to answer an attach or a drain."""


class Drains(Protocol):
    """The methods of a link's subscription beyond `Subscription`."""

    def drain(self, on_drained: Callable[[], None]) -> None:
        """Have the peer send the messages it has now; then take back the rest of the credit and call `on_drained`."""
        ...


class BatchPart(NamedTuple):
    """A part of a batch.

    Attributes:
        record_batches: Its rows.
        ends: Whether it is the last part.
    """

    record_batches: list[pa.RecordBatch]
    ends: bool


class BatchLost(Exception):
    """The connection was lost while a batch came: its messages come again, and it begins anew."""


class RowIntake(IncomingRows):
    """The subscriber of the source's link, and what the runner asks it for.

    Context: The trio thread of the connection, for every method.
    """

    def counts(self) -> SourceCounts:
        """Return the counters of the link."""
        assigned, waiting = self._assigned, self._waiting.count
        return SourceCounts(
            taken=assigned.taken - assigned.making,
            waiting=waiting + assigned.making,
            credit=self._demand,
            unsettled=waiting + self._uncommitted,
            redelivered=self._redelivered,
            repeated=self._repeated,
        )

    def culprit(self) -> Culprit | None:
        """Tell `explain_across` that the messages which are here wait for Spark; None: there is room for others."""
        here = self._waiting.count + self._uncommitted
        if self._demand or not here:
            return None
        told = f"the Spark query of {self._address!r:.80} has {here} messages, and has not taken its next batch"
        why = "its trigger, or its last batch, takes long"
        if self._asked_at is None:
            return Culprit("slow_trigger", f"{told}: {why}", self._address)
        since = datetime.now(UTC) - timedelta(seconds=trio.current_time() - self._asked_at)
        return Culprit("slow_trigger", f"{told} since {since.astimezone():%H:%M:%S}: {why}", self._address, since)

    async def attached(self) -> None:
        """Wait until the peer has answered the attach; for ever if it does not."""
        await self._attached.wait()

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
        """Know messages by their ids from now on, as with a write-ahead log; see the module's text of `_incoming`.

        Args:
            ids: The ids of messages that are in batches of earlier runs; those of two messages are there twice.
        """
        self._known = {}
        self._know((name, -1) for name in ids)
        self._assigned.remember_ids()

    def take_only(self, count: int) -> None:
        """From now on hand out `count` messages, and then none: so many are there, by the peer's own count."""
        self._left = count

    def settle(self, committed: int) -> None:
        """Settle the batches of the first `committed` of all messages that were taken, and request as many others.

        The same number, or a smaller one, changes nothing.
        """
        if committed <= self._assigned.committed or self._claims is None:
            return
        self._assigned.settle(committed, self._claims, self._credit)
        if self._lost is None:
            self._request_more()

    async def collect(self, committed: int, most: int, delay_s: float, *, goes_on: bool = False) -> BatchPart:
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

    async def collect_ahead(self, most: int, delay_s: float, *, goes_on: bool = False) -> BatchPart:
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
            return self._take(most, whole_only=True)
        self._begin(self._assigned.committed, goes_on=goes_on)
        return await self._collect(most, delay_s, goes_on=goes_on)

    async def _until_asked(self, most: int, *, goes_on: bool) -> None:
        """Wait until Spark asks for the batch, or there is a part of it that does not end it."""
        self._raise_if_restarted(goes_on=goes_on)
        waiting = self._waiting
        while not self._asked and (not waiting.has_whole or waiting.in_whole >= most or waiting.is_heavy or self._over):
            await self._next_news(self._limit + 1)
            self._raise_if_restarted(goes_on=goes_on)

    def plan_ahead(self) -> None:
        """Begin a batch for `collect_ahead`."""
        self._asked = False

    def ask(self) -> None:
        """Tell `collect_ahead` that Spark asks for the batch now."""
        self._asked = True
        self._news.set()

    async def _collect(self, most: int, delay_s: float, *, goes_on: bool) -> BatchPart:
        if not goes_on:
            until = max(trio.current_time() + IDLE_WAIT_S, self._credit_since + CREDIT_WAIT_S)
            with trio.move_on_at(until):
                await self._until(1)
                if self._completed and not self._waiting.count:
                    await trio.sleep(IDLE_WAIT_S)  # Spark asks again at once
            if not self._waiting.count:
                return self._take(most)
            self._batch_until = self._first_came_at + delay_s
        enough = most if self._enough is None else min(most, max(0, self._enough - self._assigned.making))
        with trio.move_on_at(self._batch_until) as scope:
            await self._until(enough)
        in_time = not scope.cancelled_caught
        return self._take(most, goes_on=goes_on, whole_only=in_time and not self._has(enough))

    async def collect_queued(self, committed: int, most: int, delay_s: float, *, goes_on: bool = False) -> BatchPart:
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
        return self._take(most, goes_on=goes_on, whole_only=not self._has(most))

    async def collect_queued_ahead(self, most: int, delay_s: float, *, goes_on: bool = False) -> BatchPart:
        """Return the next part of a batch of the queued messages that Spark has not asked for yet.

        The last part waits until Spark asks (`ask`).

        Args:
            most: As for `collect`.
            delay_s: As for `collect_queued`.
            goes_on: As for `collect`.

        Errors: As for `collect_queued`.
        """
        self._begin(self._assigned.committed, goes_on=goes_on)
        await self._until_queued(most, delay_s, goes_on=goes_on)
        await self._until_asked(most, goes_on=goes_on)
        return self._take(most, goes_on=goes_on, whole_only=not self._asked or not self._has(most))

    async def _until_queued(self, most: int, delay_s: float, *, goes_on: bool) -> None:
        """Wait for rows, until none are left."""
        while not (self._has(most) or self._waiting.has_whole or self._empty or self._over):
            if self._left is not None and self._waiting.count >= self._left:
                return
            before = self._received
            if self._pack > 1 and self._left is not None:  # a drain of packs brings what is ready, and that is not all
                with trio.move_on_after(IDLE_WAIT_S):
                    await self._until(min(most, self._left))
            if self._received == before:
                await self._drain(max(delay_s, IDLE_WAIT_S), most)
                if self._waiting.count or (self._assigned.making and self._draining):
                    return
            self._raise_if_restarted(goes_on=goes_on)

    def give_back(self) -> None:
        """Release every message that is not settled, and end the subscription."""
        if self._claims is not None:
            self._claims.release()
        self._assigned.release()
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
                self._drain_demand, self._before = self._demand, self._received
                self._begin_drain()
            await self._answered(delay_s, most)
            if self._draining:
                return
            came = self._received - self._before
            if came >= self._drain_demand > 0 or self._is_full or self._waiting.is_heavy:
                self._short = False
                return
            if came == 0 or (self._short and self._pack == 1):
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
        while self._draining and not (self._over or self._has(most) or self._waiting.has_whole):
            before, rows = self._received, self._waiting.count + self._assigned.making
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

    async def _until(self, rows: int) -> None:
        while not (self._has(rows) or self._waiting.has_whole or self._over):
            await self._next_news(rows)

    async def _next_news(self, rows: int) -> None:
        self._wanted = rows
        self._news = trio.Event()
        await self._news.wait()

    def _begin(self, committed: int, *, goes_on: bool) -> None:
        self._raise_if_lost()
        self._raise_if_restarted(goes_on=goes_on)
        self._asked_at = trio.current_time()
        self.settle(committed)
        self._request_more()

    def _raise_if_restarted(self, *, goes_on: bool) -> None:
        restarts, self._restarts = self._restarts, False
        if restarts and goes_on:
            raise BatchLost

    def _take(self, most: int, *, goes_on: bool = False, whole_only: bool = False) -> BatchPart:
        """Take up to `most` waiting rows; with `whole_only` only whole record batches, if there are some."""
        self._raise_if_lost()
        self._raise_if_restarted(goes_on=goes_on)  # a loss may have come at any time of the wait
        ends = not (whole_only and self._waiting.has_whole)
        taken: list[pa.RecordBatch] = []
        for rows in self._waiting.take(most, whole_only=not ends):
            self._assigned.take(rows)
            taken.append(rows)
            self._redelivered += count_redelivered(rows)
            if self._left is not None:
                self._left -= rows.num_rows
        if not taken and self._unparsable is not None and not goes_on:
            raise self._unparsable.with_traceback(None)
        if ends:
            self._assigned.complete()
            self._waiting.end_batch()
        return BatchPart(taken, ends)

    def _raise_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost.with_traceback(None)
