"""The options that clients and listeners share, checked before anything is opened."""

from __future__ import annotations

from typing import Final

from rstreams.errors import ConfigError

MAX_IDLE_TIMEOUT_S: Final = (2**32 - 1) // 1000
"""The longest idle time-out AMQP can tell: a number of milliseconds in 32 bits (2.7.1)."""

MIN_FRAME_BYTES: Final = 512
"""What every peer must take (2.7.1)."""


def check_idle_timeout(idle_timeout_s: float) -> None:
    """Check an idle time-out.

    Errors: `ConfigError` unless it is 0.001 to 4294967 seconds.
    """
    if not _is_number(idle_timeout_s) or not 0.001 <= idle_timeout_s <= MAX_IDLE_TIMEOUT_S:
        msg = f"idle_timeout_s={idle_timeout_s!r}: it must be 0.001 to {MAX_IDLE_TIMEOUT_S} seconds"
        raise ConfigError(msg)


def check_connect_timeout(connect_timeout_s: float) -> None:
    """Check the time a connection may take to open.

    Errors: `ConfigError` unless it is more than 0 seconds.
    """
    if not _is_number(connect_timeout_s) or not connect_timeout_s > 0:
        msg = f"connect_timeout_s={connect_timeout_s!r}: it must be more than 0 seconds"
        raise ConfigError(msg)


def check_max_frame(max_frame_bytes: int) -> None:
    """Check the size of the largest frame.

    Errors: `ConfigError` unless it is a whole number of 512 to 2^32-1 bytes.
    """
    whole = isinstance(max_frame_bytes, int) and not isinstance(max_frame_bytes, bool)
    if not whole or not MIN_FRAME_BYTES <= max_frame_bytes <= 2**32 - 1:
        msg = f"max_frame_bytes={max_frame_bytes!r}: frames must be allowed {MIN_FRAME_BYTES} to {2**32 - 1} bytes"
        raise ConfigError(msg)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
