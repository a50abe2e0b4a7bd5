"""Runs: items that came together.

One contract serves everyone who has many items at a time: a link, a queue, a multicast, a log, a shared stream, Spark.

    the publisher   makes a `Run` of items that were requested, and calls `on_run` of a subscriber that takes runs
                    (`runs_of`). Behind that it calls `end` or `close`. A single item comes by `on_next`
    a stage         passes a run on, and puts its own work between: `then`
    the subscriber  takes the items from `items()`, one after the other. It claims those that it keeps: `keep(n)`; or
                    it keeps all with `put_into`, also those that a stage holds. A hold of the subscription is on the
                    item made last, as it is in `on_next`

When `on_run` returns, an item is in one of three states:

    made, and neither kept nor held   it is done
    kept, or held                     it has an outcome when the claim ends
    not made                          the publisher has it back: the subscriber has ended the subscription

An item may be impossible to make. Then `items()` raises, the item at `at` is used up, and the next step makes the one
behind it. Inside `on_run` nobody catches that. The publisher does: the item fails, and if the stream goes on, the rest
of the run comes with another call of `on_run`.

A run that `waits` may also be kept before its items are made. The subscriber makes them when it wants them. It handles
what a step then raises: it fails the claim on the item, and calls `refuse`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import length_hint
from typing import Any, Final, Generic, Protocol, TypeVar

from rstreams._core.claims import DONE, NO_HOLD, NOTHING, RELEASED, Claims, EachHold, Hold, Settles
from rstreams._core.claims_in_order import ClaimsInOrder

T = TypeVar("T")


class TakesRuns(Protocol):
    """A subscriber that may take many items in one call, which costs it less than a signal for each."""

    @property
    def on_run(self) -> Callable[[Run[Any]], None] | None:
        """The function that takes a run of items that were requested; None: it takes items one by one."""
        ...


def runs_of(subscriber: object) -> Callable[[Run[Any]], None] | None:
    """Return the function of a subscriber that takes runs, or None if it takes items one by one."""
    on_run: Callable[[Run[Any]], None] | None = getattr(subscriber, "on_run", None)
    return on_run


class Run(Generic[T]):
    """Some items that came together, perhaps not made yet, with the claims on them; see the text of this module.

    Args:
        source: Gets their outcomes.
        epoch: Goes to the source with each outcome.
        places: Their places in the source.
        items: Makes one item in each step.
        waiting: Tells `operator.length_hint` how many have not been made; None: `items` does.
        waits: As below.
        refuse: As below; None: each item can be made.
        made: As below.

    Attributes:
        size: How many items came.
        waits: Whether they may be kept before they are made.
        refuse: To be called with what a step raised that was made later, when the claim on the item has failed. Returns
            whether the stream goes on; then another item comes in the place of this one.
        made: What others have made of the items, by the function that made it; None: nobody else has them.
        drops: Whether a stage on the way may drop some of them.
    """

    __slots__ = (
        "_epoch",
        "_holds",
        "_is_due",
        "_items",
        "_keeper",
        "_keeper_at",
        "_kept",
        "_out",
        "_passed",
        "_places",
        "_settles",
        "_shares",
        "_source",
        "_waiting",
        "drops",
        "made",
        "refuse",
        "size",
        "waits",
    )

    def __init__(
        self,
        source: Settles,
        epoch: int,
        places: Sequence[Any],
        items: Iterator[T],
        *,
        waiting: object = None,
        waits: bool = False,
        refuse: Callable[[BaseException], bool] | None = None,
        made: dict[Callable[..., Any], list[Any]] | None = None,
    ) -> None:
        self._settles, self._epoch, self._places = source, epoch, places
        self._source: Iterator[Any] = items
        self._items: Iterator[Any] = items
        self._waiting = items if waiting is None else waiting
        self.size = length_hint(self._waiting)
        self.waits = waits
        self.refuse = _never if refuse is None else refuse
        self.made = made
        self.drops = False
        self._shares = False  # the subscriber keeps items, perhaps those that a stage holds
        self._passed: list[int] = []  # then: the places of the items that came through and are not kept
        self._kept = 0  # the items before this place are kept
        self._out: set[int] = set()  # the places of others that are kept or held
        self._holds: dict[int, Claims] = {}  # the run's own claims on items that are held, by their places
        self._keeper_at = -1  # the place of the item that was kept last by a single signal
        self._keeper: ClaimsInOrder | None = None  # what gets the claim on it
        self._is_due = False  # it gets this claim when the item is not in hand any more

    def __length_hint__(self) -> int:
        """Return how many items have not been made."""
        return length_hint(self._waiting)

    @property
    def at(self) -> int:
        """The place of the item that was made last; -1: none was."""
        return self.size - length_hint(self._waiting) - 1

    @property
    def taken(self) -> int:
        """How many items were made, or kept before that."""
        return max(self._kept, self.at + 1)

    # the subscriber calls these

    def items(self, *, keeps: bool = False) -> Iterator[T]:
        """Return what makes the items, beginning with the first one that is not made; `keeps`: some are to be kept."""
        self._shares = keeps
        return self._noted() if keeps and self.drops else self._items

    def keep(self, n: int) -> Claims:
        """Return the claims on the first `n` items that have come, and are neither kept nor held: they are kept now.

        If fewer items were made there are fewer claims, unless the run `waits`.
        """
        end = self.size if self.waits else self.at + 1
        if not (self._out or self.drops):
            begin, self._kept = self._kept, max(self._kept, min(self._kept + n, end))
            return self._claims_on(begin, self._kept)
        if self.drops and not self._shares:
            msg = "a stage may have dropped items: only those that items(keeps=True) has made can be kept"
            raise RuntimeError(msg)
        kept = [at for at in (self._passed if self.drops else range(self._kept, end)) if at not in self._out][:n]
        self._out.update(kept)
        return Claims(self._settles, self._epoch, [self._places[at] for at in kept])

    def keep_since(self, begin: int, n: int) -> Claims:
        """Return the claims on `n` items, all that came from the place `begin` on, even if stages hold some of them."""
        if begin == self._kept and not (self._out or self.drops):
            self._kept += n
            return self._claims_on(begin, self._kept)
        kept = [at for at in (self._passed if self.drops else range(begin, begin + n)) if at >= begin][:n]
        self._out.update(kept)
        if self._holds.keys().isdisjoint(kept):
            return Claims(self._settles, self._epoch, [self._places[at] for at in kept])
        holds = self._holds
        return Claims(_SHARED, 0, [holds.pop(at) if at in holds else self._claims_on(at, at + 1) for at in kept])

    def put_into(self, kept: list[T] | deque[T], claims: ClaimsInOrder | None) -> None:
        """Make all items, and put them into `kept` and the claims on them into `claims`; None: they need none.

        An exception of a step passes through; the items before it are kept. A step may cancel: then the owner of `kept`
        may clear it meanwhile.
        """
        if claims is None:
            kept.extend(self._items)
            return
        made: list[T] = []
        begin = self.at + 1
        try:
            made.extend(self.items(keeps=True))
        finally:
            kept.extend(made)
            claims.put(self.keep_since(begin, len(made)))

    def _claims_on(self, begin: int, end: int) -> Claims:
        places = self._places
        return Claims(self._settles, self._epoch, places if end - begin == self.size else places[begin:end])

    def _noted(self) -> Iterator[T]:
        for item in self._items:
            self._passed.append(self.at)
            yield item

    # a stage calls this

    def then(self, through: Callable[[Iterator[Any]], Iterator[Any]], *, drops: bool = False) -> Run[Any]:
        """Have the work of a stage done to each item when it is made, by `through`; `drops`: it may drop items."""
        self._items = through(self._items)
        self.drops = self.drops or drops
        self.waits = False  # the stage may end before the items are made
        self.made = None
        return self

    # the subscription calls these

    def hold(self) -> Hold:
        """Take a hold on the item made last."""
        held = self._held()
        return NO_HOLD if held is None else held.hold()

    def keep_last(self, claims: ClaimsInOrder) -> None:
        """Put the claim on the item made last into `claims`, when the subscriber is through with the item."""
        at = self.size - length_hint(self._waiting) - 1  # `at`, without a call for each item
        if self._keeper_at != at:
            self._leave()
            if self._shares or at in self._holds:
                claims.put_hold(self.hold())
            else:
                self._out.add(at)
                self._is_due = True
            self._keeper_at, self._keeper = at, claims
        elif self._keeper is not claims:
            claims.put_hold(self.hold())

    def _held(self) -> Claims | None:
        """Return the claims on the item in hand, which others may share; None if there are none."""
        at = self.at
        held = self._holds.get(at)
        if held is None:
            if not self.in_hand or self._settles is NOTHING:
                return None
            held = self._holds[at] = self._claims_on(at, at + 1)
            if at == self._keeper_at and self._keeper is not None:
                self._is_due = False
                self._keeper.put_hold(held.hold())
            self._out.add(at)
        return held

    @property
    def in_hand(self) -> bool:
        """Whether the item made last is not kept: it may be held, or fail."""
        at = self.at
        return at >= self._kept and (
            at not in self._out or at in self._holds or (self._is_due and at == self._keeper_at)
        )

    def _leave(self) -> None:
        """Give the claim on the item that was kept last to what keeps it, unless it was given as a hold."""
        if self._is_due:
            assert self._keeper is not None, "it has kept the item"
            self._is_due = False
            self._keeper.put_place(self._settles, self._epoch, self._places[self._keeper_at])

    # the publisher calls these

    def fail(self, error: BaseException) -> None:
        """Fail the item made last, unless it is kept."""
        at = self.at
        if self._is_due and at == self._keeper_at:
            self._is_due = False
            self._settles.settle(self._epoch, self._places[at : at + 1], error)
            return
        held = self._held()
        if held is not None:
            del self._holds[at]
            held.end_for_all(error)

    def go_on(self) -> None:
        """Go on behind an item that could not be made: stages do their work anew to those that follow."""
        self._items = self._source
        self.drops = False

    def end(self) -> int:
        """Say that the items are done that were made, and are neither kept nor held; return how many were taken."""
        self._leave()
        holds, self._holds = self._holds, {}
        for held in holds.values():
            held.done()
        taken = max(self._kept, self.size - length_hint(self._waiting))
        if taken > self._kept + len(self._out):  # others are neither kept nor held
            places = self._places
            if self._out:
                places = [places[at] for at in self._undecided(taken)]
            elif taken - self._kept < self.size:
                places = places[self._kept : taken]
            self._settles.settle(self._epoch, places, DONE)
        return taken

    def close(self) -> None:
        """Do as `end`, and give back the items that were not taken."""
        taken = self.end()
        if taken < self.size:
            self._settles.settle(self._epoch, self._places[taken:], RELEASED)

    def _undecided(self, end: int) -> list[int]:
        """Return the places before `end` that are neither kept nor held."""
        return [at for at in range(self._kept, end) if at not in self._out]


_SHARED: Final = EachHold()
"""The source of claims of which some are on items that are also held."""


def _never(error: BaseException) -> bool:
    """Refuse an item that can be made; that does not happen."""
    raise error
