"""The outcomes of a link's received items: collected until the next dispositions, equal ones in one frame.

A link can be lost and replaced. The peer of a lost link has all unsettled items back; the outcome of an item that is in
hand or held then comes too late. Therefore a delivery is identified by its handle and by the number of losses that the
link had when it came.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain, groupby
from operator import itemgetter

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
from rstreams.protocol.frames import Disposition
from rstreams.protocol.gathered_items import GatheredItems, LooseItems
from rstreams.protocol.packing import PackItems, settled_whole


class IncomingOutcomes:
    """The outcomes that the peer of a `LinkSubscription` does not know yet; see the text of this module.

    Context: As `LinkSubscription`.

    Attributes:
        accepted: The deliveries that are accepted.
        accepted_runs: Runs of deliveries that are accepted.
        losses: The number of losses of the link.
        late: Outcomes that came after the link of their delivery was lost.
        loose: The holds and gatherings that the link may settle itself to make room.
        settles: Gets the outcomes of held items: this object, unless another one gets them first.
    """

    __slots__ = (
        "_announced",
        "_give_up",
        "_given_back",
        "_ledger",
        "_on_failure",
        "_wake",
        "accepted",
        "accepted_runs",
        "late",
        "loose",
        "losses",
        "settles",
    )

    def __init__(
        self,
        ledger: CreditLedger,
        on_failure: FailureStrategy,
        *,
        give_up: Callable[[BaseException], None],
        wake: Callable[[], None],
        settles: MakesRoom | None,
    ) -> None:
        """Start without outcomes.

        Args:
            ledger: Counts the items on hand.
            on_failure: Decides the outcome of an item whose processing failed.
            give_up: Ends the subscription with an error.
            wake: Makes the subscription work soon.
            settles: Gets the outcomes of held items, and passes them to this object later; None: this object gets them.
        """
        self.accepted: list[Hashable] = []
        self.accepted_runs: list[Sequence[Hashable]] = []
        self.losses = 0
        self.late = 0
        self.loose = LooseItems()
        self.settles: MakesRoom = settles or self
        self._ledger = ledger
        self._on_failure = on_failure
        self._give_up = give_up
        self._wake = wake
        self._given_back: list[tuple[Outcome, Hashable]] = []
        self._announced: list[Callable[[], None]] = []  # they have outcomes, and say which when they are called

    def settle(self, delivery: tuple[int, Hashable], outcome: Outcome) -> None:
        """Settle one delivery. The peer of a lost link has it back already, and is told nothing."""
        losses, handle = delivery
        if losses != self.losses:
            self.late += 1
            self._ledger.settle(1)
            self._count_out(losses, [handle])
        elif outcome is ACCEPTED:
            self.accepted.append(handle)
        else:
            self._given_back.append((outcome, handle))
        self._wake()

    def fail(self, delivery: tuple[int, Hashable], payload: bytes, error: BaseException) -> None:
        """Settle one delivery whose processing failed, as the failure strategy decides."""
        strategy = self._on_failure
        if isinstance(error, DeliveryFailed):
            self.settles.settle(delivery, outcome_of(error))
        elif strategy.forward is not None:
            strategy.forward(payload, error, ForwardedHold(self.settles, delivery, self._give_up))
        else:
            self.settles.settle(delivery, strategy.outcome(error))

    def settle_run(self, losses: int, run: Sequence[Hashable], outcome: Outcome) -> None:
        """Settle deliveries that were gathered, as `settle` does."""
        if losses != self.losses:
            self.late += len(run)
            self._ledger.settle(len(run))
            self._count_out(losses, run)
        elif outcome is not ACCEPTED:
            self._given_back += [(outcome, delivery) for delivery in run]
        elif isinstance(run, PackItems) or self._ledger.pack == 1:
            self.accepted_runs.append(run)
        else:
            self.accepted += run  # they may belong to several packs

    def fail_run(self, losses: int, run: Sequence[Hashable], error: BaseException) -> None:
        """Settle deliveries that were gathered, and whose processing failed."""
        for delivery in run:
            self.fail((losses, delivery), b"", error)

    def announce(self, settle: Callable[[], None]) -> None:
        """Have `settle` called when the peer is told of outcomes, which is soon."""
        self._announced.append(settle)
        if len(self._announced) == 1:
            self._wake()

    def wake(self) -> None:
        """Have the peer told of the outcomes soon."""
        if not self._announced:  # else it has been called, or the outcomes are being taken
            self._wake()

    def end_gathering(self, gathering: GatheredItems) -> None:
        """Forget a gathering that has settled all its items."""
        self.loose.gatherings.pop(gathering, None)
        self._wake()

    def loosen(self, hold: DeliveryHold) -> None:
        """Note that a delivery may be accepted to make room; the room may be needed now."""
        self.loose.holds[hold] = None
        self._wake()

    def tighten(self, hold: DeliveryHold) -> None:
        """Note that a delivery is about to be settled."""
        self.loose.holds.pop(hold, None)

    def release(self, deliveries: Sequence[Hashable]) -> None:
        """Give back deliveries that were not handed over; they are unsettled until the peer is told."""
        self._ledger.unsettled += len(deliveries)
        self._given_back += [(RELEASED, delivery) for delivery in deliveries]

    def drop(self, delivery: Hashable) -> None:
        """Accept a delivery that is not handed over; it is unsettled until the peer is told."""
        ledger = self._ledger
        ledger.unsettled += 1
        if ledger.bound is not None:
            ledger.bound.receive([((self.losses, delivery), b"")])
        self.accepted.append(delivery)

    def take_dispositions(self) -> list[Disposition]:
        """Take the collected outcomes, which are settled from now on: one frame for a run of equal ones."""
        if self._announced:
            for settle in self._announced:
                settle()
            self._announced = []
        accepted, given_back, runs = self.accepted, self._given_back, self.accepted_runs
        if not accepted and not given_back and not runs:
            return []
        ledger = self._ledger
        ledger.settle(self._untold())
        self.accepted, self._given_back, self.accepted_runs = [], [], []
        if ledger.bound is not None:
            self._count_out(self.losses, chain(*runs, accepted, (delivery for _, delivery in given_back)))
        if ledger.pack > 1:
            accepted, given_back, runs = *settled_whole(accepted, given_back, runs), []
        frames = [Disposition(run, ACCEPTED) for run in (*runs, accepted) if run]
        for outcome, run in groupby(given_back, itemgetter(0)):
            frames.append(Disposition([delivery for _, delivery in run], outcome))
        return frames

    def forget_link(self, dropped: Iterable[Hashable]) -> None:
        """Drop the outcomes that were not sent: the link is lost, and the peer has its deliveries back.

        Args:
            dropped: The deliveries that were not handed over.
        """
        given_back = (delivery for _, delivery in self._given_back)
        self._count_out(self.losses, chain(dropped, *self.accepted_runs, self.accepted, given_back))
        self.losses += 1
        untold = self._untold()
        self.accepted, self._given_back, self.accepted_runs = [], [], []
        self.late += untold
        self._ledger.settle(untold)

    def _untold(self) -> int:
        """Return how many items have an outcome that has not been taken."""
        return len(self.accepted) + len(self._given_back) + sum(map(len, self.accepted_runs))

    def _count_out(self, losses: int, deliveries: Iterable[Hashable]) -> None:
        """Count the bytes of deliveries as no longer on hand."""
        if self._ledger.bound is not None:
            self._ledger.bound.settle((losses, delivery) for delivery in deliveries)
