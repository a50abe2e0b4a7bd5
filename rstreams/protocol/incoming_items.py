"""The received items of a link: kept until they are wanted, then handed over and held.

Theory of operation. An item goes through four places:

    buffer     it has come, and was not requested yet, or the subscriber is busy with another one
    in hand    it is in `on_next`; a stage that keeps it takes a hold now
    held       until the last hold on it ends; then its outcome is known
    decided    its outcome goes to the peer with the next dispositions; see `incoming_outcomes`

A subscriber may be slow, and other links must have their turns. Therefore the driver, which knows the time, is asked
whether the slice is over: after one item, then after two more, then four more, up to `_MANY` while they are quick.

The ledger counts the items of the first place as buffered, and those of the others as unsettled. An item without a hold
is accepted when `on_next` returns, without a call. The claim on an item that is kept (see `_core.claims_in_order`) is
put there when `on_next` returns. An item that came settled has None instead of a delivery. It has no outcome, and is
done when it has been handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import length_hint
from typing import Any, Final, Generic, TypeVar

from rstreams._core.claims import NO_HOLD, Claims, Settles, no_claims
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.fast_paths import runs_of, unmade_runs_of
from rstreams._core.kept_items import UnmadeRun
from rstreams.abc import Hold, Subscriber
from rstreams.protocol.credit import CreditLedger
from rstreams.protocol.delivery import FailureStrategy
from rstreams.protocol.frames import Transfer
from rstreams.protocol.incoming_outcomes import IncomingOutcomes
from rstreams.protocol.item_buffer import ItemBuffer, Run
from rstreams.protocol.joined_message import JoinedMessage, size_of
from rstreams.protocol.life import ReceiverLife, ReceiverPhase
from rstreams.protocol.packing import PackedMessages, unpack

T = TypeVar("T")

_MANY: Final = 256
"""The most items handed over without a look at the time, however quick the last ones were."""

_KEPT: Final = no_claims(0)
"""Stands for the claim on an item that is kept, and not held otherwise."""

_SILENT: Final[ReceiverPhase] = ReceiverPhase.SILENT


class IncomingItems(Generic[T]):
    """The items that a `LinkSubscription` has received; see the text of this module.

    Context: As `LinkSubscription`.

    Attributes:
        buffer: The items that have not been handed over.
        emitting: Whether items are being handed to the subscriber.
        delivered: How many items have been handed over.
    """

    __slots__ = (
        "_current",
        "_decode",
        "_decode_one",
        "_decodes_body",
        "_forgets_link",
        "_give_up",
        "_held",
        "_kept",
        "_ledger",
        "_life",
        "_next_look",
        "_on_failure",
        "_on_handed_over",
        "_on_raised",
        "_on_run",
        "_on_unmade_run",
        "_outcomes",
        "_payload",
        "_run",
        "_run_from",
        "_settles",
        "_skipped",
        "_slice_is_over",
        "_subscriber",
        "_wake",
        "buffer",
        "delivered",
        "emitting",
    )

    def __init__(
        self,
        subscriber: Subscriber[T],
        ledger: CreditLedger,
        life: ReceiverLife,
        outcomes: IncomingOutcomes,
        settles: Settles,
        *,
        decode: Callable[[bytes], T],
        decodes_body: bool,
        on_failure: FailureStrategy,
        decodes_at_once: bool,
        give_up: Callable[[BaseException], None],
        on_raised: Callable[[BaseException], None],
        slice_is_over: Callable[[], bool],
        wake: Callable[[], None],
        on_handed_over: Callable[[bytes], None] | None = None,
    ) -> None:
        """Start without items.

        Args:
            subscriber: Gets the items.
            ledger: Knows the demand, and counts the items on hand.
            life: The life of the end; in its silent phase no items are handed over.
            outcomes: Collects the outcomes of the items.
            settles: Gets the outcomes of held items.
            decode: Makes an item from an encoded message.
            decodes_body: Whether `decode` returns the body of the message and does nothing else.
            on_failure: Decides the outcome of an item whose processing failed.
            decodes_at_once: Whether an item must be decoded while it is in hand.
            give_up: Ends the subscription with an error.
            on_raised: Called with an exception that the subscriber raised.
            slice_is_over: Tells whether other links should have their turn.
            wake: Makes the subscription work soon.
            on_handed_over: Called with the last message of each run that was handed over; None: not used.
        """
        self.buffer = ItemBuffer()
        self.emitting = False
        self.delivered = 0
        self._subscriber = subscriber
        self._ledger = ledger
        self._life = life
        self._outcomes = outcomes
        self._settles = settles
        self._decode = decode if on_failure.forward is None else self._decode_kept(decode)
        self._decode_one = self._decode if ledger.bound is None else self._decode_counted(self._decode)
        self._decodes_body = decodes_body and self._decode is decode
        self._on_failure = on_failure
        self._give_up = give_up
        self._on_raised = on_raised
        self._slice_is_over = slice_is_over
        self._wake = wake
        self._on_handed_over = on_handed_over
        self._forgets_link = False  # a link was lost while items were being handed over
        self._next_look = 1  # the number of items after which it looks at the time
        self._payload = b""  # the payload of the item in hand, if the strategy forwards
        self._current: Hashable = None
        self._held: Claims | None = None  # the claim on the item in hand, if it is held or kept
        self._kept: ClaimsInOrder | None = None  # where the claims on items are kept, if they are
        self._on_run = runs_of(subscriber)
        may_wait = not decodes_at_once and on_failure.forward is None and ledger.bound is None
        self._on_unmade_run = unmade_runs_of(subscriber) if may_wait else None
        self._run: tuple[Run, Iterator[Any]] | None = None  # the run that `_on_run` is taking
        self._run_from = 0  # the first item of the run that is not ended; only this one may be held
        self._skipped = 0  # items that could not be decoded, if the subscription goes on

    # how they come

    def take_in(self, frame: Transfer) -> None:
        """Keep received items until `hand_over`."""
        deliveries: Sequence[Hashable] = frame.deliveries
        payloads = frame.payloads
        if frame.settled:
            deliveries = [None] * len(payloads)
        losses = self._outcomes.losses
        self._outcomes.loose.more_comes()
        ledger = self._ledger
        bound = ledger.bound
        if bound is not None:
            bound.observe(payloads)
        runs: list[Run] = [(deliveries, payloads)]
        items = len(payloads)
        if ledger.pack > 1:
            runs = unpack(deliveries, payloads, ledger.pack)
            items = sum(len(run[1]) for run in runs)
        if ledger.grows:
            ledger.fit(size_of(payloads), items)
        for run in runs:
            ledger.receive(len(run[1]))
            self.buffer.put(run)
            if bound is not None:
                keys = run[0] if frame.settled else [(losses, delivery) for delivery in run[0]]
                bound.receive(zip(keys, run[1], strict=True))

    # how they are handed over

    def hand_over(self) -> None:
        """Hand over items for which there is demand."""
        ledger, buffer = self._ledger, self.buffer
        life = self._life
        if self.emitting or not buffer or life.phase is _SILENT:
            return
        hand_over = self._hand_over_each if self._on_run is None else self._hand_over_run
        if self._on_unmade_run is not None:
            hand_over = self._hand_over_unmade
        wanted = all_wanted = ledger.deliver()
        self._skipped = 0
        self.emitting = True
        try:
            while wanted and life.phase is not _SILENT:
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
            if self._forgets_link:
                self._forgets_link = False
                self.forget_link()

    def _hand_over_each(self, run: Run) -> None:
        decode, on_next, accept = self._decode_one, self._subscriber.on_next, self._outcomes.accepted.append
        life = self._life
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
                    elif self._held is None:
                        accept(delivery)
                    else:
                        self._settle_current(None)
                if life.phase is _SILENT:
                    break
        finally:
            self._current = None
            self._ledger.settle(settled)
            self._count_handed(run, handed)

    def _hand_over_run(self, run: Run) -> None:
        """Hand a run over to a subscriber that takes many items in one call."""
        assert self._on_run is not None, "asked for before"
        deliveries, size = run[0], len(run[1])
        waiting, items = self._decoded(run[1])
        self._run, self._run_from = (run, waiting), 0
        try:
            while self._life.phase is not _SILENT:
                try:
                    self._on_run(items)
                except BaseException as error:
                    last = size - length_hint(waiting) - 1
                    if last < 0:  # an interrupt, or a broken subscriber: it has taken no item
                        self._on_raised(error)
                        if isinstance(error, Exception):
                            break
                        raise
                    self._let_go_before(last)
                    self._run_from, self._current = last + 1, deliveries[last]
                    if self._current is None and self._ledger.bound is not None:
                        self._ledger.bound.let_go(len(run[1][last]))
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

    def _hand_over_unmade(self, run: Run) -> None:
        """Hand a run over to a subscriber that keeps the items, and decodes them when it wants them."""
        assert self._on_unmade_run is not None, "asked for before"
        payloads, kept = run[1], self._kept
        keeps_each = kept is not None and not kept.whole_runs
        if keeps_each or type(payloads) is JoinedMessage or (self._decodes_body and type(payloads) is PackedMessages):
            self._hand_over_run(run)
            return
        size = len(payloads)
        self._run, self._run_from = (run, iter(())), 0
        try:
            self._on_unmade_run(UnmadeRun(map(self._decode, payloads), size, self._refuse_unmade))
        except BaseException as error:
            self._on_raised(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._let_go_before(size)
            self._run = self._current = None
            self._count_handed(run, size)

    def _refuse_unmade(self, error: BaseException) -> bool:
        """Handle an item that its subscriber could not decode; return whether the subscription goes on."""
        goes_on = self._note_undecodable(error)
        if goes_on and self._life.phase is not _SILENT:
            self.delivered -= 1
            self._ledger.request(1)
            self._wake()
        return goes_on

    def _note_undecodable(self, error: BaseException) -> bool:
        """Treat an item that could not be decoded, whose hold has failed; return whether the subscription goes on."""
        strategy = self._on_failure
        if strategy.ends:
            self._give_up(error)
        elif strategy.on_undecodable is not None:
            strategy.on_undecodable(error)
        return not strategy.ends

    def _decoded(self, payloads: Sequence[bytes]) -> tuple[Iterator[Any], Iterator[T]]:
        """Return an iterator that knows how many items are left, and the items, which advance it."""
        made: Sequence[Any] | None = None
        if self._decodes_body and (type(payloads) is PackedMessages or type(payloads) is JoinedMessage):
            made = payloads.bodies()
        elif type(payloads) is JoinedMessage:
            made = payloads.messages(self._decode)
        if made is not None:
            items: Iterator[Any] = iter(made)
            return items, items
        waiting: Iterator[Any] = iter(payloads)
        return waiting, waiting if self._decode is bytes else map(self._decode, waiting)

    def _count_handed(self, run: Run, handed: int) -> None:
        """Count the first items of the run as handed over; the others go back to the buffer."""
        self.delivered += handed
        if handed and self._on_handed_over is not None:
            self._on_handed_over(run[1][handed - 1])
        left = len(run[1]) - handed
        if left:
            self._ledger.take_back(left)
            self.buffer.put_back((run[0][handed:], run[1][handed:]))

    def hold(self) -> Hold:
        """Take a hold on the item in `on_next`: its outcome waits for the hold."""
        current = self._in_hand()
        if current is None:
            return NO_HOLD
        held = self._held
        if held is None or held is _KEPT:
            losses = self._outcomes.losses
            if self._on_failure.forward is not None:
                self._outcomes.keep_payload(losses, current, self._payload)
            before, held = held, Claims(self._settles, losses, (current,))
            self._held = held
            if before is _KEPT and self._kept is not None:
                self._kept.put_hold(held.hold())
        return held.hold()

    def gather(self, *, loose: bool) -> ClaimsInOrder:
        """Return claims on the items to come; none of them can be forwarded when it fails."""
        self._kept = ClaimsInOrder(self.hold, loose=loose, keeper=self)
        return self._kept

    def keep(self, claims: ClaimsInOrder) -> None:
        """Put the item in `on_next` into `claims`, when `on_next` returns."""
        if self._in_hand() is None:
            claims.put_settled(1)
        elif self._held is None:
            self._held, self._kept = _KEPT, claims
        elif self._held is not _KEPT or self._kept is not claims:
            claims.put_hold(self.hold())

    def announce(self, settle: Callable[[], None]) -> None:
        """Call `settle` once, when the peer is about to be told which items are done."""
        self._outcomes.announce(settle)

    def _in_hand(self) -> Hashable:
        """Return the delivery of the item in `on_next`; None if there is no item, or it came settled."""
        if self._run is not None:
            (deliveries, _), waiting = self._run
            at = len(deliveries) - length_hint(waiting) - 1
            self._let_go_before(at)
            self._current = deliveries[at]
        return self._current

    def _let_go_before(self, end: int) -> None:
        """End the items of the run before `end`: all are accepted or gathered, except the first one if it is held."""
        if self._run is None or self._run_from >= end:
            return
        (deliveries, payloads), begin = self._run[0], self._run_from
        self._run_from = end
        if self._held is not None:
            self._current = deliveries[begin]
            self._settle_current(None)
            begin += 1
        accepted = deliveries[begin:end]
        kept = self._kept
        if deliveries[0] is None:
            self._ledger.settle(end - begin)
            if self._ledger.bound is not None:
                self._ledger.bound.let_go(sum(map(len, payloads[begin:end])))
            if kept is not None and kept.whole_runs:
                kept.put_settled(end - begin)
        elif accepted and kept is not None and kept.whole_runs:
            kept.put(Claims(self._settles, self._outcomes.losses, accepted))
        elif accepted:
            self._outcomes.accepted_runs.append(accepted)

    def _settle_current(self, error: BaseException | None) -> None:
        """End the item in hand, as processed or because of `error`; from now on it cannot be held."""
        held, self._held = self._held, None
        current, self._current = self._current, None
        if current is None:
            self._ledger.settle(1)
        elif held is _KEPT and error is None:
            assert self._kept is not None, "it has taken the item"
            self._kept.put_place(self._settles, self._outcomes.losses, current)
        elif held is None or held is _KEPT:
            assert error is not None, "without a hold it is accepted with its run"
            losses = self._outcomes.losses
            if self._on_failure.forward is not None:
                self._outcomes.keep_payload(losses, current, self._payload)
            self._outcomes.settle(losses, (current,), error)
        elif error is None:
            held.done()
        else:
            held.fail(error)

    def _refuse_current(self, error: Exception) -> None:
        """End an item that could not be decoded; the subscriber, if it goes on, is owed another one."""
        self._settle_current(error)
        self._note_undecodable(error)
        if self._life.phase is not _SILENT:
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

    # how they end without being handed over

    def release(self) -> None:
        """Give back items that were not handed over."""
        ledger = self._ledger
        if ledger.bound is not None:
            ledger.bound.let_go(sum(len(payload) for delivery, payload in self.buffer if delivery is None))
        ledger.give_back(len(self.buffer))
        self._outcomes.release(self._unsettled())
        self.buffer.clear()

    @property
    def lacks_when_lost(self) -> bool:
        """Whether items are missing if the link is lost now: the peer gets back those that did not come settled."""
        return any(delivery is not None for delivery, _ in self.buffer)

    def forget_link(self) -> None:
        """Drop items that were not handed over, unless they came settled: the link is lost, and the peer has them back.

        While items are being handed over, this waits until the run in hand is finished.
        """
        if self.emitting:
            self._forgets_link = True
            return
        self._outcomes.forget_link(self._unsettled())
        kept = [payload for delivery, payload in self.buffer if delivery is None]
        self._ledger.give_back(len(self.buffer) - len(kept))
        self.buffer.clear()
        self.buffer.put(([None] * len(kept), kept))

    def _unsettled(self) -> list[Hashable]:
        """Return the deliveries that were not handed over and wait for their outcome."""
        return [delivery for delivery, _ in self.buffer if delivery is not None]
