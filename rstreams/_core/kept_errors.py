"""Errors that are kept, for several calls or subscribers."""

from __future__ import annotations

from typing import Generic, TypeVar

E_co = TypeVar("E_co", bound=BaseException, covariant=True)


class KeptError(Generic[E_co]):
    """An error that may be raised more than once.

    Python adds the frames of each call that raises an error to its traceback. Here it has those from before it was
    kept, and those of the last call.

    Attributes:
        error: The error.
    """

    __slots__ = ("_traceback", "error")

    def __init__(self, error: E_co) -> None:
        self.error = error
        self._traceback = error.__traceback__

    def __reduce__(self) -> tuple[type[KeptError[E_co]], tuple[E_co]]:
        """Let it be pickled: Python leaves the traceback of an error behind."""
        return KeptError, (self.error,)

    def again(self) -> E_co:
        """Return the error, to be raised or handed on."""
        return self.error.with_traceback(self._traceback)
