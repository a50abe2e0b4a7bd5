"""The outcomes of a link's received items: collected until the next dispositions, equal ones in one frame.

A link can be lost and replaced. The peer of a lost link has all unsettled items back; the outcome of an item that is in
hand or held then comes too late. Therefore a delivery is identified by its handle and by the number of losses that the
link had when it came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Final

from rstreams._core.claims import DONE, Claims, Ending, Settles
from rstreams.errors import DeliveryFailed
from rstreams.protocol.credit import CreditLedger
from rstreams.protocol.delivery import ACCEPTED, RELEASED, FailureStrategy, Forwarded, Outcome, outcome_of
from rstreams.protocol.frames import Disposition
from rstreams.protocol.packing import PackItems, settled_whole

_MANY: Final = 16
"""The least accepted deliveries that have a frame of their own; fewer are put together."""


_FEW: Final = 64
"""The number of claims at which those that have ended are first removed."""


class LooseItems:
    """The items that a link may settle itself to make room: those that are claimed loosely, the oldest first.

    It does so when its window has no room for further items that the subscriber wants. Until more items have come than
    the window holds, the link accepts one delivery at a time, and only as many as it must. After that, a failure would
    lose the oldest items in any case. The link then accepts a quarter of the window at once, as fast as for a
    subscriber that keeps no items.

    Attributes:
        claims: The claims, the oldest first.
        slack: Whether some have been accepted.
        wanted: Whether the sender has no room either, and waits for settlement.
    """

    __slots__ = ("_overflows", "_prune_at", "claims", "slack", "wanted")

    def __init__(self) -> None:
        """Start without items."""
        self.wanted = False
        self.claims: dict[Claims, None] = {}
        self._prune_at = _FEW
        self.slack = False
        self._overflows = False  # and more have come since then

    def add(self, claims: Claims) -> None:
        """Note that these may be settled."""
        self.claims[claims] = None
        if len(self.claims) >= self._prune_at:
            self.claims = {each: None for each in self.claims if len(each)}
            self._prune_at = max(_FEW, 2 * len(self.claims))

    def more_comes(self) -> None:
        """Note that items have come."""
        self._overflows = self.slack
        self.wanted = False  # the sender has found room

    def make_room(self, ledger: CreditLedger, credit: int) -> bool:
        """Accept the oldest items if the items in hand leave no room for more; return whether any were accepted."""
        if not self.claims:
            return False
        quarter = ledger.window // 4 if self._overflows else 0
        if ledger.starves(credit, quarter):
            most = left = max(ledger.pack, quarter)
        elif self.wanted:
            most = left = -(-ledger.unsettled // 2)
        else:
            return False
        while self.claims and left:
            oldest = next(iter(self.claims))
            left -= oldest.end_some(left, DONE)
            if not len(oldest):
                del self.claims[oldest]
        if left == most:
            return False  # none may be accepted yet; the sender still waits
        self.slack = True
        self.wanted = False
        return True


class IncomingOutcomes(Settles):
    """The outcomes that the peer of a `LinkSubscription` does not know yet; see the text of this module.

    Context: As `LinkSubscription`.

    Attributes:
        accepted: The deliveries that are accepted.
        accepted_runs: Runs of deliveries that are accepted.
        losses: The number of losses of the link.
        late: Outcomes that came after the link of their delivery was lost.
        not_taken: How many deliveries were not accepted, by their outcomes; those behind a loss are not counted.
        loose: The claims that the link may settle itself to make room.
        awaited: Whether items are being handed over: then the peer is told of their outcomes without a wake-up.
    """

    __slots__ = (
        "_announced",
        "_give_up",
        "_given_back",
        "_ledger",
        "_on_failure",
        "_payloads",
        "_wake",
        "accepted",
        "accepted_runs",
        "awaited",
        "late",
        "loose",
        "losses",
        "not_taken",
    )

    def __init__(
        self,
        ledger: CreditLedger,
        on_failure: FailureStrategy,
        *,
        give_up: Callable[[BaseException], None],
        wake: Callable[[], None],
    ) -> None:
        """Start without outcomes.

        Args:
            ledger: Counts the items on hand.
            on_failure: Decides the outcome of an item whose processing failed.
            give_up: Ends the subscription with an error.
            wake: Makes the subscription work soon.
        """
        self.accepted: list[Hashable] = []
        self.accepted_runs: list[Sequence[Hashable]] = []
        self.losses = 0
        self.late = 0
        self.not_taken: Counter[str] = Counter()
        self.loose = LooseItems()
        self.awaited = False
        self._ledger = ledger
        self._on_failure = on_failure
        self._give_up = give_up
        self._wake = wake
        self._payloads: dict[tuple[int, Hashable], bytes] = {}  # of deliveries in hand, if the strategy forwards
        self._given_back: list[tuple[Outcome, Hashable]] = []
        self._announced: list[Callable[[], None]] = []  # they have outcomes, and say which when they are called

    def settle(self, epoch: int, places: Sequence[Hashable], how: Ending) -> None:
        """Settle deliveries that came after `epoch` losses.

        The peer of a lost link has them back already, and is told nothing.
        """
        if isinstance(how, BaseException):
            for place in places:
                self._fail(epoch, place, how)
            return
        if self._payloads:
            for place in places:
                self._payloads.pop((epoch, place), None)
        self._settle(epoch, places, ACCEPTED if how is DONE else RELEASED)

    def _settle(self, epoch: int, places: Sequence[Hashable], outcome: Outcome) -> None:
        if epoch != self.losses:
            self.late += len(places)
            self._ledger.settle(len(places))
            self._count_out(epoch, places)
        elif outcome is not ACCEPTED:
            self._given_back += [(outcome, place) for place in places]
            self.not_taken[outcome.kind] += len(places)
        elif len(places) >= _MANY and (isinstance(places, PackItems) or self._ledger.pack == 1):
            self.accepted_runs.append(places)
        else:
            self.accepted += places  # they may belong to several packs
        self._wake_soon()

    def _fail(self, epoch: int, place: Hashable, error: BaseException) -> None:
        """Settle one delivery whose processing failed, as the failure strategy decides."""
        strategy = self._on_failure
        payload = self._payloads.pop((epoch, place), b"")
        if isinstance(error, DeliveryFailed):
            self._settle(epoch, (place,), outcome_of(error))
        elif strategy.forward is not None:
            strategy.forward(payload, error, Claims(Forwarded(self, self._give_up), epoch, (place,)))
        else:
            self._settle(epoch, (place,), strategy.outcome(error))

    def keep_payloads(self, epoch: int, places: Sequence[Hashable], payloads: Sequence[bytes]) -> None:
        """Keep the messages of deliveries until they are settled: one is forwarded if its processing fails."""
        self._payloads.update(zip(zip(repeat(epoch), places), payloads, strict=True))

    def announce(self, settle: Callable[[], None]) -> None:
        """Have `settle` called when the peer is told of outcomes, which is soon."""
        self._announced.append(settle)
        if len(self._announced) == 1:
            self._wake()

    def _wake_soon(self) -> None:
        """Have the peer told of the outcomes soon."""
        if not (self._announced or self.awaited):  # else it has been called, or the outcomes are being taken
            self._wake()

    def loosen(self, claims: Claims) -> None:
        """Note that deliveries may be accepted to make room; the room may be needed now."""
        self.loose.add(claims)
        self._wake()

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
