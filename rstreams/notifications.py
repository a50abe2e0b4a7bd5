"""The signals of a stream as values: the items that `materialize` emits and `dematerialize` takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

__all__ = ["Completed", "Failed", "Next", "Notification"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Next(Generic[T]):
    """An item.

    Attributes:
        item: The item.
    """

    item: T


@dataclass(frozen=True, slots=True)
class Failed:
    """The end by an error.

    Attributes:
        error: The error.
    """

    error: BaseException


@dataclass(frozen=True, slots=True)
class Completed:
    """The successful end."""


Notification: TypeAlias = Next[T] | Failed | Completed
"""A signal as an item, as `materialize` emits it and `dematerialize` takes it."""


def __dir__() -> list[str]:
    return __all__
