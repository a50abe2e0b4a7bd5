"""Bodies: the bytes and the type name that stand for a body in a row, and the way back.

    body of the message                              column body                      column body_type
    Data                                             its bytes                        binary
    a string                                         its UTF-8 bytes                  string
    null, or no body                                 null                             null
    a boolean, a number, a timestamp, a UUID, ...    its text, as UTF-8 bytes         boolean, integer, double, ...
    a list, a map, a described value                 JSON, as UTF-8 bytes             list, map, described

In JSON, bytes become hexadecimal text, timestamps become ISO 8601 text, and the keys of a map become text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from rstreams.errors import ConfigError
from rstreams.message import Described, Symbol

_TYPES: Final[tuple[tuple[type, str], ...]] = (
    (Symbol, "symbol"),
    (str, "string"),
    (bool, "boolean"),
    (int, "integer"),
    (float, "double"),
    (Decimal, "decimal"),
    (datetime, "timestamp"),
    (UUID, "uuid"),
    (list, "list"),
    (Mapping, "map"),
    (Described, "described"),
)


def body_of(value: object) -> tuple[bytes | None, str]:
    """Return the columns `body` and `body_type` of a body."""
    if value is None:
        return None, "null"
    if isinstance(value, bytes):
        return bytes(value), "binary"
    if type(value) is str:
        return value.encode(), "string"
    name = next((name for known, name in _TYPES if isinstance(value, known)), "")
    assert name, "messages have bodies of these types"
    if name in {"list", "map", "described"}:
        return json.dumps(_json(value), ensure_ascii=False, separators=(",", ":")).encode(), name
    return (as_text(value) or "").encode(), name


def as_text(value: object) -> str | None:  # noqa: PLR0911 - one for each type
    """Return the text of a simple AMQP value; None stays None."""
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value)


def _json(value: object) -> Any:  # noqa: ANN401 - what the json module takes
    if isinstance(value, Mapping):
        return {
            as_text(key) if not isinstance(key, Described) else str(key): _json(each) for key, each in value.items()
        }
    if isinstance(value, list):
        return [_json(each) for each in value]
    if isinstance(value, Described):
        return {"descriptor": _json(value.descriptor), "value": _json(value.value)}
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return as_text(value)


def value_of(body: bytes | str | None, body_type: str | None) -> object:
    """Return the body of the message for the columns `body` and `body_type` of a row that is sent.

    Errors: `ConfigError` if the bytes are not a value of that type, or a body of that type cannot be made of bytes.
    """
    if body_type is None:
        return body
    if body is None or body_type == "null":
        return None
    make = _MAKERS.get(body_type)
    if make is None:
        names = ", ".join(("null", *_MAKERS))
        msg = f"column body_type is {body_type!r}: must be null or one of {names}"
        raise ConfigError(msg)
    try:
        return make(body)
    except (ValueError, TypeError, KeyError, InvalidOperation):
        msg = f"column body is not a value of the type that column body_type names, {body_type}"
        raise ConfigError(msg) from None


def _text(body: bytes | str) -> str:
    return body if isinstance(body, str) else body.decode()


def _json_of(kind: type) -> Callable[[bytes | str], Any]:
    def read(body: bytes | str) -> Any:  # noqa: ANN401 - whatever stands there
        value = json.loads(body)
        if not isinstance(value, kind):
            raise TypeError
        return value

    return read


_MAKERS: Final[Mapping[str, Callable[[bytes | str], object]]] = {
    "binary": lambda body: body.encode() if isinstance(body, str) else body,
    "string": _text,
    "boolean": lambda body: {"true": True, "false": False}[_text(body)],
    "integer": lambda body: int(_text(body)),
    "double": lambda body: float(_text(body)),
    "decimal": lambda body: Decimal(_text(body)),
    "timestamp": lambda body: datetime.fromisoformat(_text(body)),
    "uuid": lambda body: UUID(_text(body)),
    "symbol": lambda body: Symbol(_text(body)),
    "list": _json_of(list),
    "map": _json_of(dict),
}
