"""Every item to every subscriber: shared by publish, replay, cache, broadcast and the push sources.

Theory of operation. `_head` counts the items of the run. A member's `limit` is the number of the last item that it
wants. While all members have all items and want more, an item goes straight to them (`on_next`), in one loop over their
`on_next` methods. This is the hot path, and it goes on until `_stop`. Any other item is kept in a list (`item_list`),
and each member goes along the list at its own pace: `at` is its next item; None is the end of the list.

An item on its way straight through is held by asking the source. An item in the list has a claim, which ends when every
member that was there has passed the item.

The source is asked for the highest demand of all members, but for at most `window` items that the slowest one does not
have yet. In the end the slowest member decides, and at most `window` items are kept besides the history. Without
members nothing is asked, and items that were asked for before wait for the next member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import length_hint
from typing import Any, TypeVar

from rstreams._core.claims import NOTHING, claims_on
from rstreams._core.demand import UNBOUNDED, add_demand
from rstreams._core.run import Run, runs_of
from rstreams._core.sight import Counts
from rstreams._core.subscription import ENDED
from rstreams._stages.drawing import Drawing, drawing_from
from rstreams._stages.item_list import ItemList, ListedItem
from rstreams._stages.member import Member
from rstreams._stages.run_of_source import Phase
from rstreams._stages.shared_run import Sharing
from rstreams.abc import Subscriber, Subscription

T = TypeVar("T")


class Reader(Member[T]):
    """A member that goes along the list.

    Attributes:
        at: The kept item that it gets next; None if it has got all items.
        begin: Where it began, in the count of the run.
    """

    __slots__ = ("_log", "at", "begin")

    def __init__(self, run: Log[T], subscriber: Subscriber[T]) -> None:
        super().__init__(run, subscriber)
        self._log = run
        self.at: ListedItem[T] | None = None
        self.begin = 0

    @property
    def position(self) -> int:
        """The number of the item that it gets next."""
        return self._log.head if self.at is None else self.at.index

    @property
    def wants(self) -> bool:
        return self.limit > self.position

    def counts(self) -> Counts:
        """Return the numbers of items requested, sent and kept for this subscriber."""
        position = self.position
        requested = UNBOUNDED if self.limit == UNBOUNDED else self.limit - self.begin
        return Counts(requested, position - self.begin, self._log.head - position)


def _ignore(_item: object) -> None:
    """Replace a subscriber that has left."""


class Log(Sharing[T, Reader[T]]):
    """One run of a source whose items all go to every member; see the text of this module.

    Attributes:
        head: The number of items that have come.
    """

    __slots__ = (
        "_asked",
        "_drawing",
        "_error_waits",
        "_history",
        "_items",
        "_receivers",
        "_refill",
        "_run_receivers",
        "_stop",
        "_together",
        "_told",
        "_waits",
        "_window",
        "head",
    )

    def __init__(
        self,
        label: str,
        window: int,
        history: int = 0,
        *,
        together: bool = False,
        waits: bool = True,
        error_waits: bool = False,
    ) -> None:
        """Start without members.

        Args:
            label: The operator's name.
            window: The most items that are kept because some member has not got them.
            history: The number of items kept for later subscribers.
            together: Whether an item is requested only when all members want it; else as soon as one does.
            waits: Whether items that come while there are no members wait for the next member.
            error_waits: Whether an error waits also for the items of members that have never requested one, as it does
                with a history.
        """
        super().__init__(label)
        self._window = window
        self._history = history
        self._together = together
        self._waits = waits
        self._error_waits = error_waits or history > 0
        self.head = 0
        self._stop = 0
        self._asked = 0
        self._refill = UNBOUNDED  # the number up to which the source is not asked for more
        self._receivers: list[Callable[[T], object]] = []
        self._run_receivers: list[Callable[[Run[T]], None]] = []  # of all members, or none
        self._drawing: Drawing[T] | None = None  # if items are drawn for such members
        self._told: list[Reader[T]] = []  # the members whose `on_next` methods are in `_receivers`
        self._items = ItemList[T](history)

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._upstream is ENDED and not self._history and self.members:
            takes_runs = all(runs_of(member.subscriber) for member in self.members)
            self._drawing = drawing_from(subscription, self._take_run) if takes_runs else None
        super().on_subscribe(subscription)

    def _ended(self, error: BaseException | None) -> None:
        if error is not None and self._calling:
            self._error_waits = True  # one member's request has led to this, and the others had no time for theirs
        if self._drawing is None:
            super()._ended(error)
        else:
            self._drawing.end(partial(super()._ended, error))

    def _take_run(self, items: list[T]) -> None:
        """Pass on items that have been drawn: in runs while they can go straight to all, else one by one."""
        at = 0
        while at < len(items) and self.phase is not Phase.STOPPED:
            count = self._stop - self.head
            if count <= 0 or self._busy or not self._run_receivers:
                self.on_next(items[at])
                at += 1
                continue
            run = items[at : at + count]
            at += len(run)
            self.head += len(run)
            made: dict[Callable[..., Any], list[Any]] = {}
            self._busy = True
            try:
                for i, receive in enumerate(self._run_receivers):
                    try:
                        receive(Run(NOTHING, 0, range(len(run)), iter(run), made=made))
                    except BaseException as error:
                        self.refuse(self._told[i], error)
            finally:
                self._busy = False
            if self._due or self.head == self._stop:
                self.update()

    def on_next(self, item: T) -> None:
        head = self.head
        if head >= self._stop or self._busy:
            self._receive(item)
            return
        self.head = head = head + 1
        if self._history:
            self._items.remember(item, head - 1)
        self._busy = True
        receivers = iter(self._receivers)
        try:
            for receive in receivers:
                receive(item)
        except BaseException as error:
            self._refused(item, receivers, error)
        finally:
            self._busy = False
        if self._due or head == self._stop:
            self.update()

    def _refused(self, item: T, receivers: Iterator[Callable[[T], object]], error: BaseException) -> None:
        self.hold().fail(error)
        self.refuse(self._told[len(self._told) - length_hint(receivers) - 1], error)
        try:
            for receive in receivers:
                receive(item)
        except BaseException as other:
            self._refused(item, receivers, other)

    def _receive(self, item: T) -> None:
        """Keep an item that cannot go straight to all members."""
        if self.over:
            return
        kept = self._items.add(item, self.head, claims_on(self.hold()))
        self.head += 1
        for member in self.members:
            if member.at is None:
                member.at = kept
        self._forget()
        self.update()

    def _forget(self) -> None:
        """Release history beyond its limit; without members, items that nobody has got wait for the next one."""
        self._items.trim(self.head, spares_unread=self._waits and not self.members)

    # members

    def _member(self, subscriber: Subscriber[T]) -> Reader[T]:
        return Reader(self, subscriber)

    def _place(self, member: Reader[T]) -> None:
        self._forget()
        member.at = self._items.first
        member.begin = member.position
        member.limit = add_demand(member.begin, member.limit)

    def _left(self, member: Reader[T]) -> None:
        if member in self._told:  # it may be about to get the item that is being passed on
            told = self._told.index(member)
            self._receivers[told] = _ignore
            if self._run_receivers:
                self._run_receivers[told] = _ignore
        self._forget()
        self._items.settle_before(self._slowest())
        at, first = member.at, self._items.first
        if self._waits and len(self.members) == 1 and at is not None and (first is None or at.index < first.index):
            self._items.first = at  # the items it has not got wait for the next member

    # which member waits for which

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The number of subscribers, of items kept for the slowest, and the limit for these."""
        return len(self.members), self.head - self._slowest() if self.members else self.head, self._window

    @property
    def blocked(self) -> bool:
        """Tell whether a member wants more, and another one prevents a request."""
        if self._asked != self.head or len(self.members) < 2:
            return False
        return any(member.wants for member in self.members) and bool(self.holding_up()) and self._upstream is not ENDED

    def holding_up(self) -> list[Reader[T]]:
        return [member for member in self.members if member.limit <= self.head]

    @property
    def others_may_come(self) -> bool:
        return super().others_may_come and not self._together  # where the slowest decides, others change nothing

    # serving them

    def _next(self) -> Reader[T] | None:
        next_one, next_index = None, self.head
        for member in self.members:
            at = member.at
            if at is not None and at.index < member.limit and at.index < next_index:
                next_one, next_index = member, at.index
        return next_one

    def _serve_item(self, member: Reader[T]) -> None:
        kept = member.at
        if kept is not None:
            member.at = self._items.after(kept)
            member.emit(kept.item, kept.hold)

    def _serve(self) -> bool:
        self._stop = 0
        return super()._serve()

    def _is_through(self, member: Reader[T]) -> bool:
        if member.at is None:
            return True
        # 1.4: all subscribers get an error; one that has asked for nothing loses no item by that
        return self.kept_error is not None and not (member.requested or self._error_waits)

    def _end(self, member: Reader[T]) -> None:
        unread = member.at is not None
        super()._end(member)
        if unread and not self.members:
            self._let_go()

    def _settle(self) -> None:
        """Release the items that all have passed, and find the members that items can go straight to."""
        self._items.settle_before(self._slowest())
        if self._told != self.members:
            self._told = list(self.members)
            self._receivers = [member.subscriber.on_next for member in self._told]
            takers = [runs_of(member.subscriber) for member in self._told]
            self._run_receivers = [take for take in takers if take is not None]
            if len(self._run_receivers) < len(takers):
                self._run_receivers = []

    def _slowest(self) -> int:
        """Return the number of the next item of the member that is behind all others."""
        slowest = self.head if self.members or not self._waits else 0
        for member in self.members:
            at = member.at
            if at is not None and at.index < slowest:
                slowest = at.index
        return slowest

    def _let_go(self) -> None:
        if self._drawing is not None:
            self._drawing.stop()
        self._stop = 0
        self._items.let_go()
        for member in self.members:
            member.at = None

    # demand

    def _ask(self) -> None:
        self._stop = 0
        if not self.members or (self._upstream is ENDED and self.over):
            return
        limits = [member.limit for member in self.members]
        least = min(limits)
        n = self._lacking(least if self._together else max(limits))
        if all(member.at is None for member in self.members):
            self._stop = min(least, self._refill)
        if n:
            before, self._calling = self._calling, True  # as `_call`, without its cost
            try:
                (self._upstream if self._drawing is None else self._drawing).request(n)
            finally:
                self._calling = before

    def _lacking(self, limit: int) -> int:
        """Return how much to request now, to reach `limit` if the window allows, and note it."""
        if self._upstream is ENDED:
            return 0
        goal = min(limit, self._window + self._slowest())
        n = goal - self._asked
        if n <= 0 or (goal < limit and 2 * n < self._window and self._asked > self.head):
            n = 0
        else:
            self._asked = goal
        self._refill = self._asked if self._asked >= limit else self._asked - self._window // 2
        return n if goal < UNBOUNDED else min(n, 1) * UNBOUNDED
