"""The node's end of a link that sends to a durable queue: a message is accepted when it is safe in the store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.subscription import ENDED
from rstreams.abc import Subscription
from rstreams.errors import Condition, DeliveryFailed, StoreError
from rstreams.net.links.effectively_once import Stamp, read_stamp
from rstreams.node.producer import Producer, Receives
from rstreams.node.seen_messages import Seen, behind_a_gap, end_stolen, open_gaps
from rstreams.store import Done, StoreFull


class KeepsDurably(Receives, Protocol):
    """The durable queue behind a `DurableProducer`."""

    def _keep(self, producer: DurableProducer, run: Sequence[bytes], stamps: Sequence[Stamp], repeated: int) -> None:
        """Store messages; `repeated` further ones have been stored before."""
        ...

    def _refuse_in_turn(self, producer: DurableProducer, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages when the outcomes of all earlier ones of their producer are told."""
        ...


class ClaimingProducer(Producer, ABC):
    """The end of one producer link, with a claim on each message that is not safe yet.

    Args:
        address: The address.
        window: As for `Producer`.
    """

    __slots__ = ("__weakref__", "_claims", "_producer_id")

    def __init__(self, address: Receives, window: int) -> None:
        super().__init__(address, window)
        self._claims: ClaimsInOrder | None = None  # on the messages that are not safe yet
        self._producer_id = ""

    def on_subscribe(self, subscription: Subscription) -> None:
        """Join the address; a second subscription is cancelled."""
        if self._subscription is ENDED and not self.ended:
            self._claims = gather(subscription, loose=False)
        super().on_subscribe(subscription)

    def on_next(self, item: bytes) -> None:
        """Store a message."""
        if self.ended or not self.outstanding:
            super().on_next(item)  # which refuses it
            return
        if self._claims is not None:
            self._claims.keep()
        self._take((item,))

    def on_run(self, items: Iterator[bytes]) -> None:
        """Store many messages; see `TakesRuns`."""
        run: list[bytes] = []
        claims = self._claims
        try:
            if claims is None or claims.whole_runs:
                run.extend(islice(items, self.outstanding))
            else:
                for item in islice(items, self.outstanding):
                    run.append(item)
                    claims.keep()
        finally:  # if the next one cannot be had, those before it are taken nevertheless
            if run:
                self._take(run)

    @abstractmethod
    def _take(self, run: Sequence[bytes]) -> None:
        """Have the address store messages, whose claims are kept."""

    # the address calls these, in the order in which it got the messages

    def accept(self, messages: int) -> None:
        """Accept messages: they are safe."""
        if self._claims is not None:
            self._claims.done(messages)

    def refuse(self, messages: int, error: DeliveryFailed) -> None:
        """Refuse messages: they are not in the store. A publisher that cannot be told is cancelled."""
        if self._claims is not None:
            for _ in range(messages):
                self._claims.take().fail(error)
        elif not self.ended:
            self._end()
            self._subscription.cancel()

    def give_way(self, producer: str) -> None:
        """End the link: another one sends as the same producer now."""
        if not self.ended and end_stolen(self._subscription, producer) is not None:
            self.on_complete()


class DurableProducer(ClaimingProducer):
    """The end of one producer link of a durable queue, which tells it which messages are safe, in their order.

    Args:
        queue: The queue.
        window: As for `Producer`.
        seen: Knows the messages that numbered producers have sent; None if this one does not number them. A message
            that comes again is accepted when the one that came first is safe.
    """

    __slots__ = ("_queue", "_seen")

    def __init__(self, queue: KeepsDurably, window: int, seen: Seen | None) -> None:
        super().__init__(queue, window)
        self._queue = queue
        self._seen = seen

    @property
    def numbered(self) -> bool:
        """Whether its messages are numbered."""
        return self._seen is not None

    def _take(self, run: Sequence[bytes]) -> None:
        if self._seen is None:
            self._queue._keep(self, run, (), 0)  # noqa: SLF001 - the producer is a part of its queue
            return
        fresh, stamps, end = self._new_ones(self._seen, run)
        repeated, behind = end - len(fresh), run[end:]
        if end:
            self._queue._keep(self, fresh, stamps, repeated)  # noqa: SLF001
        if behind:
            self._turn_away(self._seen, behind)
        if repeated + len(behind) and not self.ended:
            self._subscription.request(repeated + len(behind))

    def _new_ones(self, seen: Seen, run: Sequence[bytes]) -> tuple[list[bytes], list[Stamp], int]:
        """Return the messages that have not been stored, their stamps, and where the first one behind a gap is."""
        fresh: list[bytes] = []
        stamps: list[Stamp] = []
        known: dict[str, int] = {}
        gaps = seen.gaps
        for at, item in enumerate(run):
            stamp = read_stamp(item)
            if stamp is not None:
                producer, sequence = stamp
                if producer != self._producer_id:
                    before, self._producer_id = self._producer_id, producer
                    seen.sends_as(producer, self, before)
                if gaps and gaps.is_behind(stamp):
                    return fresh, stamps, at
                if seen.has(stamp) or sequence <= known.get(producer, -1):
                    seen.duplicates += 1
                    continue
                if gaps:
                    gaps.close(stamp)
                known[producer] = sequence
                stamps.append(stamp)
            fresh.append(item)
        return fresh, stamps, len(run)

    def _turn_away(self, seen: Seen, behind: Sequence[bytes]) -> None:
        """Refuse messages behind one that was refused, also those of other producers: the outcomes are in order."""
        stamps = open_gaps(seen.gaps, behind)
        self._queue._refuse_in_turn(self, len(behind), behind_a_gap(stamps[0]))  # noqa: SLF001


class RunOutcome:
    """The outcome of one run of a producer, whose messages may go to several partitions.

    Args:
        producer: The producer.
        messages: How many messages the run has.
        log: The name of the log.
        refusal: Why all are refused; None: they are accepted if all parts are safe.
    """

    __slots__ = ("_error", "_log", "_messages", "_parts", "_producer", "_refusal")

    def __init__(
        self, producer: ClaimingProducer, messages: int, log: str, refusal: DeliveryFailed | None = None
    ) -> None:
        self._log = log
        self._producer = producer
        self._messages = messages
        self._parts = 0
        self._error: StoreError | None = None
        self._refusal = refusal

    def part(self) -> Done:
        """Return the function that hears of one part; the last one tells the producer."""
        self._parts += 1
        return self._done

    def _done(self, error: StoreError | None) -> None:
        self._error = self._error or error
        self._parts -= 1
        if self._parts:
            return
        refusal = self._refusal or (None if self._error is None else not_stored(self._error, self._log))
        if refusal is None:
            self._producer.accept(self._messages)
        else:
            self._producer.refuse(self._messages, refusal)


def not_stored(error: StoreError, address: str) -> DeliveryFailed:
    """Return the outcome of messages to an address that are not in the store."""
    full = isinstance(error, StoreFull)
    condition = Condition.RESOURCE_LIMIT_EXCEEDED if full else Condition.INTERNAL_ERROR
    text = f"the store of {address!r:.80} " + ("is full" if full else "failed")
    return DeliveryFailed("rejected", condition.value, text)
