"""A source whose shared run begins on a call: the result of publish, replay and cache.

Such a run goes on without subscribers, because another one may come. It ends when none can come any more: then nobody
has a publisher of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar
from weakref import ref

from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_subscriber
from rstreams._core.scheduler import current_scheduler
from rstreams._core.sight import Watched
from rstreams._stages.enough_subscribers import BegunByEnough
from rstreams._stages.shared_run import NOBODY, Sharing
from rstreams.abc import Cancellable, Publisher, Subscriber
from rstreams.errors import ConfigError, RStreamsError

T = TypeVar("T")


class _Door(Generic[T]):
    """The way into a run, which all its publishers have.

    Args:
        source: The source of the run.
        make_run: Makes a run.
        needs: The number of subscribers that begins a run, or NOBODY.
    """

    def __init__(self, source: Publisher[T], make_run: Callable[[], Sharing[T, Any]], needs: int) -> None:
        self._source = source
        self._make_run = make_run
        self._needs = needs
        self.next_run()

    def __del__(self) -> None:
        self.run.forsake()

    def next_run(self) -> None:
        """Lead later subscribers into a new run, which has not begun."""
        self.run = self._make_run()
        self.run.needs, self.run.publisher = self._needs, ref(self)

    def connect(self) -> None:
        """Begin the run, unless it has begun."""
        self.run.refuse_other_threads("connect()")
        self.run.connect(self._source)


class Connectable(Watched, Generic[T]):
    """A publisher whose subscribers share one run of the source; `connect` begins the run.

    There is one run, unless its connection is cancelled. A subscriber that comes after its end gets the kept items, if
    the operator keeps some, and the end. For a new run, call the operator again or use `ref_count`.
    """

    __slots__ = ("_door", "_make_run", "_source")

    def __init__(self, source: Publisher[T], make_run: Callable[[], Sharing[T, Any]]) -> None:
        super().__init__()
        self._source = source
        self._make_run = make_run
        self._door = _Door(source, make_run, NOBODY)

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Add `subscriber` to the subscribers of the run; it may request before the run has begun."""
        require_subscriber(subscriber)
        self._begins(self._door.run.join(subscriber))

    def connect(self) -> Cancellable:
        """Begin the run: subscribe to the source. Further calls have no effect on the source.

        Nothing is requested of the source while there are no subscribers.

        Returns: An object that can end the run: its `cancel()` cancels the source, and ends all present subscribers
            with an `RStreamsError`. Later subscribers wait for the next `connect()`, which begins a new run. It does
            nothing after the run has ended.
        Errors: `ConfigError` at the call outside of a scope, without subscribers, for a source that needs a scope.
        Context: A scope, unless a subscriber has one, or the source needs neither time nor tasks. The run outlives the
            scope. Both calls belong to the thread of the subscribers.
        """
        self._door.connect()
        run = self._door.run
        if run.kept_error is not None and not run.members and current_scheduler.get(None) is None:
            error = run.kept_error.error
            if isinstance(error, ConfigError):  # nobody has heard it
                self._door.next_run()
                msg = f"{run.label}: connect() outside of a scope: {error}"
                raise ConfigError(msg)
        return _Connection(self._door)

    def ref_count(self, subscribers: int = 1) -> Publisher[T]:
        """Return a publisher that begins a run when `subscribers` are there, and cancels it when all have left.

        Its runs are its own: each starts without kept items. A subscriber that comes after the end of a run begins the
        next.

        Errors: `ConfigError` at the call if `subscribers` is less than 1.
        """
        require_count("ref_count", "subscribers", subscribers, 1, unit="")
        return BegunByEnough(self._source, self._make_run, subscribers, again=True)

    def auto_connect(self, subscribers: int = 1) -> Publisher[T]:
        """Return a publisher that calls `connect` when `subscribers` are there, and cancels nothing when they leave.

        When all have left, no more items are requested; the next subscriber goes on where they stopped.

        Errors: `ConfigError` at the call if `subscribers` is less than 1.
        """
        require_count("auto_connect", "subscribers", subscribers, 1, unit="")
        return AutoConnected(self._door, subscribers)


class _Connection(Generic[T]):
    """What ends a run; it keeps no publisher of the run alive."""

    __slots__ = ("_door", "_run")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            found = "; here it is cancel" if name in {"close", "disconnect", "dispose", "unsubscribe"} else ""
            msg = f"the connection of a shared run has no attribute {name!r}{found}"
            raise AttributeError(msg, name=name, obj=self)

    def __init__(self, door: _Door[T]) -> None:
        self._door = ref(door)
        self._run = door.run

    def cancel(self) -> None:
        """End the run; later subscribers wait for the next one."""
        run, door = self._run, self._door()
        if run.over:
            return
        run.refuse_other_threads("cancel()")
        if door is not None:
            door.next_run()  # first: a subscriber may come back at once
        run.disconnect(RStreamsError(f"{run.label}: the connection to the shared source was cancelled"))


class AutoConnected(Watched, Generic[T]):
    """A publisher whose subscribers share one run, begun when a number of them are there."""

    __slots__ = ("_door", "_subscribers")

    def __init__(self, door: _Door[T], subscribers: int) -> None:
        super().__init__()
        self._door = door
        self._subscribers = subscribers

    @classmethod
    def over(cls, source: Publisher[T], make_run: Callable[[], Sharing[T, Any]]) -> Self:
        """Return a publisher whose first subscriber begins the run that `make_run` makes."""
        return cls(_Door(source, make_run, 1), 1)

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Add a subscriber, and begin the run if it is the last one needed."""
        require_subscriber(subscriber)
        run = self._door.run
        run.needs = self._subscribers
        self._begins(run.join(subscriber))
        if len(run.members) >= self._subscribers:
            self._door.connect()
