"""Manual settlement directly before a loop.

A loop keeps items until it takes them. An item becomes a delivery shortly before the loop takes it. Until then the link
keeps the claims on the items, in the runs in which they came.

Most programs accept one delivery after the other, in order. This costs little: only the number of accepted deliveries
is counted, and the link asks for it. A delivery needs a claim of its own in two cases: it gets another outcome, or it
gets its outcome before an older delivery. Then all older deliveries get claims of their own, too.

The items are numbered in the order in which they came:

    below `_first`    their claims have ended, or are in `_taken`
    below `_made`     they have become deliveries
    below `_came`     they have come

The loop has claims, too: on the numbers. With these it says which items it has processed. That settles nothing, because
the user does it. But if the loop fails an item or gives it back, the delivery of the item is failed or released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final, TypeVar

import trio

from rstreams._core.claims import DONE, NO_HOLD, NOTHING, RELEASED, Claims, Ending, Settles, end
from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.run import Run, runs_of
from rstreams._stages.stage import Stage
from rstreams.abc import Hold, Subscriber
from rstreams.protocol.delivery import Delivery

T = TypeVar("T")

_BY_USER: Final = 0
_BY_LOOP: Final = 1
"""The epochs of the claims on the numbers of items: those of deliveries, and those of the loop."""


class ManualLoopStage(Stage[T, Delivery[T]], Settles):
    """Hands over each item in a `Delivery` to a subscriber that keeps them for a loop.

    Attributes:
        undecided: The deliveries without an outcome by their numbers, the oldest first, with the time when they came.
    """

    __slots__ = (
        "_announced",
        "_came",
        "_claims",
        "_first",
        "_made",
        "_of_loop",
        "_taken",
        "_to_loop",
        "undecided",
    )

    operator = "deliveries"

    def __init__(self, downstream: Subscriber[Delivery[T]]) -> None:
        """Hand over to `downstream`."""
        super().__init__(downstream)
        self.undecided: dict[int, tuple[Delivery[T], float]] = {}
        self._to_loop = runs_of(downstream)
        self._claims: ClaimsInOrder | None = None  # on the items; None if they need none
        self._of_loop: ClaimsInOrder | None = None  # of the loop, on their numbers
        self._announced: list[Callable[[], None]] = []
        self._came = self._made = self._first = 0
        self._taken: dict[int, Hold] = {}  # the claims on undecided items before `_first`

    def on_next(self, item: T) -> None:
        """Hand over the item."""
        if not self._ended:
            if self._claims is not None:
                self._claims.keep()
            self._hand_over(iter((item,)), 1)

    def on_run(self, run: Run[T]) -> None:
        """Hand over many items, which are made when the loop wants them, if they can wait so long."""
        if self._ended:
            return
        if run.waits:
            kept = run.keep(run.size)
            if self._claims is not None:
                self._claims.put(kept)
            self._hand_over(run.items(), run.size, run)
            return
        came: list[T] = []
        try:
            run.put_into(came, self._claims)
        finally:
            self._hand_over(iter(came), len(came))

    def _hand_over(self, items: Iterator[T], size: int, run: Run[T] | None = None) -> None:
        """Hand over items, perhaps those of `run`; their deliveries are made later, in order."""
        assert self._to_loop is not None, "a loop takes runs"
        announced, self._announced = self._announced, []
        for settle in announced:
            settle()
        begin, self._came = self._came, self._came + size
        source: Settles = NOTHING if self._of_loop is None else self
        deliveries = map(self._delivery_of, items, repeat(trio.current_time()))
        refuse = None if run is None else run.refuse
        places = range(begin, self._came)
        self._to_loop(Run(source, _BY_LOOP, places, deliveries, waiting=run or items, waits=True, refuse=refuse))

    def _delivery_of(self, item: T, came: float) -> Delivery[T]:
        if self._claims is None:
            return Delivery(item, NO_HOLD)
        number = self._made
        self._made = number + 1
        delivery = Delivery(item, Claims(self, _BY_USER, (number,)))
        self.undecided[number] = delivery, came
        return delivery

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:  # noqa: ARG002 - the user makes room
        """Return the claims of the loop on the items."""
        self._claims = gather(self._upstream, loose=False)
        if self._claims is not None:
            self._of_loop = ClaimsInOrder(self.hold, loose=False, keeper=self)
        return self._of_loop

    def oldest(self) -> str:
        """Say which delivery has waited longest for its outcome, as the end of a sentence."""
        for delivery, came in self.undecided.values():
            return longest(delivery.item, came)
        return ""

    # the claims of the loop call these

    def keep(self, claims: ClaimsInOrder) -> None:
        """Do nothing: each item comes in a run, with the claim on its number."""

    def announce(self, settle: Callable[[], None]) -> None:
        """Call `settle` when more items come: before that nobody needs to know which items the loop has processed."""
        self._announced.append(settle)

    def _through_with(self, numbers: Sequence[int], how: Ending) -> None:
        """Hear from the loop what has become of items; only a failure or a release is the outcome of a delivery."""
        if how is DONE:
            return
        for number in numbers:
            if number < self._made:
                if number in self.undecided:
                    end_delivery(self.undecided[number][0], how)
            elif how is RELEASED:  # with all that follow it; the deliveries before it are the user's
                assert self._claims is not None, "the loop has claims on them"
                self._take_before(self._made)
                self._claims.release()
                return
            else:
                self._made += 1  # no delivery could be made of it
                end(self._take(number), how)

    # as the source of the claims of deliveries

    def settle(self, epoch: int, places: Sequence[int], how: Ending) -> None:
        """End the claim on an item as the user decides; or hear what the loop says."""
        if epoch == _BY_LOOP:
            self._through_with(places, how)
            return
        assert self._claims is not None, "otherwise there is nothing to decide"
        (number,) = places
        del self.undecided[number]
        if number == self._first and how is DONE:
            self._first += 1
            self._claims.done(1)
        else:
            end(self._take(number), how)

    def _take(self, number: int) -> Hold:
        """Take the claim on an item that has no outcome."""
        self._take_before(number + 1)
        return self._taken.pop(number)

    def _take_before(self, behind: int) -> None:
        assert self._claims is not None, "otherwise there is nothing to decide"
        for number in range(self._first, behind):
            self._taken[number] = self._claims.take()
        self._first = max(self._first, behind)


class _LeftToUser(Settles):
    """The source of the claims of stages on deliveries that the user settles: a stage only fails or releases them."""

    __slots__ = ()

    def settle(self, epoch: int, places: Sequence[Delivery[Any]], how: Ending) -> None:  # noqa: ARG002 - likewise
        """Leave the deliveries to the user, unless they have failed or are given back."""
        for delivery in places:
            end_delivery(delivery, how)

    def has_taken(self, places: Sequence[Delivery[Any]]) -> bool:
        """Return whether the user has decided."""
        return all(delivery.settled for delivery in places)


LEFT_TO_USER: Final = _LeftToUser()


def claims_beside(delivery: Delivery[Any]) -> Claims:
    """Return the claim of a stage on a delivery that the user settles; even if it is loose, the user makes room."""
    return Claims(LEFT_TO_USER, 0, (delivery,))


def end_delivery(delivery: Delivery[Any], how: Ending) -> None:
    """Fail a delivery or give it back; leave it to the user if it is done."""
    if isinstance(how, BaseException):
        delivery.fail(how)
    elif how is RELEASED:
        delivery.release()


def longest(item: object, came: float) -> str:
    """Say that an item has waited longest for its outcome, as the end of a sentence."""
    return f", longest of {item!r:.80}: for {trio.current_time() - came:.3g} s"
