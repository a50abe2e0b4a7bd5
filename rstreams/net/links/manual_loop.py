"""Manual settlement directly before a loop.

A loop keeps items until it takes them. They become deliveries shortly before that, in the order in which they came.
Until then the link keeps the claims on them in the runs in which they came.

Most programs decide on one delivery after the other, in their order. Such outcomes cost little: those that accept are
counted, and the link asks how many there are (`CountedClaims`). Only a delivery that gets its outcome before an older
one, or another outcome, needs a claim of its own. Then all older deliveries get one, too.

The items are numbered as they came. The loop is through with the first `_passed` of them, of which some may be
undecided. The first `_made` are deliveries. The claims of those before `_first` have ended, or have been taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, TypeVar

import trio

from rstreams._core.counted_claims import CountedClaims
from rstreams._core.fast_paths import unmade_runs_of
from rstreams._core.gathering import ClaimsInOrder, Gathering, Holds, gather
from rstreams._core.holds import NO_HOLD
from rstreams._core.kept_items import UnmadeRun
from rstreams._stages.stage import Stage
from rstreams.abc import Hold, Subscriber
from rstreams.protocol.delivery import Delivery

T = TypeVar("T")


class ManualLoopStage(Stage[T, Delivery[T]]):
    """Hands over each item in a `Delivery` to a subscriber that keeps them for a loop."""

    __slots__ = ("_claims", "_to_loop")

    operator = "deliveries"

    def __init__(self, downstream: Subscriber[Delivery[T]]) -> None:
        """Hand over to `downstream`."""
        super().__init__(downstream)
        self._to_loop = unmade_runs_of(downstream)
        self._claims: ManualClaims | None = None  # on the items, if they need any

    def on_next(self, item: T) -> None:
        """Hand over the item."""
        if not self._ended:
            if self._claims is not None:
                self._claims.keep()
            self._hand_over([item])

    def on_run(self, items: Iterator[T]) -> None:
        """Hand over many items; if the iterator raises, those before."""
        if self._ended:
            return
        came: list[T] = []
        claims = self._claims
        try:
            if claims is None or claims.whole_runs:
                came.extend(items)
            else:
                for item in items:
                    came.append(item)
                    claims.keep()
        finally:
            self._hand_over(came)

    def on_unmade_run(self, run: UnmadeRun) -> None:
        """Hand over many items before they are made."""
        assert self._to_loop is not None, "a loop takes unmade runs"
        deliveries = map(self._delivery_of, run.items, repeat(trio.current_time()))
        self._to_loop(UnmadeRun(deliveries, run.left, run.refuse))

    def _hand_over(self, came: list[T]) -> None:
        """Hand over items that are made, as deliveries that are not: others may wait that came before."""
        self.on_unmade_run(UnmadeRun.certain(iter(came), len(came)))

    def _delivery_of(self, item: T, came: float) -> Delivery[T]:
        return Delivery(item, NO_HOLD) if self._claims is None else self._claims.delivery_of(item, came)

    def gather(self, *, loose: bool) -> Gathering | None:  # noqa: ARG002 - the user makes room
        """Return the claims on the items."""
        gathering = gather(self._upstream, loose=False)
        return None if gathering is None else _Gathered(self, gathering)

    def claim(self, claims: ClaimsInOrder) -> ManualClaims:
        """Have the user decide when these claims end."""
        self._claims = ManualClaims(claims)
        return self._claims

    def oldest(self) -> str:
        """Say which delivery has waited longest for its outcome, as the end of a sentence."""
        for delivery, came in () if self._claims is None else self._claims.undecided.values():
            return longest(delivery.item, came)
        return ""


class _Gathered(Holds):
    """The claims of a loop, which turns them into claims in order at once."""

    __slots__ = ("_gathering", "_stage")

    def __init__(self, stage: ManualLoopStage[Any], gathering: Gathering) -> None:
        super().__init__(stage, loose=False)
        self._stage = stage
        self._gathering = gathering

    def in_order(self) -> ClaimsInOrder:
        return self._stage.claim(self._gathering.in_order())


class ManualClaims:
    """The claims on the items of a link; see the text of this module.

    For the loop they are `ClaimsInOrder`: it says which items it is through with, and that decides nothing.

    Attributes:
        whole_runs: As for `ClaimsInOrder`.
        undecided: The deliveries without an outcome by their numbers, the oldest first, with the time when they came.
    """

    asks = True

    __slots__ = ("_claims", "_first", "_made", "_passed", "_taken", "undecided", "whole_runs")

    def __init__(self, claims: ClaimsInOrder) -> None:
        """End these claims as the user decides."""
        self.whole_runs = claims.whole_runs
        self.undecided: dict[int, tuple[Delivery[Any], float]] = {}
        self._claims = CountedClaims(claims)
        self._first = 0
        self._made = 0
        self._passed = 0
        self._taken: dict[int, Hold] = {}  # the claims on undecided items before `_first`

    def delivery_of(self, item: Any, came: float) -> Delivery[Any]:  # noqa: ANN401 - what the user's decoder makes
        """Return the delivery of the next item."""
        number = self._made
        self._made = number + 1
        delivery = Delivery(item, _Claim(self, number))
        self.undecided[number] = delivery, came
        return delivery

    def keep(self) -> None:
        """Keep the item in `on_next`, behind the others."""
        self._claims.claims.keep()

    # the loop calls these

    def announce(self, settle: Callable[[], None]) -> None:
        """Ask for nothing: only at its end matters which items the loop is through with."""

    def done(self, items: int) -> None:
        """Note that the loop is through with so many more items."""
        self._passed += items

    def fail(self, error: BaseException) -> None:
        """Fail the item behind those: the loop ends with it, or it cannot be decoded."""
        number = self._passed
        self._passed += 1
        if number == self._made:
            self._made += 1
            self._take(number).fail(error)
        elif number in self.undecided:
            self.undecided[number][0].fail(error)

    def take(self) -> Hold:
        """Take the claim on the item behind those, as far as the user leaves it: only a failure decides."""
        number = self._passed
        self._passed += 1
        return HoldBeside(self.undecided[number][0])

    def release(self) -> None:
        """Give back the items that the loop is not through with. The others stay with the user."""
        for number in range(self._passed, self._made):
            self.undecided[number][0].release()
        self._take_before(self._passed)
        self._claims.release()

    # deliveries call these

    def accept(self, number: int) -> None:
        """Accept an item."""
        del self.undecided[number]
        if number == self._first:
            self._first += 1
            self._claims.done()
        else:
            self._take(number).done()

    def give_back(self, number: int, error: BaseException | None) -> None:
        """Give an item back: as failed with an error, or untouched."""
        del self.undecided[number]
        if error is None:
            self._take(number).release()
        else:
            self._take(number).fail(error)

    def _take(self, number: int) -> Hold:
        """Take the claim on an item that has no outcome."""
        self._take_before(number + 1)
        return self._taken.pop(number)

    def _take_before(self, end: int) -> None:
        for number in range(self._first, end):
            self._taken[number] = self._claims.take()
        self._first = max(self._first, end)


class _Claim:
    """The hold of a delivery."""

    __slots__ = ("_claims", "_number")

    def __init__(self, claims: ManualClaims, number: int) -> None:
        self._claims = claims
        self._number = number

    def done(self) -> None:
        self._claims.accept(self._number)

    def fail(self, error: BaseException) -> None:
        self._claims.give_back(self._number, error)

    def release(self) -> None:
        self._claims.give_back(self._number, None)


class HoldBeside:
    """The hold of a stage on an item that the user settles; the user makes room, even if the hold is loose."""

    __slots__ = ("_delivery",)

    def __init__(self, delivery: Delivery[Any]) -> None:
        """Leave `delivery` to the user, unless it fails or is given back."""
        self._delivery = delivery

    @property
    def gone(self) -> bool:
        """Whether the user has decided."""
        return self._delivery.settled

    def loosen(self) -> None:
        """Leave it to the user."""

    def done(self) -> None:
        """Leave it to the user."""

    def fail(self, error: BaseException) -> None:
        """Fail the delivery."""
        self._delivery.fail(error)

    def release(self) -> None:
        """Give the delivery back."""
        self._delivery.release()


def longest(item: object, came: float) -> str:
    """Say that an item has waited longest for its outcome, as the end of a sentence."""
    return f", longest of {item!r:.80}: for {trio.current_time() - came:.3g} s"
