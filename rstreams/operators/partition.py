"""partition: each item to the part that its key belongs to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from rstreams._checks.functions import require_plain
from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_subscriber
from rstreams._core.claims import Claims, claims_on
from rstreams._core.demand import UNBOUNDED, take_demand
from rstreams._core.subscription import subscribe_failed
from rstreams._stages.router import RoutedMember, Routing
from rstreams._stages.stage import Joined
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import RStreamsError

T = TypeVar("T")


def partition(
    source: Publisher[T], key: Callable[[T], Hashable], partitions: int, *, window: int = 256
) -> tuple[Publisher[T], ...]:
    """Split `source` into `partitions` streams by key: items with equal keys are in the same one, in their order.

        --1--2--3--4--5--|
         partition(is_even, 2)
        --1-----3-----5--|
        -----2-----4-----|

    The source runs once. It begins when each partition has its subscriber: read them side by side, as with `merge` or
    `zip`. With `p0.concat(p1)` the first one waits for somebody else to read the second. A partition takes one
    subscriber: a second one, such as `repeat` or `retry` behind it, gets an `RStreamsError`. Put these before it. An
    item is in partition `hash(key(item)) % partitions`; note that the hash of a string differs from process to process.

    Args:
        source: The publisher of the items.
        key: Called once for each item, in the task that delivers it; it must not block. Its result must be hashable.
        partitions: The number of streams; at least 1.
        window: The most items for one partition, kept and requested together; at least 1.

    Demand: The sum of the partitions' demand. An item for a partition without demand is kept. A slow partition does not
        hold up the others until `window` items are kept for it. Then no more items are requested until it takes some.
        It may never take one, because it is joined with another partition that waits for later items. Then the stream
        ends with `DemandDeadlock`, if it runs in a scope, as every terminal does.
    Holds: Kept items are held, and given back (released) when all partitions are cancelled.
    Errors: `ConfigError` at the call if `partitions` or `window` is less than 1. An exception that `key` raises, or a
        `TypeError` for a key that cannot be hashed, ends all partitions unchanged; the item counts as failed. It comes
        after the kept items, and so does an error of the source. A second subscriber of a partition gets an
        `RStreamsError`. If the `on_next` of a subscriber raises, that subscriber counts as cancelled and its item as
        failed. While there are other subscribers, the exception is logged.
    Cancels: The source, when all partitions have been cancelled. The items of a partition that was cancelled alone are
        dropped.
    Context: The tasks and timers of the source belong to the run, and to no subscriber's scope: whoever leaves, and
        however, the run goes on for the others. It ends with the last subscriber, whose scope waits for its tasks.
    Spec: Reactive Streams 1.1, 1.3, 2.13; GenStage's PartitionDispatcher.

    Example:
        >>> even, odd = Stream.range(6).partition(lambda x: x % 2, 2)
        >>> await even.zip(odd).to_list()
        [(0, 1), (2, 3), (4, 5)]
    """
    require_plain("partition", "key", key)
    require_count("partition", "partitions", partitions, 1, unit="")
    require_count("partition", "window", window, 1)
    run = _Partitioning(key, partitions, window)
    return tuple(Joined(run.door(source, number)) for number in range(partitions))


class _Part(RoutedMember[T]):
    __slots__ = ("kept",)

    def __init__(self, run: _Partitioning[T], subscriber: Subscriber[T]) -> None:
        super().__init__(run, subscriber)
        self.kept: deque[tuple[T, Claims]] = deque()


class _Partitioning(Routing[T, _Part[T]]):
    __slots__ = ("_key", "_parts")

    def __init__(self, key: Callable[[T], Hashable], partitions: int, window: int) -> None:
        super().__init__("partition", window)
        self._key = key
        self._parts: list[_Part[T] | None] = [None] * partitions

    def door(self, source: Publisher[T], number: int) -> Callable[[Subscriber[T]], _Part[T] | None]:
        """Return the function that subscribes to the partition `number`."""

        def subscribe(subscriber: Subscriber[T]) -> _Part[T] | None:
            if self._parts[number] is not None:
                msg = f"partition: stream {number} takes one subscriber, and has had it"
                subscribe_failed(subscriber, RStreamsError(msg))
                return None
            require_subscriber(subscriber)
            self._parts[number] = part = self._member(subscriber)
            self.admit(part)
            if None not in self._parts and self.members:
                self.stops_when_deserted = True
                self.connect(source)
            return part

        return subscribe

    @property
    def waits_for(self) -> str:
        if None in self._parts:
            return f"it waits for a subscriber to stream {self._parts.index(None)} of 0 to {len(self._parts) - 1}"
        return super().waits_for

    def kept_for(self, member: _Part[T]) -> int:
        return len(member.kept)

    def on_next(self, item: T) -> None:
        if self.over:
            return
        self._outstanding -= 1
        try:
            part = self._parts[hash(self._key(item)) % len(self._parts)]
        except Exception as error:
            self.hold().fail(error)
            self._upstream.cancel()
            self.on_error(error)
            return
        if part is None or part.ended:
            self.update()  # its partition was cancelled
        elif self._busy or part.kept or not part.limit or self._next_turn is not None:
            part.kept.append((item, claims_on(self.hold())))
            self.update()
        else:
            self._hand_over(part, item)

    def _member(self, subscriber: Subscriber[T]) -> _Part[T]:
        return _Part(self, subscriber)

    def _left(self, member: _Part[T]) -> None:
        kept, member.kept = member.kept, deque()
        for _, hold in kept:
            hold.release()

    def _next(self) -> _Part[T] | None:
        for part in self.members:
            if part.kept and part.limit:
                return part
        return None

    def _serve_item(self, member: _Part[T]) -> None:
        item, hold = member.kept.popleft()
        member.limit = take_demand(member.limit, 1)
        member.emit(item, hold)
        hold.done()

    def _is_through(self, member: _Part[T]) -> bool:
        return not member.kept

    def _ask(self) -> None:
        demand = min(sum(part.limit for part in self.members), UNBOUNDED)
        fullest = max((len(part.kept) for part in self.members), default=0)
        self._ask_for(demand, self._window - fullest)

    @property
    def blocked(self) -> bool:
        return not self._outstanding and self.rests() and self._is_full() and any(part.limit for part in self.members)

    def _is_full(self) -> bool:
        return any(len(part.kept) >= self._window for part in self.members)

    def holding_up(self) -> Sequence[_Part[T]]:
        if self._outstanding or not self._is_full():
            return self.members
        return [part for part in self.members if len(part.kept) >= self._window]

    def _let_go(self) -> None:
        for part in self.members:
            kept, part.kept = part.kept, deque()
            for _, hold in kept:
                hold.release()
