"""Claims in the order of their items: what a stage or terminal keeps on the items that it has taken.

A stage that makes one result of many items keeps a claim on each, because a result that never reaches its caller was
not processed. It ends all claims together: `done()` when the result has been handled, `release()` when it never will
be. There may be more items than a window holds. The claims are therefore loose (see `claims`), unless the user wants to
keep all items.

A consumer whose items wait is through with them one after the other: `done(n)` ends the claims on the oldest items. To
tell a link of each item would cost more than the item. The claims therefore say once that some are done, and the link
asks how many when it has its turn. The link has no turn while the consumer does not wait, so its peer hears of each
item as early as it would by a call for each.

`keep` takes the claim on the item in `on_next`; `put` takes those of a run (`run`). A link puts the place of a single
item there itself. Any other subscription is asked for a hold on it. A source whose items need no acknowledgement
answers `gather` with None: then nothing is kept, and an item costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from rstreams._core.claims import (
    DONE,
    EACH_HOLD,
    NO_HOLD,
    NOTHING,
    RELEASED,
    Claims,
    Ending,
    Hold,
    Settles,
    is_gone,
    loosen,
    no_claims,
)

_FEW = 64
"""The number of places at which holds are first removed whose items the source has settled."""


class KeepsPlaces(Protocol):
    """What puts the places of its items into claims itself, such as a link, and asks for those that are done."""

    def keep(self, claims: ClaimsInOrder) -> None:
        """Put the place of the item in `on_next` into `claims`, when `on_next` returns."""
        ...

    def announce(self, settle: Callable[[], None]) -> None:
        """Call `settle` once, when the peer is about to be told which items are done."""
        ...


class HasHolds(Protocol):
    """A subscription, as far as claims know it."""

    def hold(self) -> Hold:
        """Take a hold on the item in `on_next`."""
        ...


class Gatherable(Protocol):
    """A subscription that can keep claims on its items for a stage that gathers them."""

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:
        """Return the claims, empty at first; None if no item of this subscription needs any.

        To be called in `on_subscribe`, or later.
        """
        ...


def gather(subscription: HasHolds, *, loose: bool) -> ClaimsInOrder | None:
    """Return an object that keeps the claims on the items of `subscription`; None if no item needs any."""
    keep: Callable[..., ClaimsInOrder | None] | None = getattr(subscription, "gather", None)  # as `Gatherable` says
    return ClaimsInOrder(subscription.hold, loose=loose) if keep is None else keep(loose=loose)


class ClaimsInOrder:
    """The claims on items that came one after the other; it is one hold on all of them.

    Args:
        hold: Takes a hold on the item in `on_next`.
        loose: Whether the source may settle the oldest as done when there is no room for further ones.
        keeper: Puts the places into these claims; None: a hold is taken on each item.

    Attributes:
        asks: Whether the source asks how many items are done; see `announce`.
        loose: As above.
    """

    __slots__ = (
        "_announced",
        "_claims",
        "_done",
        "_ended",
        "_hold",
        "_keeper",
        "_last",
        "_prune_at",
        "loose",
    )

    def __init__(self, hold: Callable[[], Hold], *, loose: bool, keeper: KeepsPlaces | None = None) -> None:
        self.loose = loose
        self._hold = hold
        self._keeper = keeper
        self._claims: deque[Claims] = deque()  # the oldest first
        self._last: list[Any] = []  # the places of the last claims, if single items are put there
        self._done = 0  # of the oldest claims; they have not been ended
        self._announced = False  # the source asks for these
        self._ended: Ending | None = None  # how all claims end, also those on items that come later
        self._prune_at = _FEW

    def __len__(self) -> int:
        """Return on how many items there are claims."""
        return sum(len(claims) for claims in self._claims if claims.source is not NOTHING) - self._done

    @property
    def asks(self) -> bool:
        """Whether the source asks how many items are done."""
        return self._keeper is not None

    # called by the stage that keeps items

    def keep(self) -> None:
        """Keep the item in `on_next`, behind the others; a keeper ignores a second call for the same item."""
        if self._keeper is not None:
            self._keeper.keep(self)
        else:
            self.put_hold(self._hold())

    def announce(self, settle: Callable[[], None]) -> None:
        """Have the source call `settle` once, when it is about to tell its peer which items are done."""
        if self._keeper is None:
            settle()
        else:
            self._keeper.announce(settle)

    def done(self, n: int | None = None) -> None:
        """Say that the `n` oldest items have been processed; without `n` all, also those that are put in later."""
        if n is None:
            self._end(DONE)
            return
        self._done += n
        if not self._announced:
            self._announced = True
            self.announce(self._end_done)

    def fail(self, error: BaseException) -> None:
        """Say that processing the items failed."""
        self._end(error)

    def release(self) -> None:
        """Give all items back unprocessed, also those that are put in later."""
        self._end(RELEASED)

    def take(self) -> Claims:
        """Take the claim on the oldest item; the caller ends it."""
        self._end_oldest()
        kept = self._claims
        while not len(kept[0]):
            kept.popleft()
        return kept[0].cut(1)

    def loosen(self) -> None:
        """Allow the source to settle items as done when it needs the room."""
        self.loose = True
        for claims in self._claims:
            claims.loosen()

    @property
    def gone(self) -> bool:
        """Whether the source has settled all of the items itself."""
        return all(claims.gone for claims in self._claims)

    def put(self, claims: Claims) -> None:
        """Keep the claims on items that came together, behind the others."""
        if self._ended is not None:  # it has ended while these were in hand
            claims.end(self._ended)
            return
        kept = self._claims
        while kept and not len(kept[0]):  # the source has settled these
            kept.popleft()
        kept.append(claims)
        if self.loose and claims.source is not EACH_HOLD:  # holds become loose as they come
            claims.loosen()

    # the source calls these

    def put_place(self, source: Settles, epoch: int, place: Any) -> None:  # noqa: ANN401 - what the source calls it
        """Keep the claim on one item, behind the others."""
        last = self._claims[-1] if self._claims else NO_HOLD
        if last.source is source and last.epoch == epoch and last.grow(self._last, place):
            return
        self._last = [place]
        self.put(Claims(source, epoch, self._last))

    def put_hold(self, hold: Hold) -> None:
        """Keep a hold on one item, behind the others."""
        if hold is NO_HOLD:
            self.put_settled(1)
            return
        if self.loose:
            loosen(hold)
            if len(self) >= self._prune_at:
                self._prune()
        self.put_place(EACH_HOLD, 0, hold)

    def put_settled(self, n: int) -> None:
        """Keep the places of items that need no outcome, behind the others."""
        last = self._claims[-1] if self._claims else NO_HOLD
        if last.source is NOTHING and len(last):
            n += len(last)
            self._claims.pop()
        self.put(no_claims(n))

    def _end(self, how: Ending) -> None:
        self._end_oldest()
        self._ended = how
        ended, self._claims = self._claims, deque()
        for claims in ended:
            claims.end(how)

    def _end_done(self) -> None:
        self._announced = False
        self._end_oldest()

    def _end_oldest(self) -> None:
        """End the claims on the items that are done; the source may call this object meanwhile."""
        while self._done:
            oldest = self._claims[0]
            size = len(oldest)
            n = min(self._done, size)
            if n == size:
                self._claims.popleft()
            self._done -= n
            oldest.end_some(n, DONE)

    def _prune(self) -> None:
        """Remove the holds whose items the source has settled."""
        kept, self._claims = self._claims, deque()
        for claims in kept:
            if claims.source is not EACH_HOLD:
                self._claims.append(claims)
                continue
            for hold in claims.places:
                if is_gone(hold):
                    hold.done()
                else:
                    self.put_place(EACH_HOLD, 0, hold)
        self._prune_at = max(_FEW, 2 * len(self))
