"""The AMQP types without a type of Python's own, and the limits that hold in both directions.

Python has one type where AMQP has several. The widest one has Python's type (long: `int`, double: `float`, decimal128:
`Decimal`), and the others have a subclass of it. A value that is received and sent on keeps its type therefore.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from operator import index
from typing import Any, ClassVar, Final, Self, SupportsFloat, SupportsIndex, TypeGuard

from rstreams.errors import ConfigError

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


class WholeNumber(int):
    """An int that is sent as an AMQP integer of another kind than long; arithmetic gives a plain int."""

    __slots__ = ()

    _least: ClassVar[int]
    _most: ClassVar[int]

    def __new__(cls, value: SupportsIndex = 0, /) -> Self:
        """Return the number; a `ConfigError` if it is none, or out of range."""
        try:
            number = super().__new__(cls, index(value))
        except TypeError:
            number = None
        if number is None or not cls._least <= number <= cls._most:
            msg = f"{cls.__name__}({value!r:.80}): must be an int from {cls._least} to {cls._most}"
            raise ConfigError(msg)
        return number

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int.__repr__(self)})"

    __str__ = int.__repr__


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is an AMQP integer of any width; a boolean is none, although Python's is an int."""
    return isinstance(value, int) and not isinstance(value, bool)


class Byte(WholeNumber):
    """An AMQP byte: an int from -128 to 127. Errors: `ConfigError`. Spec: AMQP 1.0 section 1.6.7."""

    __slots__ = ()
    _least, _most = -(2**7), 2**7 - 1


class UByte(WholeNumber):
    """An AMQP ubyte: an int from 0 to 255. Errors: `ConfigError`. Spec: AMQP 1.0 section 1.6.3."""

    __slots__ = ()
    _least, _most = 0, 2**8 - 1


class Short(WholeNumber):
    """An AMQP short: an int from -2^15 to 2^15-1. Errors: `ConfigError`. Spec: AMQP 1.0 section 1.6.8."""

    __slots__ = ()
    _least, _most = -(2**15), 2**15 - 1


class UShort(WholeNumber):
    """An AMQP ushort: an int from 0 to 2^16-1. Errors: `ConfigError`. Spec: AMQP 1.0 section 1.6.4."""

    __slots__ = ()
    _least, _most = 0, 2**16 - 1


class Int(WholeNumber):
    """An AMQP int: an int from -2^31 to 2^31-1. Errors: `ConfigError`. Spec: AMQP 1.0 section 1.6.9."""

    __slots__ = ()
    _least, _most = -(2**31), 2**31 - 1


class UInt(WholeNumber):
    """An AMQP uint: an int from 0 to 2^32-1. Errors: `ConfigError`. Spec: AMQP 1.0 section 1.6.5."""

    __slots__ = ()
    _least, _most = 0, 2**32 - 1


class ULong(WholeNumber):
    """An AMQP ulong: an int from 0 to 2^64-1. Errors: `ConfigError`. Spec: AMQP 1.0 section 1.6.6."""

    __slots__ = ()
    _least, _most = 0, 2**64 - 1


class Float(float):
    """An AMQP float: a float with the nearest value that 32 bits can have. Arithmetic gives a plain float.

    Errors: `ConfigError` for a finite number that is too large for 32 bits.
    Spec: AMQP 1.0 section 1.6.11.
    """

    __slots__ = ()

    def __new__(cls, value: SupportsFloat | str = 0.0, /) -> Self:
        """Return the number, rounded to 32 bits."""
        try:
            return super().__new__(cls, _FLOAT.unpack(_FLOAT.pack(float(value)))[0])
        except (OverflowError, TypeError, ValueError):
            msg = f"Float({value!r:.80}): must be a number up to 3.4e38, infinity or NaN"
            raise ConfigError(msg) from None

    def __repr__(self) -> str:
        return f"Float({float.__repr__(self)})"

    __str__ = float.__repr__


NARROW_TYPES: Final = (UByte, UShort, UInt, ULong, Byte, Short, Int, Float)
"""The numbers that the codec in C makes and reads, in the order of its enums."""

_FLOAT: Final = struct.Struct(">f")


class ShortDecimal(Decimal):
    """A Decimal that is sent with fewer digits than decimal128 has; arithmetic gives a plain Decimal."""

    __slots__ = ()

    digits: ClassVar[int]
    least_exponent: ClassVar[int]
    most_exponent: ClassVar[int]

    def __new__(cls, value: Decimal | float | str | tuple[int, tuple[int, ...], int] = "0", /) -> Self:
        """Return the number; a `ConfigError` if it is none, or has too many digits."""
        try:
            number = super().__new__(cls, value)
            _, digits, exponent = number.as_tuple()
        except (InvalidOperation, TypeError, ValueError):
            number, digits, exponent = None, (), 0
        in_range = isinstance(exponent, str) or cls.least_exponent <= exponent <= cls.most_exponent
        if number is None or len(digits) > cls.digits or not in_range:
            msg = (
                f"{cls.__name__}({value!r:.80}): must be a number of up to {cls.digits} digits and an exponent from "
                f"{cls.least_exponent} to {cls.most_exponent}, infinity or NaN"
            )
            raise ConfigError(msg)
        return number

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self}')"


class Decimal32(ShortDecimal):
    """An AMQP decimal32: a Decimal of up to 7 digits. Errors: `ConfigError`. Spec: AMQP 1.0 section 1.6.13."""

    __slots__ = ()
    digits, least_exponent, most_exponent = 7, -101, 90


class Decimal64(ShortDecimal):
    """An AMQP decimal64: a Decimal of up to 16 digits. Errors: `ConfigError`. Spec: AMQP 1.0 section 1.6.14."""

    __slots__ = ()
    digits, least_exponent, most_exponent = 16, -398, 369


class Char(str):
    """An AMQP char: one character; equal to the same text as a string.

    Errors: `ConfigError` for more or fewer characters, and for half of a surrogate pair.
    Spec: AMQP 1.0 section 1.6.16.
    """

    __slots__ = ()

    def __new__(cls, value: str, /) -> Self:
        """Return the character."""
        if not isinstance(value, str) or len(value) != 1 or 0xD800 <= ord(value) < 0xE000:
            msg = f"Char({value!r:.80}): must be a str of one character"
            raise ConfigError(msg)
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return f"Char({str.__repr__(self)})"


class Binary(bytes):
    """An AMQP binary as a body by itself; a body of plain bytes is sent as a Data section.

    Spec: AMQP 1.0 sections 1.6.19 and 3.2.8.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Binary({bytes.__repr__(self)})"


class Array(list[Any]):
    """An AMQP array: a list whose items all have one type. It is checked when it is sent.

    Attributes:
        of: The type of the items of an array that has none, such as `Symbol`; None is the type of null.

    Spec: AMQP 1.0 section 1.6.24.
    """

    __slots__ = ("of",)

    def __init__(self, items: Iterable[Any] = (), /, of: type | None = None) -> None:
        """Have these items."""
        super().__init__(items)
        self.of = of

    def __repr__(self) -> str:
        return f"Array({list.__repr__(self)})"


class AmqpSequence(list[Any]):
    """A body that is sent as an AmqpSequence section; a plain list is sent as an AmqpValue.

    Spec: AMQP 1.0 section 3.2.7.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"AmqpSequence({list.__repr__(self)})"


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
