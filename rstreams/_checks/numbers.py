"""The checks of counts, times and other numbers."""

from __future__ import annotations

from math import isfinite

from rstreams._checks.refusals import refuse_value


def require_count(
    call: str, option: str, value: int, least: int, most: int | None = None, *, unit: str = " items"
) -> int:
    """Return `value` if it is a whole number from `least` to `most`; without `most` there is no upper limit.

    Args:
        call: The name of the call.
        option: The name of the option.
        value: The user's value.
        least: The least allowed value.
        most: The greatest allowed value; None: no limit.
        unit: The unit, with a space before it; "" if the option's name has it.

    Errors: `ConfigError` for any other value.
    """
    whole = is_whole(value)
    if not whole or value < least or (most is not None and value > most):
        limits = f"{least} or more" if most is None else f"{least} to {most}"
        refuse_value(call, option, value, f"{limits}{unit}{'' if whole else ', a whole number'}")
    return value


def require_seconds(call: str, option: str, value: float, *, zero: bool = False) -> float:
    """Return `value` if it is a time, in seconds, that is more than 0 (or 0, if `zero`).

    Errors: `ConfigError` for any other value.
    """
    number = finite(value)
    if number is None or number < 0 or (number == 0 and not zero):
        allowed = "0 or more" if zero else "more than 0"
        refuse_value(call, option, value, f"a finite number of seconds, {allowed}")
    return value


def require_number(call: str, option: str, value: float, least: float, most: float | None = None) -> float:
    """Return `value` if it is a number from `least` to `most`; without `most` there is no upper limit.

    Errors: `ConfigError` for any other value.
    """
    number = finite(value)
    if number is None or number < least or (most is not None and number > most):
        allowed = f"{least:g} or more" if most is None else f"{least:g} to {most:g}"
        refuse_value(call, option, value, f"a finite number, {allowed}")
    return value


def is_whole(value: object) -> bool:
    """Tell whether `value` is a whole number; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Tell whether `value` is a number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def finite(value: object) -> float | None:
    """Return `value` as a float; None if it is not a number, not finite, or too large for a float."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number may have any size
        return None
    return number if isfinite(number) else None
