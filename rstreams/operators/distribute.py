"""distribute: each item to the subscriber with the most demand."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from rstreams._checks.numbers import require_count
from rstreams._core.claims import Claims, claims_on
from rstreams._core.demand import UNBOUNDED, take_demand
from rstreams._stages.enough_subscribers import BegunByEnough
from rstreams._stages.router import RoutedMember, Routing
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def distribute(source: Publisher[T], *, subscribers: int = 1, window: int = 256) -> Publisher[T]:
    """Give each item of `source` to one subscriber: the one with the most demand.

        --1--2--3--4--5--|
         distribute(subscribers=2)
        --1-----3-----5--|
        -----2-----4-----|

    This is GenStage's DemandDispatcher under another name. Among subscribers with equal demand, the one that has waited
    longest gets the item. Subscribers that are equally fast take turns, and a slow one gets fewer items. The source
    runs once: a subscriber that comes after its end gets only that end, no items. Therefore `repeat` behind it adds
    nothing, and `retry` meets the same error again: put these before it. The source is cancelled only if all
    subscribers leave before the end. The next subscribers then begin a new run.

    Args:
        source: The publisher of the items.
        subscribers: The number of subscribers at which the source is subscribed to; at least 1. More may come later.
        window: The most items requested of the source and not yet given to a subscriber; at least 1.

    Demand: The sum of the subscribers' demand, at most `window` items at a time. Items requested for a subscriber that
        cancels go to the others, without another request to the source. If no subscriber wants them, they wait, up to
        `window`, for the next request.
    Holds: An item belongs to the subscriber that got it. Items that wait are held, and given back (released) when all
        subscribers have left.
    Errors: `ConfigError` at the call if an option is less than 1. The end of the source, completion or error, comes
        after the items that wait. If the `on_next` of a subscriber raises, that subscriber counts as cancelled and its
        item as failed. While there are other subscribers, the exception is logged.
    Cancels: The source, when the last subscriber has cancelled.
    Context: The tasks and timers of the source belong to the run, and to no subscriber's scope: whoever leaves, and
        however, the run goes on for the others. It ends with the last subscriber, whose scope waits for its tasks.
    Spec: Reactive Streams 1.1, 1.3, 1.11, 2.13; GenStage's DemandDispatcher.

    Example:
        >>> work = Stream.range(4).distribute(subscribers=2)
        >>> await work.map(lambda x: ("a", x)).merge(work.map(lambda x: ("b", x))).to_list()
        [('a', 0), ('b', 1), ('a', 2), ('b', 3)]
    """
    require_count("distribute", "subscribers", subscribers, 1, unit="")
    require_count("distribute", "window", window, 1)
    return distributed(source, subscribers, window)


def distributed(source: Publisher[T], subscribers: int, window: int) -> BegunByEnough[T]:
    """Return the publisher that distributes the items of `source`."""
    return BegunByEnough(source, lambda: _Distributing[T](window), subscribers, again=False)


class _Distributing(Routing[T, RoutedMember[T]]):
    __slots__ = ("_kept",)

    def __init__(self, window: int) -> None:
        super().__init__("distribute", window)
        self._kept: deque[tuple[T, Claims]] = deque()

    def kept_for(self, member: RoutedMember[T]) -> int:  # noqa: ARG002 - a kept item may go to any of them
        return len(self._kept)

    def on_next(self, item: T) -> None:
        if self.over:
            return
        self._outstanding -= 1
        member = None if self._busy or self._kept or self._next_turn is not None else self._keenest()
        if member is None:
            self._kept.append((item, claims_on(self.hold())))
            self.update()
        else:
            self._hand_over(member, item)

    def _keenest(self) -> RoutedMember[T] | None:
        """Return the member with the most demand and move it to the end of the list; None if no member has demand."""
        best = max(self.members, key=_demand, default=None)
        if best is None or not best.limit:
            return None
        self.members.remove(best)
        self.members.append(best)
        return best

    def holding_up(self) -> list[RoutedMember[T]]:
        return self.members

    def _member(self, subscriber: Subscriber[T]) -> RoutedMember[T]:
        return RoutedMember(self, subscriber)

    def _next(self) -> RoutedMember[T] | None:
        return self._keenest() if self._kept else None

    def _serve_item(self, member: RoutedMember[T]) -> None:
        item, hold = self._kept.popleft()
        member.limit = take_demand(member.limit, 1)
        member.emit(item, hold)
        hold.done()

    def _is_through(self, member: RoutedMember[T]) -> bool:  # noqa: ARG002 - a kept item may go to any of them
        return not self._kept

    def _ask(self) -> None:
        kept = len(self._kept)
        demand = min(sum(member.limit for member in self.members), UNBOUNDED)
        self._ask_for(demand, self._window - kept)

    def _let_go(self) -> None:
        kept, self._kept = self._kept, deque()
        for _, hold in kept:
            hold.release()


def _demand(member: RoutedMember[T]) -> int:
    return member.limit
