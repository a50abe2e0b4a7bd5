"""A source whose shared run begins on a call: the result of publish and replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_subscriber
from rstreams._core.sight import Watched
from rstreams._stages.quorum import Gathered
from rstreams._stages.shared_run import NOBODY, Sharing
from rstreams.abc import Cancellable, Publisher, Subscriber
from rstreams.errors import RStreamsError

T = TypeVar("T")


class Connectable(Watched, Generic[T]):
    """A publisher whose subscribers share one run of the source; `connect` begins the run.

    There is one run. A subscriber that comes after its end gets the kept items, if the operator keeps some, and the
    end. For a new run, call the operator again or use `ref_count`.
    """

    __slots__ = ("_make_run", "_run", "_source")

    def __init__(self, source: Publisher[T], make_run: Callable[[], Sharing[T, Any]]) -> None:
        super().__init__()
        self._source = source
        self._make_run = make_run
        self._run = make_run()
        self._run.needs = NOBODY

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Add `subscriber` to the subscribers of the run; it may request before the run has begun."""
        require_subscriber(subscriber)
        self._begins(self._run.join(subscriber))

    def connect(self) -> Cancellable:
        """Begin the run: subscribe to the source. Further calls have no effect on the source.

        Returns: An object that can end the run: its `cancel()` cancels the source, and ends all present and later
            subscribers with an `RStreamsError`. It does nothing after the run has ended.
        """
        self._run.connect(self._source)
        return _Connection(self._run)

    def ref_count(self, subscribers: int = 1) -> Publisher[T]:
        """Return a publisher that begins a run when `subscribers` are there, and cancels it when all have left.

        Its runs are its own: each starts without kept items. A subscriber that comes after the end of a run begins the
        next.

        Errors: `ConfigError` at the call if `subscribers` is less than 1.
        """
        require_count("ref_count", "subscribers", subscribers, 1, unit="")
        return Gathered(self._source, self._make_run, subscribers, again=True)

    def auto_connect(self, subscribers: int = 1) -> Publisher[T]:
        """Return a publisher that calls `connect` when `subscribers` are there, and cancels nothing when they leave.

        When all have left, no more items are requested; the next subscriber goes on where they stopped.

        Errors: `ConfigError` at the call if `subscribers` is less than 1.
        """
        require_count("auto_connect", "subscribers", subscribers, 1, unit="")
        return AutoConnected(self._source, self._run, subscribers)


class _Connection(Generic[T]):
    __slots__ = ("_run",)

    def __init__(self, run: Sharing[T, Any]) -> None:
        self._run = run

    def cancel(self) -> None:
        """End the run."""
        self._run.disconnect(RStreamsError(f"{self._run.label}: the connection to the shared source was cancelled"))


class AutoConnected(Watched, Generic[T]):
    """A publisher whose subscribers share one run, begun when a number of them are there."""

    __slots__ = ("_run", "_source", "_subscribers")

    def __init__(self, source: Publisher[T], run: Sharing[T, Any], subscribers: int) -> None:
        super().__init__()
        self._source = source
        self._run = run
        self._subscribers = subscribers

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Add a subscriber, and begin the run if it is the last one needed."""
        require_subscriber(subscriber)
        self._run.needs = self._subscribers
        self._begins(self._run.join(subscriber))
        if len(self._run.members) >= self._subscribers:
            self._run.connect(self._source)
