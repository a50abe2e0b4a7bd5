"""The receiving side of the source's link: messages become rows when they come.

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

- Waiting messages are forgotten until they come again. A batch of which parts were taken begins anew.
- An assigned message is in a batch already, and comes again. It gets a row in another batch too: nothing tells it from
  a new message. A message id does not, because several messages may have the same one.

With a write-ahead log (`know`) the ids must be unique, and messages are known by them. Nothing else of a message is
compared. The ids that are known are those of

- the messages that earlier runs wrote down, for a day (`_wal`),
- after a loss, the messages of this run that are not committed, and as many of the latest committed ones as the link
  has credit: their outcomes may not have reached the peer.

Ids are compared as text: the number 7 is the same as the string "7". An id that several of these messages have proves
nothing, and is not known. Each known id stands for one message. The first message that comes with that id gets the
place of the known one: it gets no row, and is settled with its batch, or at once if that has been settled. After that
the id is not known any more, until the next loss: this outcome also may not have reached the peer. A message without an
id is never known.

All of this lives in the trio thread of the connection, where signals come as plain calls (`rstreams.abc`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import trio

from rstreams.abc import ClaimsInOrder, Run, Subscription, gather
from rstreams.errors import Condition, DeliveryFailed, RemoteProtocolError
from rstreams.message import decode_message
from rstreams_spark._assigned import AssignedBatches
from rstreams_spark._bodies import as_text
from rstreams_spark._record_batches import RecordBatches
from rstreams_spark._waiting_rows import MAX_ROWS, TooLarge, WaitingRows
from rstreams_spark.errors import SourceFailed, UnparsableMessage


class IncomingRows:
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
        enough: int | None = None,
        most_bytes: int | None = None,
    ) -> None:
        """Make an intake that requests nothing yet.

        Args:
            limit: The most messages granted, waiting and assigned together.
            rows: Makes rows of messages.
            largest: The most bytes of a message.
            reject_unparsable: Whether to reject a message that cannot become a row, instead of ending the stream.
            most_rows: The most rows of a record batch.
            enough: A batch with this many rows waits for no others; None: only a full batch does not wait.
            most_bytes: The most bytes of the rows of a batch, except for a single row; None: no limit.
        """
        self._address = rows.address
        self._limit = limit
        self._credit = limit  # also when `expect_packs` lowers the limit
        self._pack = 1  # the most messages in a delivery
        self._reject_unparsable = reject_unparsable
        self._subscription: Subscription | None = None
        self._claims: ClaimsInOrder | None = None
        self._demand = 0
        self._credit_since = -math.inf  # when the peer, which had no credit, was granted some
        self._waiting = WaitingRows(rows, largest=largest, most_rows=most_rows, most_bytes=most_bytes)
        self._enough = enough
        self._redelivered = 0
        self._attached = trio.Event()
        self._assigned = AssignedBatches()
        # with a write-ahead log: message ids that may come again, and their places among all taken
        self._known: dict[str, int] | None = None
        self._shared_ids: set[str] = set()  # ids that several of them have
        self._came_again: dict[str, int] = {}  # those that have come since the last loss, which are not in `_known`
        self._repeated = 0  # how many of these have come
        self.losses = 0  # of the connection or the link
        self._restarts = False  # whether the present batch was lost
        self._first_came_at = 0.0
        self._batch_until = 0.0  # when the batch in hand ends, even if it is not full
        self._asked_at: float | None = None  # when Spark asked last for a batch
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
        self._claims = gather(subscription, loose=False)
        self._attached.set()
        self._news.set()

    def on_next(self, item: bytes) -> None:
        """Take a message; it stays unsettled."""
        if not self._take_in(item):
            assert self._claims is not None
            self._claims.keep()
        self._tell()

    def on_run(self, run: Run[bytes]) -> None:
        """Take many messages."""
        assert self._claims is not None
        items, claims = run.items(keeps=True), self._claims
        try:
            while not (self._known or self._unparsable is not None):
                before = self._received
                try:
                    rare = self._add(items)
                finally:
                    claims.put(run.keep(self._received - before))
                if rare is None:
                    return
                self._received += 1
                self._demand -= 1
                if not self._add_rare(rare):
                    claims.put(run.keep(1))
            for item in items:
                if not self._take_in(item):
                    claims.put(run.keep(1))
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
        if self._unparsable is None:
            if self._known and self._takes_known_place(message, self._known):
                return True
            if self._add(iter((message,))) is None:
                return False
        self._received += 1
        self._demand -= 1
        if self._unparsable is not None:
            return False  # its claim is behind all others
        return self._add_rare(message)

    def _add(self, messages: Iterator[bytes]) -> bytes | None:
        """Add messages until one is rare."""
        before = self._waiting.count
        try:
            return self._waiting.add(messages)
        finally:
            added = self._waiting.count - before
            self._received += added
            self._demand -= added
            self._note_first(before)

    def _add_rare(self, message: bytes) -> bool:
        """Add a message that `_add` has not added; return whether it has been settled."""
        before = self._waiting.count
        try:
            self._waiting.add_rare(message)
        except (RemoteProtocolError, TooLarge) as error:
            return self._on_unparsable(error)
        self._note_first(before)
        return False

    def _note_first(self, before: int) -> None:
        if not before and self._waiting.count:
            self._first_came_at = trio.current_time()

    def _has(self, rows: int) -> bool:
        """Return whether the present batch need not wait for more to get these rows."""
        return self._waiting.count >= rows or self._is_full or self._waiting.is_heavy

    def _tell(self) -> None:
        if self._waiting.has_whole or self._has(self._wanted):
            self._news.set()

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

    def _takes_known_place(self, message: bytes, known: dict[str, int]) -> bool:
        """Return whether the message is in a batch already; a hold on it then takes the place of the lost one."""
        try:
            message_id = as_text(decode_message(message).id)
        except RemoteProtocolError:
            return False
        place = None if message_id is None else known.pop(message_id, None)
        if message_id is None or place is None:
            return False
        self._came_again[message_id] = place
        self._received += 1
        self._demand -= 1
        self._redelivered += 1
        self._repeated += 1
        assert self._subscription is not None
        self._assigned.replace(place, self._subscription.hold())
        self._request_more()
        return True

    def _know(self, messages: Iterable[tuple[str, int]]) -> None:
        """Know messages by their ids, with their places, unless several have the same id."""
        assert self._known is not None, "there is a write-ahead log"
        for name, place in messages:
            if name in self._known:
                self._shared_ids.add(name)
            self._known[name] = place
        for name in self._shared_ids & self._known.keys():
            del self._known[name]

    # the connection calls these

    def on_away(self) -> None:
        """Note that the connection or its link was lost, and may come back; the peer has everything unsettled back."""
        self._away = True
        self.losses += 1
        if self._claims is not None and self._subscription is not None:
            self._claims.release()
            self._claims = gather(self._subscription, loose=False)
        making = self._assigned.making
        may_come = self._assigned.forget_claims()
        if self._known is not None:
            kept = self._assigned.first_remembered
            self._known = {name: place for name, place in (self._known | self._came_again).items() if place < kept}
            self._came_again = {}
            self._know(may_come)
        self._restarts = making > 0
        if self._left is not None:
            self._left += making if self._known is not None else making + self._uncommitted
        self._waiting.clear()
        self._unparsable = None
        self._empty = self._short = False
        if self._subscription is not None:
            self._request_more()
        self._news.set()

    def on_back(self) -> None:
        """Note that the connection has come back."""
        self._away = False
        self._news.set()

    # the room

    @property
    def _uncommitted(self) -> int:
        return self._assigned.taken - self._assigned.committed

    @property
    def _over(self) -> bool:
        return self._lost is not None or self._unparsable is not None or self._completed

    @property
    def _is_full(self) -> bool:
        """Whether there is no room for another delivery."""
        return self._pack > 1 and self._limit - self._waiting.count - self._uncommitted < self._pack

    def _request_more(self) -> None:
        """Request what the limit allows, and no more than is left of the counted messages."""
        assert self._subscription is not None
        if self._over:
            return
        here = self._demand + self._waiting.count
        n = self._limit - here - self._uncommitted
        if self._left is not None:
            n = min(n, self._left - here)
        if n > 0:
            if not self._demand:
                self._credit_since = trio.current_time()
            self._demand += n
            self._subscription.request(n)
