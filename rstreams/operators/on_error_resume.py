"""on_error_resume: another publisher in the place of an error."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import TypeVar

from rstreams._checks.functions import require_plain
from rstreams._stages.arbiter import Arbiter
from rstreams._stages.stage import Lifted, raised_during
from rstreams.abc import Publisher, Subscriber
from rstreams.sources._returned import returning_streams

T = TypeVar("T")
R = TypeVar("R")


def on_error_resume(
    source: Publisher[T], handler: Callable[[Exception], Publisher[R] | Iterable[R] | AsyncIterable[R]]
) -> Publisher[T | R]:
    """Emit the items of `source`; if it fails, go on with the publisher that `handler(error)` returns.

        --1--2--X
                --8--9--|
         on_error_resume
        --1--2----8--9--|

    Args:
        source: The publisher of the items.
        handler: Called at most once, in the task that delivers the error; it must not block. It may raise its argument
            or another error. Its result is a publisher, an iterable or an async iterable, but no text.

    Demand: Goes to `source`. Demand that it leaves unmet goes to the fallback.
    Errors: If `handler` raises, the stream ends with that exception, which has the source's error as its `__context__`.
        A result that is no stream is a `TypeError`. Errors of the fallback pass through, and also an error that is not
        an `Exception`.
    Cancels: The current publisher, when the stream is cancelled.
    Spec: Reactive Streams 1.1, 1.4, 3.17.

    Example:
        >>> await Stream.fail(LookupError("no such thing")).on_error_resume(lambda error: Stream.of(8, 9)).to_list()
        [8, 9]
    """
    require_plain("on_error_resume", "handler", handler)
    streams = returning_streams("on_error_resume", "handler", handler)
    return Lifted(source, lambda downstream: _OnErrorResume[T | R](downstream, streams))


class _OnErrorResume(Arbiter[T]):
    __slots__ = ("_handler",)

    operator = "on_error_resume"

    def __init__(self, downstream: Subscriber[T], handler: Callable[[Exception], Publisher[T]]) -> None:
        super().__init__(downstream)
        self._handler: Callable[[Exception], Publisher[T]] | None = handler

    @property
    def failure(self) -> BaseException | None:
        """None: that of the source is handled here."""
        return None

    def on_error(self, error: BaseException) -> None:
        handler, self._handler = self._handler, None
        if self._ended or handler is None or not isinstance(error, Exception):
            super().on_error(error)
            return
        try:
            fallback = handler(error)
        except Exception as raised:
            super().on_error(raised_during(raised, error))
            return
        if not self._ended:  # the handler may have cancelled
            self._switch_to(fallback)
