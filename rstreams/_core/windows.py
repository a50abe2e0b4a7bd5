"""How many items are asked for before they are wanted: the windows of loops and of stages with workers."""

from __future__ import annotations

from typing import Final

from rstreams._checks.numbers import require_count
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscription
from rstreams.errors import ConfigError

WINDOW: Final = 256
"""The default window."""

GROWN_WINDOW: Final = 1024
"""The largest default window of a link, while its messages are small, and of a loop over such a link."""


def window_ahead_of(subscription: Subscription) -> int:
    """Return how many items a loop has asked for ahead by default: 256, or as many as the window of their link has.

    These items count in that window until they are done. Items that come settled have no such window: 256.
    """
    window = getattr(subscription, "window", UNBOUNDED)
    return WINDOW if window == UNBOUNDED else min(max(WINDOW, window), GROWN_WINDOW)


def require_open_window(window: int | None) -> int | None:
    """Return the `window` of a call of `Stream.open`; None: the default.

    Errors: `ConfigError` if it is less than 1.
    """
    return None if window is None else require_count("open", "window", window, 1)


def require_ahead(call: str, option: str, least: int, window: int | None) -> int:
    """Return the most items in hand and asked for.

    Args:
        call: The name of the call.
        option: The name of the option that says how many items are in hand at most.
        least: The value of that option.
        window: The user's window; None: 256, or `least` if that is more.

    Errors: `ConfigError` if `least` is less than 1, or `window` less than `least`.
    """
    require_count(call, option, least, 1, unit="")
    if window is None:
        return max(WINDOW, least)
    require_count(call, "window", window, 1)
    if window < least:
        msg = f"{call}({option}={least!r}): window={window!r} allows only {window} items in progress"
        raise ConfigError(msg)
    return window
