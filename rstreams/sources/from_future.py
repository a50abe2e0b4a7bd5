"""from_future: the one result of a future."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from rstreams._core.kept_errors import KeptError
from rstreams._core.scheduler import bound_scheduler
from rstreams._stages.jobs import Jobs
from rstreams._stages.stage import Lifted
from rstreams.abc import Publisher
from rstreams.sources.of import of

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Future(Protocol[T_co]):
    """An object that has a result later, such as `concurrent.futures.Future`."""

    def result(self) -> T_co:
        """Return the result, or raise the error."""
        ...

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call `fn` with the future, in any thread, when there is a result; at once, if there is one."""
        ...


def from_future(future: Future[T]) -> Publisher[T]:
    """Emit the result of `future` when there is one, and complete.

        from_future(executor.submit(f))
        -----7|

    Args:
        future: A `concurrent.futures.Future`, or another object with `result` and `add_done_callback`. All subscribers
            share it.

    Demand: The future is not waited for before the first request.
    Errors: The error of the future ends the stream. `TypeError` at the call for an object that is not a future; for an
        awaitable, give `from_callable` an async function that awaits it. Without a scheduler a `ConfigError`.
    Cancels: The future is not cancelled: it goes on, and its result is dropped.
    Context: The future may be done in any thread; its result is emitted in a task of the scope that subscribes.
    Spec: Reactive Streams 1.1, 1.5.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor() as executor:
        ...     await Stream.from_future(executor.submit(pow, 2, 10)).to_list()
        [1024]
    """
    if not all(callable(getattr(future, name, None)) for name in ("result", "add_done_callback")):
        msg = f"from_future(future): future must have result() and add_done_callback(), which {future!r} does not have"
        raise TypeError(msg)
    shared = _Shared(future)
    return Lifted(
        of(None),
        lambda downstream: _FromFuture(downstream, shared.result, 1, bound_scheduler("from_future"), ordered=True),
    )


class _FromFuture(Jobs[None, T]):
    __slots__ = ()

    operator = "from_future"


class _Shared(Generic[T]):
    """The future, and its error once it has raised it."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future
        self._error: KeptError[Exception] | None = None

    async def result(self, _: None) -> T:
        """Wait for the result, and return it; raise the error of the future."""
        scheduler = bound_scheduler("from_future")
        done = scheduler.event()
        self._future.add_done_callback(lambda _: scheduler.post(done.set))
        await done.wait()
        if self._error is None:
            try:
                return self._future.result()
            except Exception as error:
                self._error = KeptError(error)
        raise self._error.again()
