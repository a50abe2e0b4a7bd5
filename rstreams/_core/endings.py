"""What is to be called when a scope ends: shared by the schedulers."""

from __future__ import annotations

from collections.abc import Callable


class Endings:
    """The functions that are called when a scope ends."""

    __slots__ = ("_endings",)

    def __init__(self) -> None:
        """Have none."""
        self._endings: dict[_Ending, None] = {}

    def add(self, function: Callable[[], None]) -> _Ending:
        """Have `function` called when the scope ends."""
        ending = _Ending(function, self._endings)
        self._endings[ending] = None
        return ending

    def call(self) -> list[Exception]:
        """Call all of them, in the order in which they were added; return what they raised."""
        errors = list[Exception]()
        while self._endings:
            ending = next(iter(self._endings))
            ending.cancel()
            try:
                ending.function()
            except Exception as error:  # the others are called all the same
                errors.append(error)
        return errors


class _Ending:
    __slots__ = ("_endings", "function")

    def __init__(self, function: Callable[[], None], endings: dict[_Ending, None]) -> None:
        self.function = function
        self._endings = endings

    def cancel(self) -> None:
        """Never call the function."""
        self._endings.pop(self, None)
