"""The answer to a pushed item."""

from __future__ import annotations

from enum import Enum


class EmitResult(Enum):
    """The answer to an item that is pushed, or to `complete` or `fail`; only `OK` says that it was taken.

    Only `OK` is true: `if not prices.emit(price): ...`.

    Spec: Reactor's `Sinks.EmitResult`.
    """

    OK = "ok"
    """Taken: its subscribers have got it, or will get it on demand."""

    OVERFLOW = "overflow"
    """Not taken: there is no demand for it and no room left; try again when there is (`demand`, `send`)."""

    TERMINATED = "terminated"
    """Not taken: the source has been completed or failed before."""

    CANCELLED = "cancelled"
    """Not taken: the only possible subscriber has left."""

    NO_SUBSCRIBER = "no_subscriber"
    """Not taken: there is no subscriber, and the source keeps nothing for later ones."""

    def __bool__(self) -> bool:
        """Tell whether it was taken."""
        return self is EmitResult.OK
