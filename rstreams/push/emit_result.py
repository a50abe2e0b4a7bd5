"""What became of a pushed item."""

from __future__ import annotations

from enum import Enum


class EmitResult(Enum):
    """What became of an item that was pushed, or of a `complete` or `fail`; only `OK` says that it was taken.

    Spec: Reactor's `Sinks.EmitResult`.
    """

    OK = "ok"
    """Taken: every subscriber it is for has got it, or will on demand."""

    OVERFLOW = "overflow"
    """Not taken: there is no demand for it and no room left; try again when there is (`demand`, `send`)."""

    TERMINATED = "terminated"
    """Not taken: the source has been completed or failed before."""

    CANCELLED = "cancelled"
    """Not taken: the only subscriber there can ever be has left."""

    NO_SUBSCRIBER = "no_subscriber"
    """Not taken: nobody is there, and nothing is kept for later."""
