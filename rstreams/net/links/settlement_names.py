"""The names of settlement modes, as users of a connection give them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from rstreams.errors import ConfigError
from rstreams.net.links.effectively_once import EFFECTIVELY_ONCE, require_dedup_window
from rstreams.protocol.frames import Settlement

SettlementName: TypeAlias = Literal["at_most_once", "at_least_once", "effectively_once"]
"""How an item is settled; see `Connection.stream` and `Connection.publish`."""


def settlement_named(name: str, *more: str) -> Settlement:
    """Return the settlement mode on the wire for a name.

    Args:
        name: The name.
        more: Further names that the call allows, for the text of the error.

    Errors: `ConfigError` for a name that no mode has.
    """
    if name == EFFECTIVELY_ONCE:
        return Settlement.AT_LEAST_ONCE
    try:
        return Settlement(name)
    except ValueError:
        *allowed, last = [repr(each) for each in (*(mode.value for mode in Settlement), EFFECTIVELY_ONCE, *more)]
        msg = f"settlement={name!r}: it must be {', '.join(allowed)} or {last}"
        raise ConfigError(msg) from None


def remembered_for(settlement: str, dedup_window: int | None, window: int) -> int:
    """Return how many accepted messages are remembered, to drop them when they come again; 0: none.

    Errors: `ConfigError` for a `dedup_window` that is not allowed, or that does not go with the settlement.
    """
    if settlement == EFFECTIVELY_ONCE or (settlement == "manual" and dedup_window is not None):
        return require_dedup_window(dedup_window, window)
    if dedup_window is not None:
        allowed = f"settlement={EFFECTIVELY_ONCE!r} or 'manual', not with {settlement!r}"
        msg = f"dedup_window={dedup_window!r} is allowed only with {allowed}"
        raise ConfigError(msg)
    return 0
