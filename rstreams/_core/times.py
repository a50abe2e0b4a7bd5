"""Times and other measures given as options: checked where they are given, in the same words everywhere."""

from __future__ import annotations

from math import isfinite

from rstreams.errors import ConfigError


def require_seconds(maker: str, option: str, value: object, *, zero: bool = False) -> None:
    """Raise `ConfigError` unless `value` is a time, in seconds, that is more than 0 (or 0, if `zero`)."""
    number = finite(value)
    if number is None or number < 0 or (number == 0 and not zero):
        allowed = "0 or more" if zero else "more than 0"
        msg = f"{maker}({option}={value!r}): {option} must be a finite number of seconds, {allowed}"
        raise ConfigError(msg)


def require_from(maker: str, option: str, value: object, least: float, most: float | None = None) -> None:
    """Raise `ConfigError` unless `value` is a number from `least` to `most`, or without a limit above."""
    number = finite(value)
    if number is None or number < least or (most is not None and number > most):
        allowed = f"{least:g} or more" if most is None else f"{least:g} to {most:g}"
        msg = f"{maker}({option}={value!r}): {option} must be a finite number, {allowed}"
        raise ConfigError(msg)


def finite(value: object) -> float | None:
    """Return `value` as a float, or None if it is no number, not finite, or too large for one."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number may be as large as it likes
        return None
    return number if isfinite(number) else None
