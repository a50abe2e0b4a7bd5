"""The signals of a stream as values: the items that `materialize` emits and `dematerialize` takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from rstreams._core.kept_errors import KeptError

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
        kept: The same, to be raised: several streams may be made of this item.
    """

    error: BaseException
    kept: KeptError[BaseException] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Keep the traceback that the error has now."""
        object.__setattr__(self, "kept", KeptError(self.error))


@dataclass(frozen=True, slots=True)
class Completed:
    """The successful end."""


Notification: TypeAlias = Next[T] | Failed | Completed
"""A signal as an item, as `materialize` emits it and `dematerialize` takes it."""


def __dir__() -> list[str]:
    return __all__
