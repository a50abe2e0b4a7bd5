"""from_future: the one result of a future."""

from __future__ import annotations

from typing import Protocol, TypeVar

from rstreams.abc import Publisher
from rstreams.operators.map_blocking import map_blocking
from rstreams.sources.of import of

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Future(Protocol[T_co]):
    """What has a result sometime, such as `concurrent.futures.Future`."""

    def result(self) -> T_co:
        """Wait for the result, in the thread that calls this."""
        ...


def from_future(future: Future[T]) -> Publisher[T]:
    """Emit the result of `future` when there is one, and complete.

        from_future(executor.submit(f))
        -----7|

    Args:
        future: A `concurrent.futures.Future`, or anything with a method `result` that waits. It is one for all
            subscribers.

    Demand: Nothing is waited for before the first request.
    Errors: What the future failed with ends the stream. `TypeError` at the call if it has no method `result`, as an
        awaitable has not: give `from_callable` an async function that awaits it.
    Cancels: Not the future: it goes on, and the thread that waits for it is left behind.
    Context: The wait takes up a worker thread of the scope that subscribes; the result is emitted in its own thread.
    Spec: Reactive Streams 1.1, 1.5.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor() as executor:
        ...     await Stream.from_future(executor.submit(pow, 2, 10)).to_list()
        [1024]
    """
    if not callable(getattr(future, "result", None)):
        msg = (
            f"from_future(future): future must have a method result(), as concurrent.futures.Future has, not {future!r}"
        )
        raise TypeError(msg)
    return map_blocking(of(None), lambda _: future.result())
