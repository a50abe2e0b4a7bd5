"""A `consume` or `respond` in the background: it needs no thread of the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Self

from rstreams._checks.numbers import require_seconds
from rstreams._events.table import BACKGROUND_FAILED
from rstreams.runtime.at_work import AtWork
from rstreams.runtime.portal import Portal


class Background:
    """A call that goes on in the background; made for example by `BlockingConnection.consume_in_background`.

    It takes no thread while it waits; handlers run in threads of rstreams' own. In a `with` block it is stopped at the
    end.

    Context: Any thread but the connection's own.
    """

    def __init__(self, portal: Portal, call: str, function: Callable[[], Awaitable[None]], at_work: AtWork) -> None:
        """Start `function` in the portal's run.

        Args:
            portal: The portal.
            call: The name of the user's call, for messages.
            function: The async function.
            at_work: Where its handlers are at work.
        """
        self._call = call
        self._at_work = at_work
        self._waited_for = False
        self._started = portal.start(function)
        self._started.future.add_done_callback(self._ended)

    def __repr__(self) -> str:
        state = "running" if self.running else "ended" if self.error is None else f"failed: {self.error}"
        return f"<{self._call} in the background: {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return not self._started.future.done()

    @property
    def error(self) -> BaseException | None:
        """The error that it failed with; None if it has not failed, or was stopped."""
        future = self._started.future
        return future.exception() if future.done() and not future.cancelled() else None

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until it ends: by itself, by `stop` in another thread, or with its connection.

        Args:
            timeout_s: How long to wait, in seconds; None: for ever.

        Errors: The error that it failed with; `TimeoutError` when the time is over. `RuntimeError` in one of its own
            handlers, because that would wait for itself.
        Context: Blocks its thread. Ctrl-C ends only the wait.
        """
        self._at_work.refuse("wait()", f"this {self._call}")
        if timeout_s is not None:
            require_seconds("wait", "timeout_s", timeout_s, zero=True)
        self._waited_for = True
        try:
            self._started.future.result(timeout_s)
        except CancelledError:
            return
        except TimeoutError:
            if self.running:
                self._waited_for = False
            raise

    def stop(self) -> None:
        """End it: no handler is called any more; handlers at work return first, and that settles their items.

        An earlier error is raised by `wait`, and not here.

        Errors: `RuntimeError` in one of its own handlers, because that would wait for itself.
        Context: Blocks its thread until then.
        """
        self._at_work.refuse("stop()", f"this {self._call}")
        self._started.stop()

    def when_ended(self, function: Callable[[], None]) -> None:
        """Have `function` called when it has ended, in any thread; at once if it has."""
        self._started.future.add_done_callback(lambda _: function())

    def _ended(self, future: Future[None]) -> None:
        """Log that it has failed, because the user may never ask."""
        error = None if future.cancelled() else future.exception()
        if error is not None and not self._waited_for:
            BACKGROUND_FAILED.tell(self._call, raised=error, call=self._call, why=error)
