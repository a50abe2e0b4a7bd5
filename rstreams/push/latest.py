"""Latest: a value that changes, and its subscribers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from rstreams._checks.other_names import no_method
from rstreams._checks.publishers import require_subscriber
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import take_demand
from rstreams._core.sight import Counts, Watched
from rstreams._core.subscription import checked_error
from rstreams._stages.member import Member, require_thread_of
from rstreams._stages.shared_run import Sharing
from rstreams.abc import Subscriber
from rstreams.push.emit_result import EmitResult

T = TypeVar("T")


class Latest(Watched, Generic[T]):
    """A push source of one value that changes: a subscriber starts with the current one, and a slow one skips to it.

    Like Reactor's `Sinks.many().replay().latest()`, with a difference: a subscriber without demand misses values that
    are not current any more when it asks. Therefore there is always room, and only the current value ever waits.

    Args:
        *initial: The value to start with; at most one. Without one, subscribers wait for the first pushed value.

    Results: TERMINATED after the end, otherwise OK.
    Errors: `TypeError` at the call for more than one value. The end comes behind the current value, also for later
        subscribers.
    Spec: Reactive Streams 1.1, 1.3, 1.11.
    """

    def __init__(self, *initial: T) -> None:
        if len(initial) > 1:
            msg = f"Latest() takes at most one value, the first one, not {len(initial)} values"
            raise TypeError(msg)
        super().__init__()
        self._run = _LatestRun[T]()
        for value in initial:
            self._run.on_next(value)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_method(self, name)

    @property
    def value(self) -> T:
        """The current value; `LookupError` if there is none yet."""
        if not self._run.version:
            msg = "Latest has no value yet"
            raise LookupError(msg)
        return self._run.value

    @property
    def subscribers(self) -> int:
        """How many subscribers there are."""
        return len(self._run.members)

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Add `subscriber`."""
        require_subscriber(subscriber)
        self._begins(self._run.join(subscriber))

    def emit(self, item: T) -> EmitResult:
        """Make `item` the current value.

        Errors: The error of the only subscriber's `on_next`, which counts as having cancelled (2.13). If there are
            others, the error is logged, and they go on. `SpecViolation` in another thread than the subscribers'.
        Context: The thread of the subscribers' run; never blocks. It may be called inside some `on_next`.
        """
        require_thread_of(self._run.members, "emit()")
        if self._run.over:
            return EmitResult.TERMINATED
        self._run.on_next(item)
        return EmitResult.OK

    def complete(self) -> EmitResult:
        """End the stream, behind the current value."""
        require_thread_of(self._run.members, "complete()")
        if self._run.over:
            return EmitResult.TERMINATED
        self._run.on_complete()
        return EmitResult.OK

    def fail(self, error: BaseException) -> EmitResult:
        """End the stream with `error`, behind the current value."""
        checked = checked_error(error)
        require_thread_of(self._run.members, "fail()")
        if self._run.over:
            return EmitResult.TERMINATED
        self._run.on_error(checked)
        return EmitResult.OK


class _Follower(Member[T]):
    __slots__ = ("_latest", "received", "seen")

    def __init__(self, run: _LatestRun[T], subscriber: Subscriber[T]) -> None:
        super().__init__(run, subscriber)
        self._latest = run
        self.received = 0
        self.seen = 0

    def counts(self) -> Counts:
        """Return how many items it has got, and whether the current value waits for it."""
        return Counts(self.requested, self.received, int(self.seen < self._latest.version))


class _LatestRun(Sharing[T, _Follower[T]]):
    __slots__ = ("value", "version")

    value: T

    def __init__(self) -> None:
        super().__init__("Latest")
        self.version = 0

    @property
    def numbers(self) -> tuple[int, int, int]:
        return len(self.members), min(self.version, 1), 1

    def on_next(self, item: T) -> None:
        self.value = item
        self.version += 1
        self.update()

    def _member(self, subscriber: Subscriber[T]) -> _Follower[T]:
        return _Follower(self, subscriber)

    def _next(self) -> _Follower[T] | None:
        for member in self.members:
            if member.limit and member.seen < self.version:
                return member
        return None

    def _serve_item(self, member: _Follower[T]) -> None:
        member.seen = self.version
        member.received += 1
        member.limit = take_demand(member.limit, 1)
        member.emit(self.value, NO_HOLD)

    def _is_through(self, member: _Follower[T]) -> bool:
        return member.seen == self.version

    def _ask(self) -> None:
        """Do nothing: there is no source."""
