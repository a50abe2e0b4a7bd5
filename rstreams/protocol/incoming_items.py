"""The signals of a receiving end, and its items: kept until they are wanted, then handed over and held.

Theory of operation. An item goes through four places:

    buffer     it has come, and was not requested yet, or the subscriber is busy with another one
    in hand    it is in `on_next` or `on_run`; a stage that keeps it takes a hold now
    held       until the last hold on it ends; then its outcome is known
    decided    its outcome goes to the peer with the next dispositions; see `incoming_outcomes`

A subscriber may be slow, and other links must have their turns. Therefore the driver, which knows the time, is asked
whether the slice is over: after one item, then after two more, then four more, up to `_MANY` while they are quick.

The ledger counts the items of the first place as buffered, and those of the others as unsettled. Items are handed over
in runs (`_core.run`). A subscriber that takes no runs gets them by `on_next`, and so does any subscriber with an item
that came alone. An item that came settled has None instead of a delivery. It has no outcome, and is done when it has
been handed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from rstreams._core.claims import NO_HOLD, NOTHING, Settles
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.run import Run, runs_of
from rstreams.abc import Hold, Subscriber
from rstreams.message import decode_body
from rstreams.protocol.credit import CreditLedger
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Transfer
from rstreams.protocol.incoming_outcomes import IncomingOutcomes
from rstreams.protocol.joined_message import JoinedMessage
from rstreams.protocol.life import ReceiverEvent, ReceiverLife, ReceiverPhase
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.packing import PackedMessages, ReceivedRun, unpack

T = TypeVar("T")

_MANY: Final = 256
"""The most items handed over without a look at the time, however quick the last ones were."""

_SILENT: Final[ReceiverPhase] = ReceiverPhase.SILENT


class ItemBuffer:
    """Items that wait, in their order and in the runs in which they came: none is moved by itself."""

    __slots__ = ("_runs", "_size", "_taken")

    def __init__(self) -> None:
        """Start without items."""
        self._runs: deque[ReceivedRun] = deque()
        self._taken = 0  # of the first run
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[Hashable, bytes]]:
        taken = self._taken
        for deliveries, items in self._runs:
            yield from zip(deliveries[taken:], items[taken:], strict=True)
            taken = 0

    @property
    def last(self) -> bytes | None:
        """The last item; None if there is none."""
        return self._runs[-1][1][-1] if self._runs else None

    def put(self, run: ReceivedRun) -> None:
        """Put a run after the others."""
        if run[1]:
            self._runs.append(run)
            self._size += len(run[1])

    def take(self, most: int) -> ReceivedRun:
        """Take up to `most` items of the first run; there must be one."""
        (deliveries, items), begin = self._runs[0], self._taken
        size = len(items)
        end = min(begin + most, size)
        if end < size:
            self._taken = end
        else:
            self._taken = 0
            self._runs.popleft()
        self._size -= end - begin
        return (deliveries, items) if end - begin == size else (deliveries[begin:end], items[begin:end])

    def put_back(self, run: ReceivedRun) -> None:
        """Put back the last items of the run that was taken last."""
        if run[1]:
            if self._taken:
                deliveries, items = self._runs[0]
                self._runs[0] = deliveries[self._taken :], items[self._taken :]
                self._taken = 0
            self._runs.appendleft(run)
            self._size += len(run[1])

    def clear(self) -> None:
        """Remove all items."""
        self._runs.clear()
        self._taken = self._size = 0


class IncomingItems(Generic[T]):
    """The items that a `LinkSubscription` has received; see the text of this module.

    Context: As `LinkSubscription`.

    Attributes:
        buffer: The items that have not been handed over.
        emitting: Whether the subscriber is in a signal. It gets one signal after the other (1.3).
        work_waits: Whether the subscription has put off its work until the signal has returned.
        delivered: How many items have been handed over.
        source: Gets the outcomes of items that are handed over.
    """

    __slots__ = (
        "_decode",
        "_forgets_link",
        "_give_up",
        "_ledger",
        "_life",
        "_next_look",
        "_on_failure",
        "_on_handed_over",
        "_on_raised",
        "_on_run",
        "_outcomes",
        "_run",
        "_skipped",
        "_subscriber",
        "_waits",
        "_wake",
        "buffer",
        "delivered",
        "emitting",
        "source",
        "work_waits",
    )

    def __init__(
        self,
        subscriber: Subscriber[T],
        options: ReceivingOptions[T],
        ledger: CreditLedger,
        life: ReceiverLife,
        outcomes: IncomingOutcomes,
        *,
        give_up: Callable[[BaseException], None],
        on_raised: Callable[[BaseException], None],
        wake: Callable[[], None],
    ) -> None:
        """Start without items.

        Args:
            subscriber: Gets the signals.
            options: Those of the link.
            ledger: Knows the demand, and counts the items on hand.
            life: The life of the end; in its silent phase there are no signals.
            outcomes: Collects the outcomes of the items.
            give_up: Ends the subscription with an error.
            on_raised: Called with an exception that the subscriber raised, which the specification forbids (2.13).
            wake: Makes the subscription work soon.
        """
        self.buffer = ItemBuffer()
        self.emitting = False
        self.work_waits = False
        self.delivered = 0
        self.source: Settles = outcomes
        self._subscriber = subscriber
        self._ledger = ledger
        self._life = life
        self._outcomes = outcomes
        self._decode = options.decode
        self._on_failure = options.on_failure
        self._give_up = give_up
        self._on_raised = on_raised
        self._wake = wake
        self._on_handed_over = options.on_handed_over
        self._forgets_link = False  # a link was lost inside of a signal
        self._next_look = 1  # the number of items after which it looks at the time
        self._on_run = runs_of(subscriber)
        self._waits = ledger.bound is None
        self._run: Run[T] | None = None  # the items in hand
        self._skipped = 0  # items that could not be decoded, if the subscription goes on

    # signals that are not items

    def signal(self, call: Callable[[], None]) -> None:
        """Call a function of the subscriber, which may raise anything: the connection must go on."""
        before, self.emitting = self.emitting, True
        try:
            call()
        except Exception as error:
            self._raised(error)
        finally:
            self.emitting = before
            if not before:
                self._forget_lost_link()
        if self.work_waits and not before:
            self.work_waits = False
            self._wake()

    def end(self, error: BaseException | None) -> None:
        """Signal `on_error`, or `on_complete` if there is no error."""
        subscriber = self._subscriber
        self.signal(subscriber.on_complete if error is None else lambda: subscriber.on_error(error))

    def _raised(self, error: BaseException) -> None:
        """Cancel the subscription of a subscriber that has raised `error`."""
        self._life.on(ReceiverEvent.SILENCE)
        self._on_raised(error)
        self._wake()

    # how they come

    def take_in(self, frame: Transfer) -> None:
        """Keep received items until `hand_over`."""
        deliveries: Sequence[Hashable] = frame.deliveries
        payloads = frame.payloads
        if frame.settled:
            deliveries = [None] * len(payloads)
        losses = self._outcomes.losses
        loose = self._outcomes.loose
        if loose.slack or loose.wanted:
            loose.more_comes()
        ledger = self._ledger
        bound = ledger.bound
        if bound is not None:
            bound.observe(payloads)
        runs: list[ReceivedRun] = [(deliveries, payloads)]
        items = len(payloads)
        if ledger.pack > 1:
            runs = unpack(deliveries, payloads, ledger.pack)
            items = sum(len(run[1]) for run in runs)
        if ledger.grows:
            ledger.fit(payloads.size if type(payloads) is JoinedMessage else sum(map(len, payloads)), items)
        for run in runs:
            ledger.receive(len(run[1]))
            self.buffer.put(run)
            if bound is not None:
                keys = run[0] if frame.settled else [(losses, delivery) for delivery in run[0]]
                bound.receive(zip(keys, run[1], strict=True))

    # how they are handed over

    def hand_over(self, driver: Driver | None) -> None:
        """Hand over items for which there is demand; `driver` says when other links should have their turn."""
        ledger, buffer = self._ledger, self.buffer
        life = self._life
        if self.emitting or not ledger.buffered or life.phase is _SILENT:
            return
        on_run = None if ledger.buffered == 1 else self._on_run
        wanted = all_wanted = ledger.deliver()
        self._skipped = 0
        self.emitting = self._outcomes.awaited = True
        try:
            while wanted and life.phase is not _SILENT:
                deliveries, payloads = buffer.take(min(wanted, self._next_look))
                wanted -= len(payloads)
                self._hand_over(on_run, deliveries, payloads)
                if wanted and driver is not None and driver.slice_is_over():
                    if all_wanted - wanted < _MANY:
                        self._next_look = 1
                    self._wake()
                    break
                self._next_look = min(2 * self._next_look, _MANY)
        finally:
            if wanted:
                ledger.take_back(wanted)
            self.emitting = self._outcomes.awaited = self.work_waits = False  # its caller works next
            if self._skipped:
                self.delivered -= self._skipped
                ledger.request(self._skipped)
                self._wake()
            self._forget_lost_link()

    def _hand_over(
        self, on_run: Callable[[Run[T]], None] | None, deliveries: Sequence[Hashable], payloads: Sequence[bytes]
    ) -> None:
        """Hand over items that came together; those that the subscriber does not take go back to the buffer."""
        settled, epoch = deliveries[0] is None, self._outcomes.losses
        if not settled and self._on_failure.forward is not None:
            self._outcomes.keep_payloads(epoch, deliveries, payloads)
        waiting, items = self._decoded(payloads)
        run = self._run = Run(
            NOTHING if settled else self.source,
            epoch,
            deliveries,
            items,
            waiting=waiting,
            waits=self._waits and items is not waiting,
            refuse=self._refuse_kept,
        )
        before = -1
        try:
            while self._life.phase is not _SILENT:
                try:
                    if on_run is None:
                        self._take_each(run, items)
                    else:
                        on_run(run)
                except Exception as error:
                    if run.at == before or not run.in_hand:  # not of an item: the subscriber is broken
                        self._raised(error)
                        break
                    before = run.at
                    self._refuse(run, error)
                    continue
                except BaseException as error:
                    run.fail(error)
                    self._raised(error)
                    raise
                break
        finally:
            self._run = None
            self._count_handed(deliveries, payloads, run.end())

    def _take_each(self, run: Run[T], items: Iterator[T]) -> None:
        """Take the items of a run for a subscriber that takes them one by one."""
        on_next, life = self._subscriber.on_next, self._life
        for item in items:
            try:
                on_next(item)
            except Exception as error:
                run.fail(error)
                self._raised(error)
                return
            if life.phase is _SILENT:
                return

    def _refuse(self, run: Run[T], error: Exception) -> None:
        """End an item that could not be decoded; the subscriber, if it goes on, is owed another one."""
        run.fail(error)
        run.go_on()
        self._note_undecodable(error)
        if self._life.phase is not _SILENT:
            self._skipped += 1

    def _refuse_kept(self, error: BaseException) -> bool:
        """Handle an item that its subscriber could not decode later; return whether the subscription goes on."""
        goes_on = self._note_undecodable(error)
        if goes_on and self._life.phase is not _SILENT:
            self.delivered -= 1
            self._ledger.request(1)
            self._wake()
        return goes_on

    def _note_undecodable(self, error: BaseException) -> bool:
        """Treat an item that could not be decoded, whose claim has failed; return whether the subscription goes on."""
        strategy = self._on_failure
        if strategy.ends:
            self._give_up(error)
        elif strategy.on_undecodable is not None:
            strategy.on_undecodable(error)
        return not strategy.ends

    def _decoded(self, payloads: Sequence[bytes]) -> tuple[Iterator[Any], Iterator[T]]:
        """Return an iterator that knows how many items are left, and the items, which advance it."""
        made: Sequence[Any] | None = None
        if self._decode is decode_body and (type(payloads) is PackedMessages or type(payloads) is JoinedMessage):
            made = payloads.bodies()
        elif type(payloads) is JoinedMessage:
            made = payloads.messages(self._decode)
        if made is not None:
            items: Iterator[Any] = iter(made)
            return items, items
        waiting: Iterator[Any] = iter(payloads)
        return waiting, waiting if self._decode is bytes else map(self._decode, waiting)

    def _count_handed(self, deliveries: Sequence[Hashable], payloads: Sequence[bytes], handed: int) -> None:
        """Count the first items as handed over; the others go back to the buffer."""
        self.delivered += handed
        if handed and deliveries[0] is None:
            self._ledger.settle(handed)
            if self._ledger.bound is not None:
                self._ledger.bound.let_go(sum(map(len, payloads[:handed])))
        if handed and self._on_handed_over is not None:
            self._on_handed_over(payloads[handed - 1])
        left = len(payloads) - handed
        if left:
            self._ledger.take_back(left)
            self.buffer.put_back((deliveries[handed:], payloads[handed:]))

    def hold(self) -> Hold:
        """Take a hold on the item in hand: its outcome waits for the hold."""
        return NO_HOLD if self._run is None else self._run.hold()

    def gather(self, *, loose: bool) -> ClaimsInOrder:
        """Return claims on the items to come."""
        return ClaimsInOrder(self.hold, loose=loose, keeper=self)

    def keep(self, claims: ClaimsInOrder) -> None:
        """Put the item in `on_next` into `claims`, when `on_next` returns."""
        if self._run is not None:
            self._run.keep_last(claims)

    def announce(self, settle: Callable[[], None]) -> None:
        """Call `settle` once, when the peer is about to be told which items are done."""
        self._outcomes.announce(settle)

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

        Inside of a signal this waits until the signal has returned: while items are being handed over, until the run in
        hand is finished.
        """
        if self.emitting:
            self._forgets_link = True
            return
        self._outcomes.forget_link(self._unsettled())
        kept = [payload for delivery, payload in self.buffer if delivery is None]
        self._ledger.give_back(len(self.buffer) - len(kept))
        self.buffer.clear()
        self.buffer.put(([None] * len(kept), kept))

    def _forget_lost_link(self) -> None:
        """Do what `forget_link` has put off."""
        if self._forgets_link:
            self._forgets_link = False
            self.forget_link()

    def _unsettled(self) -> list[Hashable]:
        """Return the deliveries that were not handed over and wait for their outcome."""
        return [delivery for delivery, _ in self.buffer if delivery is not None]
