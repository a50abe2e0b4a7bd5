"""Manual settlement: items that come in a `Delivery`, whose outcome the user decides.

The pipeline settles an item in two cases. A stage that fails at the item fails the delivery. A stage that gives the
item back releases the delivery; a loop that is left before the item's turn is such a stage. A stage that is through
with the item does not settle it: the user does.

Directly before a loop, deliveries cost less: see `manual_loop`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import trio

from rstreams._core.claims import Claims, Ending, Settles, end
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._core.run import Run, runs_of
from rstreams._stages.stage import Stage
from rstreams.abc import Hold, Subscriber
from rstreams.net.links.manual_loop import LEFT_TO_USER, ManualLoopStage, claims_beside, longest
from rstreams.protocol.delivery import Delivery

T = TypeVar("T")


def manual_stage(downstream: Subscriber[Delivery[T]]) -> ManualStage[T] | ManualLoopStage[T]:
    """Return the stage that hands over each item to `downstream` in a `Delivery`."""
    return ManualLoopStage(downstream) if getattr(downstream, "makes_later", False) else ManualStage(downstream)


class ManualStage(Stage[T, Delivery[T]], Settles):
    """Hands over each item in a `Delivery`."""

    __slots__ = ("_handing", "_in_hand", "_number")

    operator = "deliveries"

    def __init__(self, downstream: Subscriber[Delivery[T]]) -> None:
        """Hand over to `downstream`."""
        super().__init__(downstream)
        self._handing: Delivery[T] | None = None
        self._number = 0
        self._in_hand: dict[int, tuple[T, float]] = {}  # items that are not settled, and since when they are in hand

    def on_next(self, item: T) -> None:
        """Hand over the item; it is settled by its `Delivery`."""
        if self._ended:
            return
        try:
            self._downstream.on_next(self._delivery_of(item, trio.current_time()))
        except BaseException as error:
            self._fail_handed(error)
            raise
        finally:
            self._handing = None

    @property
    def on_run(self) -> Callable[[Run[T]], None] | None:
        """The function that takes a run, see `rstreams._core.run`; None if the subscriber takes none."""
        return None if runs_of(self._downstream) is None else self._take_run

    def _take_run(self, run: Run[T]) -> None:
        pass_on = runs_of(self._downstream)
        assert pass_on is not None, "asked for before"
        deliveries: list[Delivery[T]] = []
        try:
            pass_on(Run(LEFT_TO_USER, 0, deliveries, self._deliveries_of(run.items(), deliveries), waiting=run))
        except BaseException as error:
            self._fail_handed(error)
            raise
        finally:
            self._handing = None

    def _deliveries_of(self, items: Iterator[T], made: list[Delivery[T]]) -> Iterator[Delivery[T]]:
        now = trio.current_time()
        for item in items:
            delivery = self._delivery_of(item, now)
            made.append(delivery)
            yield delivery
            self._handing = None  # the subscriber is through with it: the next item may raise, if it cannot be decoded
            if self._ended:
                return

    def _delivery_of(self, item: T, now: float) -> Delivery[T]:
        number = self._number = self._number + 1
        self._in_hand[number] = item, now
        self._handing = Delivery(item, Claims(self, 0, ((number, self._upstream.hold()),)))
        return self._handing

    def _fail_handed(self, error: BaseException) -> None:
        """Fail the delivery at which the subscriber has raised: that counts as a cancel (2.13)."""
        if self._handing is not None:
            self._ended = True
            self._handing.fail(error)

    def hold(self) -> Hold:
        """Take a hold on the delivery: it can fail or release the delivery, and leaves accepting to the user."""
        return self._upstream.hold() if self._handing is None else claims_beside(self._handing)

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:
        """Return claims on the items: a hold on each."""
        return ClaimsInOrder(self.hold, loose=loose)

    def settle(self, epoch: int, places: Sequence[tuple[int, Hold]], how: Ending) -> None:  # noqa: ARG002 - see `Settles`
        """End the holds on items as the user decides."""
        for number, hold in places:
            del self._in_hand[number]
            end(hold, how)

    def oldest(self) -> str:
        """Say which delivery has waited longest for its outcome, as the end of a sentence."""
        for item, since in self._in_hand.values():
            return longest(item, since)
        return ""
