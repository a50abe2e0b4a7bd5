"""checkpoint: the place where a pipeline was built, added to the errors that pass."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

from rstreams._stages.stage import Lifted, PassingStage
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")

_LIBRARY: Final = str(Path(__file__).parents[1])


def checkpoint(source: Publisher[T], description: str = "") -> Publisher[T]:
    """Add a note to an error that passes here: the line of the program that made this checkpoint.

        --1--2--X
         checkpoint("prices")
        --1--2--X   with a note

    The traceback of an error shows where it was raised, which may be far from the pipeline. The note shows the
    pipeline.

    Args:
        source: The publisher of the items.
        description: The name of this place in the note, beside its file and line.

    Demand: Passed up unchanged. An item costs nothing here; an error costs one `add_note`.
    Errors: Errors of the source pass through with one more line in their `__notes__`.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 1.4.

    Example:
        >>> stream = Stream.of(0).map(lambda x: 1 // x).checkpoint("shares")
        >>> try:
        ...     await stream.to_list()
        ... except ZeroDivisionError as error:
        ...     print(error.__notes__[0].split(" at ")[0])
        rstreams checkpoint 'shares'
    """
    what = f"rstreams checkpoint {description!r}" if description else "rstreams checkpoint"
    note = f"{what} at {_caller()}"
    return Lifted(source, lambda downstream: _Checkpoint(downstream, note))


def _caller() -> str:
    """Return the file and line of the innermost call from outside of this library."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame = frame.f_back
    return "an unknown place" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


class _Checkpoint(PassingStage[T]):
    __slots__ = ("_note",)

    operator = "checkpoint"
    only_reacts = True

    def __init__(self, downstream: Subscriber[T], note: str) -> None:
        super().__init__(downstream)
        self._note = note

    def on_error(self, error: BaseException) -> None:
        if not self._ended:
            error.add_note(self._note)
        super().on_error(error)
