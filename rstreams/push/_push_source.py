"""The base of the push sources: an item is pushed, and the answer says at once whether it was taken.

Theory of operation. A push source is a `Log` without a source: calls of `emit`, `complete` and `fail` take the place of
a source's signals. Therefore an item that is pushed inside some subscriber's `on_next` waits until all have the item
before (1.3), and each subscriber goes at its own pace. `capacity` bounds how far a subscriber may be behind. It is
checked before an item is taken; therefore no item is dropped silently.

`send` waits for room. Senders stand in line. Each change that makes room wakes the first sender, and a sender that
leaves the line wakes the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from rstreams._checks.other_names import no_method
from rstreams._checks.publishers import require_subscriber
from rstreams._core.demand import UNBOUNDED
from rstreams._core.scheduler import bound_scheduler
from rstreams._core.sight import Watched
from rstreams._core.subscription import checked_error
from rstreams._stages.log import Log, Reader
from rstreams._stages.member import require_thread_of
from rstreams.abc import Event, Subscriber
from rstreams.push.emit_result import EmitResult

T = TypeVar("T")

_WAITS = frozenset({EmitResult.OVERFLOW, EmitResult.NO_SUBSCRIBER})
_FINAL = frozenset({EmitResult.TERMINATED, EmitResult.CANCELLED})


class PushLog(Log[T]):
    """The run of a push source.

    Args:
        label: The source's name.
        capacity: How many items a subscriber without demand may be behind.
        history: How many items are kept for later subscribers.
        waits: Whether items wait for a subscriber while there is none.
        on_change: Called when there may be more room than before, or when there will never be room.
    """

    __slots__ = ("_capacity", "_on_change")

    def __init__(self, label: str, capacity: int, history: int, *, waits: bool, on_change: Callable[[], None]) -> None:
        super().__init__(label, UNBOUNDED, history, waits=waits, error_waits=True)
        self._capacity = capacity
        self._on_change = on_change

    @property
    def goes_straight(self) -> bool:
        """Whether the next item goes straight to all subscribers: they have got all items, and have demand."""
        return self.head < self._stop and not self._busy and not self._due  # due: a change has not been handled yet

    def room(self) -> int:
        """Return how many items can be taken now."""
        if self.members:
            return min(map(self._room_of, self.members))
        if not self._waits:
            return UNBOUNDED
        first = self._items.first
        return self._capacity if first is None else self._capacity - (self.head - first.index)

    def _room_of(self, member: Reader[T]) -> int:
        if member.at is not None:
            return self._capacity - (self.head - member.at.index)
        return UNBOUNDED if member.limit == UNBOUNDED else min(member.limit - self.head + self._capacity, UNBOUNDED)

    def _ask(self) -> None:
        super()._ask()
        self._on_change()


class Pushed(Watched, Generic[T]):
    """A publisher of the items that are pushed into it; see the classes that inherit from it."""

    def __init__(self, name: str, capacity: int, history: int, *, waits: bool) -> None:
        super().__init__()
        self._name = name
        self._line: deque[Event] = deque()
        self._telling = False
        self._untold = False
        self._log = PushLog[T](name, capacity, history, waits=waits, on_change=self._changed)
        self.on_demand: Callable[[int], object] | None = None
        """Called with `demand` after a change that can have raised it, unless it is 0; it may emit."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_method(self, name)

    @property
    def demand(self) -> int:
        """How many items can be emitted now before one is answered with OVERFLOW or NO_SUBSCRIBER."""
        return max(self._log.room(), 0) if self._refusal() is None else 0

    @property
    def subscribers(self) -> int:
        """How many subscribers there are."""
        return len(self._log.members)

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Add `subscriber`."""
        require_subscriber(subscriber)
        self._begins(self._log.join(subscriber))

    def emit(self, item: T) -> EmitResult:
        """Send `item`, or keep it for subscribers without demand; the answer says whether it was taken.

        Errors: The error of the only subscriber's `on_next`, which counts as having cancelled (2.13). If there are
            others, the error is logged, and they go on. `SpecViolation` in another thread than the subscribers'.
        Context: The thread of the subscribers' run; never blocks. It may be called inside some `on_next`: then the item
            goes out when all subscribers have got the one before.
        """
        log = self._log
        require_thread_of(log.members, "emit()")
        if not log.goes_straight:
            refusal = self._refusal()
            if refusal is not None:
                return refusal
            if log.room() < 1:
                return EmitResult.OVERFLOW
        log.on_next(item)
        return EmitResult.OK

    async def send(self, item: T) -> EmitResult:
        """Like `emit`, but wait while there is no room or no subscriber; several senders are served in turn.

        Returns: OK, or the reason why there will never be room: TERMINATED or CANCELLED. If it is cancelled while it
            waits, it has sent nothing.
        Errors: `ConfigError` outside of a scope; otherwise as `emit`.
        Context: A task in a scope (`rstreams.abc.Scheduler`).
        """
        scheduler = bound_scheduler(f"{self._name}.send")
        try:
            result = EmitResult.OVERFLOW if self._line else self.emit(item)
            stand = self._line.append
            while result in _WAITS:
                event = scheduler.event()
                stand(event)
                try:
                    await event.wait()
                finally:
                    self._line.remove(event)
                result = self.emit(item)
                stand = self._line.appendleft  # another sender was quicker: this one stays the first
            return result
        finally:
            self._wake()

    def complete(self) -> EmitResult:
        """End the stream: each subscriber gets the items kept for it, and then the end."""
        return self._finish("complete()", self._log.on_complete)

    def fail(self, error: BaseException) -> EmitResult:
        """End the stream with `error`."""
        checked = checked_error(error)
        return self._finish("fail()", lambda: self._log.on_error(checked))

    def _finish(self, call: str, end: Callable[[], None]) -> EmitResult:
        require_thread_of(self._log.members, call)
        if self._log.over:
            return EmitResult.TERMINATED
        end()
        self._wake()
        return EmitResult.OK

    def _refusal(self) -> EmitResult | None:
        """Return the answer of a source that takes no more items; None if it takes some."""
        return EmitResult.TERMINATED if self._log.over else None

    def _changed(self) -> None:
        """Call `on_demand`, and wake the first sender, if there is room."""
        self._untold = True
        if self._telling:
            return
        self._telling = True
        try:
            while self._untold:
                self._untold = False
                demand = self.demand
                if demand and self.on_demand is not None:
                    self.on_demand(demand)
        finally:
            self._telling = False
        self._wake()

    def _wake(self) -> None:
        if self._line and (self.demand or self._refusal() in _FINAL):
            self._line[0].set()
