"""The errors for values that are not allowed, with the same texts everywhere.

Every check of this package is called `require_...`. It takes the name of the call, the name of the option and the
value, in this order. It returns the value, or raises one of two errors:

    ConfigError   a value that cannot work; the text shows it: take(count=-1): count must be 0 or more items
    TypeError     an object of the wrong kind: map(function): function must be a function, not 5

A function called `refuse_...` returns nothing: it raises always, or for one kind of value.

A check is in a higher package only if it needs something of that package, such as the largest window of a link. It has
the same name and form, and uses these checks.
"""

from __future__ import annotations

from typing import Final, NoReturn

from rstreams.errors import ConfigError

_LONG: Final = 80


def shown(value: object) -> str:
    """Return a value as text for an error: without its middle if it is long and not a number."""
    text = repr(value)
    return text if len(text) <= _LONG or isinstance(value, int | float) else f"{text[:54]} ... {text[-21:]}"


def refuse_value(call: str, option: str, value: object, allowed: str) -> NoReturn:
    """Raise `ConfigError` for a value that is not `allowed`; `call` is "" if it is not known."""
    given = f"{option}={shown(value)}"
    msg = f"{f'{call}({given})' if call else given}: {option} must be {allowed}"
    raise ConfigError(msg)


def refuse_object(call: str, option: str, value: object, wanted: str, hint: str = "") -> NoReturn:
    """Raise `TypeError` for an object that is not `wanted`; a `hint` is added to the text."""
    msg = f"{call}({option}): {option} must be {wanted}, not {shown(value)}{hint}"
    raise TypeError(msg)


def refuse_result(call: str, option: str, result: object, wanted: str, hint: str = "") -> NoReturn:
    """Raise `TypeError` for a `result` of the function `option` that is not `wanted`."""
    msg = f"{call}({option}): {option} must return {wanted}, not {shown(result)}{hint}"
    raise TypeError(msg)
