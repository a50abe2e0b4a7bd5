"""defer: a publisher made anew for each subscriber."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Generic, TypeVar

from rstreams._checks.functions import require_plain
from rstreams._checks.publishers import require_subscriber
from rstreams._core.sight import Watched
from rstreams._core.subscription import subscribe_failed
from rstreams.abc import Publisher, Subscriber
from rstreams.sources._returned import returned_stream

T = TypeVar("T")


def defer(make: Callable[[], Publisher[T] | Iterable[T] | AsyncIterable[T]]) -> Publisher[T]:
    """Subscribe each subscriber to a publisher that `make` returns for it.

        defer(lambda: of(now()))
        --1|              the first subscriber
                --7|      a later one

    Args:
        make: Called once for each subscriber, when it subscribes.

    Demand: That of the publisher made.
    Errors: An error of `make` reaches the subscriber as `on_error`; so does a `TypeError` if its result is not a
        publisher.
    Cancels: The publisher made.
    Context: `make` is called inside `subscribe`, in its task; it must not block.
    Spec: Reactive Streams 1.4, 1.9.

    Example:
        >>> made = []
        >>> stream = Stream.defer(lambda: made.append("made") or Stream.of(1, 2))
        >>> made
        []
        >>> await stream.to_list(), made
        ([1, 2], ['made'])
    """
    require_plain("defer", "make", make, "use from_callable, and flat_map(lambda x: x) behind it")
    return _Deferred(make)


class _Deferred(Watched, Generic[T]):
    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Publisher[T] | Iterable[T] | AsyncIterable[T]]) -> None:
        super().__init__()
        self._make = make

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        require_subscriber(subscriber)
        try:
            publisher = returned_stream("defer", "make", self._make())
        except Exception as error:
            subscribe_failed(subscriber, error)
            return
        if not isinstance(publisher, Watched):
            publisher.subscribe(subscriber)
            return
        before = len(publisher.runs())
        publisher.subscribe(subscriber)
        for run in publisher.runs()[before:]:
            self._begins(run)
