"""A run of a source that begins when enough subscribers are there: the base of share, broadcast and distribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import ref

from rstreams._checks.publishers import require_subscriber
from rstreams._core.sight import Watched
from rstreams._stages.run_of_source import Phase
from rstreams._stages.shared_run import Sharing
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


class BegunByEnough(Watched, Generic[T]):
    """A publisher whose subscribers share a run; it begins when enough of them are there and ends when all have left.

    Args:
        source: The publisher to share.
        make_run: Makes a run.
        subscribers: The number of subscribers that begins a run.
        again: Whether a subscriber that comes after the end of a run begins another one; else it gets that end.
    """

    __slots__ = ("__weakref__", "_again", "_make_run", "_run", "_source", "_subscribers")

    def __init__(
        self, source: Publisher[T], make_run: Callable[[], Sharing[T, Any]], subscribers: int, *, again: bool
    ) -> None:
        super().__init__()
        self._source = source
        self._make_run = make_run
        self._subscribers = subscribers
        self._again = again
        self._run: Sharing[T, Any] | None = None

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        require_subscriber(subscriber)
        run = self._run
        if run is None or run.phase is Phase.STOPPED or (self._again and run.over):
            run = self._run = self._make_run()
            run.stops_when_deserted, run.needs, run.publisher = True, self._subscribers, ref(self)
        self._begins(run.join(subscriber))
        if len(run.members) >= self._subscribers:
            run.connect(self._source)

    def wait_no_more(self) -> None:
        """Begin the run with the present subscribers, or with the next one."""
        self._subscribers = 1
        if self._run is not None and self._run.members:
            self._run.connect(self._source)
