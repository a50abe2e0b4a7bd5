"""Lines of the log in tests: they are told once a second, and a test does not wait for that."""

from __future__ import annotations

from rstreams._events.seldom import LOOPS


def tell_counts() -> None:
    """Have the log tell now what was counted here, and begin anew."""
    for loop in LOOPS:
        lines = loop()
        if lines is not None:
            lines.forget()
