"""Every item to every subscriber: shared by publish, replay, cache, broadcast and the push sources.

Theory of operation. `_head` counts the items of the run. A member's `limit` is the number of the last item that it
wants. While all members have all items and want more, an item goes straight to them (`on_next`), in one loop over their
`on_next` methods. This is the hot path, and it goes on until `_stop`. Any other item is kept in a linked list, and each
member goes along the list at its own pace: `at` is its next item; None is the end of the list. An item that all members
have passed is freed with the link to it. The last `history` items stay, for later subscribers.

An item on its way straight through is held by asking the source. An item in the list has a claim. The claim ends when
every member that was there has passed the item. An item that is only history is not held.

The source is asked for the highest demand of all members, but for at most `window` items that the slowest one does not
have yet. In the end the slowest member decides, and at most `window` items are kept besides the history. Without
members nothing is asked, and items that were asked for before wait for the next member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import length_hint
from typing import Any, Generic, TypeVar

from rstreams._core.claims import NO_HOLD, NOTHING, Claims, claims_on
from rstreams._core.demand import UNBOUNDED, add_demand
from rstreams._core.run import Run, runs_of
from rstreams._core.sight import Counts
from rstreams._core.subscription import ENDED
from rstreams._stages.drawing import Drawing, drawing_from
from rstreams._stages.member import Member
from rstreams._stages.shared_run import Sharing
from rstreams.abc import Publisher, Subscriber, Subscription

T = TypeVar("T")


class _Kept(Generic[T]):
    """An item of the list; the last one is empty until it becomes the next item."""

    __slots__ = ("hold", "index", "item", "next")

    item: T
    index: int
    hold: Claims
    next: _Kept[T]


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
        self.at: _Kept[T] | None = None
        self.begin = 0

    def counts(self) -> Counts:
        """Return the numbers of items requested, sent and kept for this subscriber."""
        return self._log.counts_of(self)


def _ignore(_item: object) -> None:
    """Replace a subscriber that has left."""


class Log(Sharing[T, Reader[T]]):
    """One run of a source whose items all go to every member; see the text of this module."""

    __slots__ = (
        "_asked",
        "_calling",
        "_drawing",
        "_error_waits",
        "_first",
        "_head",
        "_history",
        "_receivers",
        "_refill",
        "_run_receivers",
        "_stop",
        "_tail",
        "_together",
        "_told",
        "_unsettled",
        "_waits",
        "_window",
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
        self._calling = False  # inside a call that subscribes to the source, or requests of it
        self._head = 0
        self._stop = 0
        self._asked = 0
        self._refill = UNBOUNDED  # the number up to which the source is not asked for more
        self._receivers: list[Callable[[T], object]] = []
        self._run_receivers: list[Callable[[Run[T]], None]] = []  # of all members, or none
        self._drawing: Drawing[T] | None = None  # if items are drawn for such members
        self._told: list[Reader[T]] = []  # the members whose `on_next` methods are in `_receivers`
        self._tail = _Kept[T]()
        self._first = self._tail  # where later subscribers start
        self._unsettled = self._tail  # items from here on may be held

    def connect(self, source: Publisher[T]) -> None:
        before, self._calling = self._calling, True
        try:
            super().connect(source)
        finally:
            self._calling = before

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._upstream is ENDED and not self._history and self.members:
            takes_runs = all(runs_of(member.subscriber) for member in self.members)
            self._drawing = drawing_from(subscription, self._take_run) if takes_runs else None
        super().on_subscribe(subscription)

    def on_complete(self) -> None:
        if self._drawing is None:
            super().on_complete()
        else:
            self._drawing.end(super().on_complete)

    def on_error(self, error: BaseException) -> None:
        if self._calling:  # one member's request has led to this, and the others had no time for theirs
            self._error_waits = True
        if self._drawing is None:
            super().on_error(error)
        else:
            self._drawing.end(partial(super().on_error, error))

    def stop(self) -> None:
        if self._drawing is not None:
            self._drawing.stop()
        super().stop()

    def _take_run(self, items: list[T]) -> None:
        """Pass on items that have been drawn: in runs while they can go straight to all, else one by one."""
        at = 0
        while at < len(items) and not self.stopped:
            count = self._stop - self._head
            if count <= 0 or self._busy or not self._run_receivers:
                self.on_next(items[at])
                at += 1
                continue
            run = items[at : at + count]
            at += len(run)
            self._head += len(run)
            self._pass_run(run)
            if self._due or self._head == self._stop:
                self.update()

    def _pass_run(self, items: list[T]) -> None:
        """Pass items straight on to all members."""
        made: dict[Callable[..., Any], list[Any]] = {}
        self._busy = True
        try:
            for i, receive in enumerate(self._run_receivers):
                try:
                    receive(Run(NOTHING, 0, range(len(items)), iter(items), made=made))
                except BaseException as error:
                    self.refuse(self._told[i], error)
        finally:
            self._busy = False

    def on_next(self, item: T) -> None:
        head = self._head
        if head >= self._stop or self._busy:
            self._receive(item)
            return
        self._head = head = head + 1
        if self._history:
            self._remember(item)
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
        if self.stopped or self.finished:
            return
        kept, self._tail = self._tail, _Kept[T]()
        kept.item, kept.index, kept.next, kept.hold = item, self._head, self._tail, claims_on(self.hold())
        self._head += 1
        for member in self.members:
            if member.at is None:
                member.at = kept
        self._forget()
        self.update()

    def _remember(self, item: T) -> None:
        """Keep an item that all members are getting, for later subscribers."""
        kept, self._tail = self._tail, _Kept[T]()
        kept.item, kept.index, kept.next, kept.hold = item, self._head - 1, self._tail, NO_HOLD
        self._unsettled = self._tail
        self._forget()

    def _forget(self) -> None:
        """Release history beyond its limit; items that came while there were no members are not history yet."""
        if self.members or not self._waits:
            while self._first is not self._tail and self._head - self._first.index > self._history:
                self._first = self._first.next

    # members

    def _member(self, subscriber: Subscriber[T]) -> Reader[T]:
        return Reader(self, subscriber)

    def _place(self, member: Reader[T]) -> None:
        self._forget()
        member.at = None if self._first is self._tail else self._first
        member.begin = self._position(member)
        member.limit = add_demand(member.begin, member.limit)

    def _left(self, member: Reader[T]) -> None:
        if member in self._told:  # it may be about to get the item that is being passed on
            at = self._told.index(member)
            self._receivers[at] = _ignore
            if self._run_receivers:
                self._run_receivers[at] = _ignore
        self._forget()
        self._settle_passed()
        if self._waits and len(self.members) == 1 and member.at is not None and member.at.index < self._start():
            self._first = member.at  # the items it has not got wait for the next member

    def _start(self) -> int:
        return self._head if self._first is self._tail else self._first.index

    def _position(self, member: Reader[T]) -> int:
        return self._head if member.at is None else member.at.index

    def counts_of(self, member: Reader[T]) -> Counts:
        """Return the current counts of a member."""
        position = self._position(member)
        requested = UNBOUNDED if member.limit == UNBOUNDED else member.limit - member.begin
        return Counts(requested, position - member.begin, self._head - position)

    # which member waits for which

    @property
    def numbers(self) -> tuple[int, int, int]:
        """The number of subscribers, of items kept for the slowest, and the limit for these."""
        return len(self.members), self._head - min(map(self._position, self.members), default=0), self._window

    @property
    def blocked(self) -> bool:
        """Tell whether a member wants more, and another one prevents a request."""
        if self._asked != self._head or len(self.members) < 2:
            return False
        return any(map(self._wants, self.members)) and bool(self._holding_up()) and self._upstream is not ENDED

    def _holding_up(self) -> list[Reader[T]]:
        return [member for member in self.members if member.limit <= self._head]

    def _wants(self, member: Reader[T]) -> bool:
        return member.limit > self._position(member)

    # serving them

    def _next(self) -> Reader[T] | None:
        next_one, next_index = None, self._head
        for member in self.members:
            at = member.at
            if at is not None and at.index < member.limit and at.index < next_index:
                next_one, next_index = member, at.index
        return next_one

    def _serve_item(self, member: Reader[T]) -> None:
        kept = member.at
        if kept is not None:
            member.at = None if kept.next is self._tail else kept.next
            member.emit(kept.item, kept.hold)

    def _serve(self) -> bool:
        self._stop = 0
        return super()._serve()

    def _is_through(self, member: Reader[T]) -> bool:
        return member.at is None or self._gets_only_the_error(member)

    def _gets_only_the_error(self, member: Reader[T]) -> bool:
        # 1.4: all subscribers get an error; one that has asked for nothing loses no item by that
        return self.error is not None and not (member.requested or self._error_waits)

    def _end(self, member: Reader[T]) -> None:
        unread = member.at is not None
        super()._end(member)
        if unread and not self.members:
            self._let_go()

    def _settle(self) -> None:
        """Release the items that all have passed, and find the members that items can go straight to."""
        self._settle_passed()
        if self._told != self.members:
            self._told = list(self.members)
            self._receivers = [member.subscriber.on_next for member in self._told]
            takers = [runs_of(member.subscriber) for member in self._told]
            self._run_receivers = [take for take in takers if take is not None]
            if len(self._run_receivers) < len(takers):
                self._run_receivers = []

    def _settle_passed(self) -> None:
        passed = min(map(self._position, self.members), default=0 if self._waits else self._head)
        while self._unsettled is not self._tail and self._unsettled.index < passed:
            self._take_claim().done()

    def _take_claim(self) -> Claims:
        kept = self._unsettled
        self._unsettled = kept.next
        hold, kept.hold = kept.hold, NO_HOLD
        return hold

    def _let_go(self) -> None:
        self._stop = 0
        while self._unsettled is not self._tail:
            self._take_claim().release()
        self._first = self._tail
        for member in self.members:
            member.at = None

    # demand

    def _ask(self) -> None:
        self._stop = 0
        if not self.members or self.finished:
            return
        limits = [member.limit for member in self.members]
        least = min(limits)
        n = self._lacking(least if self._together else max(limits))
        if all(member.at is None for member in self.members):
            self._stop = min(least, self._refill)
        if n:
            before, self._calling = self._calling, True
            try:
                (self._upstream if self._drawing is None else self._drawing).request(n)
            finally:
                self._calling = before

    def _lacking(self, limit: int) -> int:
        """Return how much to request now, to reach `limit` if the window allows, and note it."""
        if self._upstream is ENDED:
            return 0
        goal = min(limit, self._window + min(map(self._position, self.members)))
        n = goal - self._asked
        if n <= 0 or (goal < limit and 2 * n < self._window and self._asked > self._head):
            n = 0
        else:
            self._asked = goal
        self._refill = self._asked if self._asked >= limit else self._asked - self._window // 2
        return n if goal < UNBOUNDED else min(n, 1) * UNBOUNDED
