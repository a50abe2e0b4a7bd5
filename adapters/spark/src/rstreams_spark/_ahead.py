"""A batch that is made in a thread of its own, before Spark asks for it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Ahead:
    """Runs a function in a thread.

    Context: One thread, every method.
    """

    def __init__(self, make: Callable[[], int]) -> None:
        """Start `make`."""
        self._make = make
        self._end = 0
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rstreams prefetch", daemon=True)
        self._thread.start()

    def result(self) -> int:
        """Wait for the function, and return its result.

        Errors: Those of the function.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._end

    def wait(self, most_s: float = 0.2) -> None:
        """Wait until the function has ended, but not for long; its result is of no interest."""
        self._thread.join(most_s)

    def _run(self) -> None:
        try:
            self._end = self._make()
        except BaseException as error:  # the caller of `result` gets it
            self._error = error
