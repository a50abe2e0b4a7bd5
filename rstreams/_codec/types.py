"""The AMQP types without a type of Python's own, and the limits that hold in both directions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)

MAX_DEPTH: Final = 64
"""How deep lists, maps, arrays and described values may be nested, in both directions."""


class Symbol(str):
    """An AMQP symbol: a name from an agreed vocabulary, in ASCII; equal to the same text as a string.

    Spec: AMQP 1.0 section 1.6.21.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({str.__repr__(self)})"


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor that tells its meaning, for types that AMQP itself does not define.

    Attributes:
        descriptor: By convention a `Symbol` such as "vendor:type:list", or a number.
        value: The value described.

    Spec: AMQP 1.0 section 1.1.2.
    """

    descriptor: Any
    value: Any
