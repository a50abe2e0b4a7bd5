"""The items that have come on a link: kept until they are wanted, handed over, held, and settled.

Theory of operation. An item goes through four places:

    buffer     it has come, and nobody has asked for it yet, or the subscriber is busy with another
    in hand    it is in `on_next`; whoever keeps it takes a hold now
    held       until the last hold on it is let go; then `settle` or `fail` is called
    decided    its outcome goes to the peer with the next dispositions, equal ones in one frame

Who processes items may be slow, and others have their turns: so the driver, which knows the time, is asked whether a
slice is over, behind one item, then behind two more, four more, until `_MANY` have been quick.

The ledger counts the first as buffered, and the others as unsettled. An item nobody holds is accepted as it leaves
`on_next`, without a call; one that is gathered (see `_core.gathering`) is kept as it leaves `on_next`. One that
came settled has None in the place of its delivery, and is through when it has been handed over: it has no outcome.

A link can be lost and replaced. The peer of a lost one has all back that was not settled: what is in the buffer is
dropped, and what is in hand or held gets its outcome too late. So a delivery is known by its handle and by how often
the link had been lost when it came.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter, length_hint
from typing import Any, Final, Generic, TypeVar

from rstreams._core.fast_paths import runs_of
from rstreams._core.holds import NO_HOLD, SharedHold
from rstreams.abc import Hold, Subscriber
from rstreams.errors import DeliveryFailed
from rstreams.protocol.credit import CreditLedger
from rstreams.protocol.delivery import (
    ACCEPTED,
    RELEASED,
    DeliveryHold,
    FailureStrategy,
    ForwardedHold,
    MakesRoom,
    Outcome,
    outcome_of,
)
from rstreams.protocol.frames import Disposition, Transfer
from rstreams.protocol.gathered_items import GatheredItems, LooseItems
from rstreams.protocol.item_buffer import ItemBuffer, Run
from rstreams.protocol.packing import PackedMessages, PackItems, settled_whole, unpack

T = TypeVar("T")

_MANY: Final = 256
"""The most items handed over without a look at the time, however quick the ones before were."""

_GATHERED: Final = SharedHold(())
"""Stands for the hold on an item that is gathered, and that nobody else holds."""


class IncomingItems(Generic[T]):
    """What a `LinkSubscription` has received; see the module's text.

    Context: As `LinkSubscription`.

    Attributes:
        buffer: What has not been handed over.
        emitting: Whether the subscriber is being handed items.
        stopped: Whether nothing more is handed over.
        delivered: Items handed over.
        losses: How often the link was lost.
        late: Outcomes that came after the link of their delivery was lost.
        loose: What may be settled without the word of those who hold it.
        settles: Who is told the outcomes of what is held: these items, unless somebody is to see them before.
    """

    __slots__ = (
        "_accepted",
        "_accepted_runs",
        "_current",
        "_decode",
        "_decodes_body",
        "_gathering",
        "_give_up",
        "_given_back",
        "_ledger",
        "_next_look",
        "_on_failure",
        "_on_raised",
        "_on_run",
        "_parts",
        "_payload",
        "_run",
        "_run_from",
        "_shared",
        "_skipped",
        "_slice_is_over",
        "_subscriber",
        "_wake",
        "buffer",
        "delivered",
        "emitting",
        "late",
        "loose",
        "losses",
        "settles",
        "stopped",
    )

    def __init__(
        self,
        subscriber: Subscriber[T],
        ledger: CreditLedger,
        *,
        decode: Callable[[bytes], T],
        decodes_body: bool,
        on_failure: FailureStrategy,
        give_up: Callable[[BaseException], None],
        on_raised: Callable[[BaseException], None],
        slice_is_over: Callable[[], bool],
        wake: Callable[[], None],
    ) -> None:
        """Have none.

        Args:
            subscriber: Who gets them.
            ledger: Knows the demand, and counts what is on hand.
            decode: Makes an item of an encoded message.
            decodes_body: Whether that is its body and nothing else.
            on_failure: What becomes of an item whose processing failed.
            give_up: Ends the subscription with an error.
            on_raised: Told what the subscriber raised.
            slice_is_over: Tells whether others are to have their turn.
            wake: Has the subscription work soon.
        """
        self.buffer = ItemBuffer()
        self.emitting = False
        self.stopped = False
        self.delivered = 0
        self.losses = 0
        self.late = 0
        self.loose = LooseItems()
        self.settles: MakesRoom = self
        self._subscriber = subscriber
        self._ledger = ledger
        self._decode = decode if on_failure.forward is None else self._decode_kept(decode)
        if ledger.bound is not None:
            self._decode = self._decode_counted(self._decode)
        self._decodes_body = decodes_body and self._decode is decode
        self._on_failure = on_failure
        self._give_up = give_up
        self._on_raised = on_raised
        self._slice_is_over = slice_is_over
        self._wake = wake
        self._next_look = 1  # at the time, behind how many items
        self._payload = b""  # of the item in hand, if the strategy forwards
        self._parts: list[bytes] = []  # of a delivery that is still coming; only the local driver hands it over so
        self._current: Hashable = None
        self._shared: SharedHold | None = None  # on the item in hand, if anybody holds it
        self._gathering: GatheredItems | None = None  # gathers the items, or was the last to do so
        self._on_run = runs_of(subscriber) if ledger.bound is None else None
        self._run: tuple[Sequence[Hashable], Iterator[Any]] | None = None  # in the hands of `_on_run`
        self._run_from = 0  # the first item of it that has not been let go; the only one that may be held
        self._skipped = 0  # items that could not be decoded, where it goes on
        self._accepted: list[Hashable] = []
        self._accepted_runs: list[Sequence[Hashable]] = []
        self._given_back: list[tuple[Outcome, Hashable]] = []

    # how they come

    def take_in(self, frame: Transfer) -> bool:
        """Keep what has come until `hand_over`; tell whether it was more than a part of a delivery."""
        deliveries: Sequence[Hashable] = frame.deliveries
        payloads = frame.payloads
        if frame.more or frame.aborted or self._parts:
            self._parts += payloads
            if not frame.more:
                parts, self._parts = self._parts, []
                payloads = [] if frame.aborted else [b"".join(parts)]
                deliveries = deliveries[: len(payloads)]
            if frame.more or frame.aborted:
                return False
        if frame.settled:
            deliveries = [None] * len(payloads)
        self.loose.more_comes()
        ledger = self._ledger
        bound = ledger.bound
        if bound is not None:
            bound.observe(payloads)
        runs: list[Run] = [(deliveries, payloads)]
        if ledger.pack > 1:
            runs = unpack(deliveries, payloads, ledger.pack)
        for run in runs:
            ledger.receive(len(run[1]))
            self.buffer.put(run)
            if bound is not None:
                keys = run[0] if frame.settled else [(self.losses, delivery) for delivery in run[0]]
                bound.receive(zip(keys, run[1], strict=True))
        return True

    # how they are handed over

    def hand_over(self) -> None:
        """Hand over what there is demand for."""
        ledger, buffer = self._ledger, self.buffer
        if self.emitting or not buffer or self.stopped:
            return
        hand_over = self._hand_over_each if self._on_run is None else self._hand_over_run
        wanted = all_wanted = ledger.deliver()
        self._skipped = 0
        self.emitting = True
        try:
            while wanted and not self.stopped:
                run = buffer.take(min(wanted, self._next_look))
                wanted -= len(run[1])
                hand_over(run)
                if wanted and self._slice_is_over():
                    if all_wanted - wanted < _MANY:
                        self._next_look = 1
                    self._wake()
                    break
                self._next_look = min(2 * self._next_look, _MANY)
        finally:
            ledger.take_back(wanted)
            self.emitting = False
            if self._skipped:
                self.delivered -= self._skipped
                ledger.request(self._skipped)
                self._wake()

    def _hand_over_each(self, run: Run) -> None:
        decode, on_next, accept = self._decode, self._subscriber.on_next, self._accepted.append
        handed = settled = 0
        try:
            for delivery, payload in zip(*run, strict=True):
                handed += 1
                self._current = delivery
                try:
                    item = decode(payload)
                except Exception as error:  # the caller's own decoder may raise anything
                    self._refuse_current(error)
                else:
                    try:
                        on_next(item)
                    except BaseException as error:
                        self._settle_current(error)
                        self._on_raised(error)
                        if not isinstance(error, Exception):
                            raise
                        break
                    if delivery is None:
                        settled += 1
                    elif self._shared is None:
                        accept(delivery)
                    else:
                        self._settle_current(None)
                if self.stopped:
                    break
        finally:
            self._current = None
            self._ledger.settle(settled)
            self._count_handed(run, handed)

    def _hand_over_run(self, run: Run) -> None:
        """Hand over to a subscriber that takes many items in one call."""
        assert self._on_run is not None, "asked for before"
        deliveries, size = run[0], len(run[1])
        waiting, items = self._decoded(run[1])
        self._run, self._run_from = (deliveries, waiting), 0
        try:
            while not self.stopped:
                try:
                    self._on_run(items)
                except BaseException as error:
                    last = size - length_hint(waiting) - 1
                    if last < 0:  # an interrupt, or a subscriber that is broken: it has taken none
                        self._on_raised(error)
                        if isinstance(error, Exception):
                            break
                        raise
                    self._let_go_before(last)
                    self._run_from, self._current = last + 1, deliveries[last]
                    if not isinstance(error, Exception):
                        self._settle_current(error)
                        self._on_raised(error)
                        raise
                    self._refuse_current(error)
                    continue
                break
        finally:
            handed = size - length_hint(waiting)
            self._let_go_before(handed)
            self._run = self._current = None
            self._count_handed(run, handed)

    def _decoded(self, payloads: Sequence[bytes]) -> tuple[Iterator[Any], Iterator[T]]:
        """Return an iterator that knows how many items are left, and the items, which it moves on with."""
        if self._decodes_body and isinstance(payloads, PackedMessages):
            bodies = payloads.bodies()
            if bodies is not None:
                items: Iterator[Any] = iter(bodies)
                return items, items
        waiting = iter(payloads)
        return waiting, map(self._decode, waiting)

    def _count_handed(self, run: Run, handed: int) -> None:
        """Count the first items of the run as handed over; the others go back where they were."""
        self.delivered += handed
        left = len(run[1]) - handed
        if left:
            self._ledger.take_back(left)
            self.buffer.put_back((run[0][handed:], run[1][handed:]))

    def hold(self) -> Hold:
        """Take a hold on the item in `on_next`: its outcome waits for it."""
        current = self._in_hand()
        if current is None:
            return NO_HOLD
        shared = self._shared
        if shared is None or shared is _GATHERED:
            last = DeliveryHold(self.settles, (self.losses, current), self._payload)
            before, shared = shared, SharedHold((last,))
            self._shared = shared
            if before is _GATHERED and self._gathering is not None:
                self._gathering.put_hold(shared.hold())
        return shared.hold()

    def gather(self, *, loose: bool) -> GatheredItems:
        """Return claims on the items that are to come; none can be forwarded when it fails."""
        gathering = self._gathering = GatheredItems(self, loose=loose)
        self.loose.gatherings[gathering] = None
        return gathering

    def keep(self, gathering: GatheredItems) -> None:
        """Let `gathering` have the item in `on_next`, when that returns."""
        if self._in_hand() is None:
            return
        if self._shared is None:
            self._shared, self._gathering = _GATHERED, gathering
        elif self._shared is not _GATHERED or self._gathering is not gathering:
            gathering.put_hold(self.hold())

    def _in_hand(self) -> Hashable:
        """Return the delivery of the item in `on_next`; None if there is none, or it came settled."""
        if self._run is not None:
            deliveries, waiting = self._run
            at = len(deliveries) - length_hint(waiting) - 1
            self._let_go_before(at)
            self._current = deliveries[at]
        return self._current

    def _let_go_before(self, end: int) -> None:
        """Let go of the items of the run before `end`: all are accepted or gathered but the first, if that is held."""
        if self._run is None or self._run_from >= end:
            return
        deliveries, begin = self._run[0], self._run_from
        self._run_from = end
        if self._shared is not None:
            self._current = deliveries[begin]
            self._settle_current(None)
            begin += 1
        accepted = deliveries[begin:end]
        gathering = self._gathering
        if deliveries[0] is None:
            self._ledger.settle(len(accepted))
        elif accepted and gathering is not None and gathering.whole_runs:
            gathering.put_run(self.losses, accepted)
        elif accepted:
            self._accepted_runs.append(accepted)

    def _settle_current(self, error: BaseException | None) -> None:
        """Let go of the item in hand, for good or because of `error`; no further hold on it from now on."""
        shared, self._shared = self._shared, None
        current, self._current = self._current, None
        if current is None:
            self._ledger.settle(1)
        elif shared is _GATHERED and error is None:
            assert self._gathering is not None, "it has taken the item"
            self._gathering.put(self.losses, current)
        elif shared is None or shared is _GATHERED:
            assert error is not None, "without a hold it is accepted with its run"
            self.fail((self.losses, current), self._payload, error)
        elif error is None:
            shared.done()
        else:
            shared.fail(error)

    def _refuse_current(self, error: Exception) -> None:
        """Let go of an item that could not be decoded; the subscriber, if it goes on, is owed another one."""
        self._settle_current(error)
        strategy = self._on_failure
        if strategy.ends:
            self._give_up(error)
        elif strategy.on_undecodable is not None:
            strategy.on_undecodable(error)
        if not self.stopped:
            self._skipped += 1

    def _decode_kept(self, decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
        def keep_and_decode(payload: bytes) -> T:
            self._payload = payload
            return decode(payload)

        return keep_and_decode

    def _decode_counted(self, decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
        bound = self._ledger.bound
        assert bound is not None, "only bytes that are bounded are counted"

        def count_and_decode(payload: bytes) -> T:
            if self._current is None:  # it came settled
                bound.let_go(len(payload))
            return decode(payload)

        return count_and_decode

    # how they are settled

    def settle(self, delivery: tuple[int, Hashable], outcome: Outcome) -> None:
        """Settle one delivery; for a link that is gone this says nothing to the peer, which has it back already."""
        losses, handle = delivery
        if losses != self.losses:
            self.late += 1
            self._ledger.settle(1)
            self._count_out(losses, [handle])
        elif outcome is ACCEPTED:
            self._accepted.append(handle)
        else:
            self._given_back.append((outcome, handle))
        self._wake()

    def fail(self, delivery: tuple[int, Hashable], payload: bytes, error: BaseException) -> None:
        """Settle one delivery whose processing failed, as the failure strategy says."""
        strategy = self._on_failure
        if isinstance(error, DeliveryFailed):
            self.settles.settle(delivery, outcome_of(error))
        elif strategy.forward is not None:
            strategy.forward(payload, error, ForwardedHold(self.settles, delivery, self._give_up))
        else:
            self.settles.settle(delivery, strategy.outcome(error))

    def settle_run(self, losses: int, run: Sequence[Hashable], outcome: Outcome) -> None:
        """Settle deliveries that were gathered; as `settle`."""
        if losses != self.losses:
            self.late += len(run)
            self._ledger.settle(len(run))
            self._count_out(losses, run)
        elif outcome is not ACCEPTED:
            self._given_back += [(outcome, delivery) for delivery in run]
        elif isinstance(run, PackItems) or self._ledger.pack == 1:
            self._accepted_runs.append(run)
        else:
            self._accepted += run  # of several packs, perhaps

    def fail_run(self, losses: int, run: Sequence[Hashable], error: BaseException) -> None:
        """Settle deliveries that were gathered, and whose processing failed."""
        for delivery in run:
            self.fail((losses, delivery), b"", error)

    def end_gathering(self, gathering: GatheredItems) -> None:
        """Forget a gathering, which has settled all that it had."""
        self.loose.gatherings.pop(gathering, None)
        self._wake()

    def loosen(self, hold: DeliveryHold) -> None:
        """Note that a delivery may be accepted to make room, which may be needed now."""
        self.loose.holds[hold] = None
        self._wake()

    def tighten(self, hold: DeliveryHold) -> None:
        """Note that a delivery is about to be settled."""
        self.loose.holds.pop(hold, None)

    def take_dispositions(self) -> list[Disposition]:
        """Take the outcomes that have gathered, settled from now on: one frame for a run of equal ones."""
        accepted, given_back, runs = self._accepted, self._given_back, self._accepted_runs
        if not accepted and not given_back and not runs:
            return []
        ledger = self._ledger
        ledger.settle(self._untold())
        self._accepted, self._given_back, self._accepted_runs = [], [], []
        if ledger.bound is not None:
            self._count_out(self.losses, chain(*runs, accepted, (delivery for _, delivery in given_back)))
        if ledger.pack > 1:
            accepted, given_back, runs = *settled_whole(accepted, given_back, runs), []
        frames = [Disposition(run, ACCEPTED) for run in (*runs, accepted) if run]
        for outcome, run in groupby(given_back, itemgetter(0)):
            frames.append(Disposition([delivery for _, delivery in run], outcome))
        return frames

    def release(self) -> None:
        """Give back what was not handed over."""
        released = [(RELEASED, delivery) for delivery, _ in self.buffer if delivery is not None]
        if self._ledger.bound is not None:
            self._ledger.bound.let_go(sum(len(payload) for delivery, payload in self.buffer if delivery is None))
        self._ledger.give_back(len(self.buffer))
        self._ledger.unsettled += len(released)
        self.buffer.clear()
        self._given_back += released

    def forget_link(self) -> None:
        """Drop what was not handed over, and outcomes not told: the peer has it back, but for what came settled."""
        self._parts = []
        dropped = [delivery for delivery, _ in self.buffer if delivery is not None]
        given_back = (delivery for _, delivery in self._given_back)
        self._count_out(self.losses, chain(dropped, *self._accepted_runs, self._accepted, given_back))
        self.losses += 1
        kept = [payload for delivery, payload in self.buffer if delivery is None]
        self._ledger.give_back(len(self.buffer) - len(kept))
        self.buffer.clear()
        self.buffer.put(([None] * len(kept), kept))
        untold = self._untold()
        self._accepted, self._given_back, self._accepted_runs = [], [], []
        self.late += untold
        self._ledger.settle(untold)

    def _untold(self) -> int:
        """Return how many items have an outcome that has not been taken."""
        return len(self._accepted) + len(self._given_back) + sum(map(len, self._accepted_runs))

    def _count_out(self, losses: int, deliveries: Iterable[Hashable]) -> None:
        """Count the bytes of deliveries as no longer on hand."""
        if self._ledger.bound is not None:
            self._ledger.bound.settle((losses, delivery) for delivery in deliveries)
