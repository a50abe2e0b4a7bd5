"""The checks of options that take one of a few words, or True or False."""

from __future__ import annotations

from typing import TypeVar, get_args

from rstreams._checks.refusals import refuse_value

S = TypeVar("S", bound=str)


def require_choice(call: str, option: str, value: S, choices: object) -> S:
    """Return `value` if it is one of the words of `choices`, a `Literal` type.

    Errors: `ConfigError` for any other value.
    """
    words = get_args(choices)
    if value not in words:
        refuse_value(call, option, value, f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}")
    return value


def require_flag(call: str, option: str, value: bool) -> bool:  # noqa: FBT001 - the value that is checked
    """Return `value` if it is True or False.

    Errors: `ConfigError` for any other value, also for one that is true or false in an `if`.
    """
    if not isinstance(value, bool):
        refuse_value(call, option, value, "True or False")
    return value
