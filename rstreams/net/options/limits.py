"""The limits and options that clients and listeners share, checked before anything is opened."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final

from rstreams.errors import ConfigError
from rstreams.protocol import unsettled
from rstreams.protocol.byte_bound import check_window_bytes

MAX_IDLE_TIMEOUT_S: Final = (2**32 - 1) // 1000
"""The longest idle time-out AMQP can tell: a number of milliseconds in 32 bits (2.7.1)."""

MIN_IDLE_TIMEOUT_S: Final = 0.2
"""The shortest: the peer is told half of it, and a peer that is rstreams takes no idle time-out below 100 ms."""

DEFAULT_IDLE_TIMEOUT_S: Final = 30.0
DEFAULT_MAX_FRAME_BYTES: Final = 64 * 1024
DEFAULT_MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
DEFAULT_MAX_UNSETTLED: Final = unsettled.DEFAULT_MAX_UNSETTLED
DEFAULT_MAX_UNSETTLED_BYTES: Final = unsettled.DEFAULT_MAX_UNSETTLED_BYTES
DEFAULT_TOTAL_UNSETTLED_BYTES: Final = unsettled.DEFAULT_TOTAL_UNSETTLED_BYTES
DEFAULT_MAX_LINKS: Final = 1024
DEFAULT_MAX_SESSIONS: Final = 256
DEFAULT_MAX_UNFINISHED_BYTES: Final = 72 * 1024 * 1024
DEFAULT_TOTAL_UNFINISHED_BYTES: Final = 80 * 1024 * 1024

MIN_FRAME_BYTES: Final = 512
"""What every peer must take (2.7.1)."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits that this side sets a connection and its peer.

    Attributes:
        idle_timeout_s: Seconds of silence after which the peer counts as dead; it is told half of them.
        max_frame_bytes: The largest frame this side takes.
        max_message_bytes: The largest message this side takes; None: any size.
        max_links: The most links of the connection. A further link that the peer attaches is refused.
        max_sessions: The most sessions of both sides together.
        window_bytes: The most bytes that may be on hand of one link that the peer attaches; None: any number.
        max_unfinished_bytes: The most bytes of messages that have not come whole. A client does not count them.

    Errors: `ConfigError` naming the limit.
    """

    idle_timeout_s: float = DEFAULT_IDLE_TIMEOUT_S
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    max_message_bytes: int | None = DEFAULT_MAX_MESSAGE_BYTES
    max_links: int = DEFAULT_MAX_LINKS
    max_sessions: int = DEFAULT_MAX_SESSIONS
    window_bytes: int | None = None
    max_unfinished_bytes: int = DEFAULT_MAX_UNFINISHED_BYTES

    def __post_init__(self) -> None:
        """Check each limit by itself."""
        if not _is_number(self.idle_timeout_s) or not MIN_IDLE_TIMEOUT_S <= self.idle_timeout_s <= MAX_IDLE_TIMEOUT_S:
            allowed = f"{MIN_IDLE_TIMEOUT_S} to {MAX_IDLE_TIMEOUT_S} seconds"
            msg = f"idle_timeout_s={self.idle_timeout_s!r}: it must be {allowed}"
            raise ConfigError(msg)
        frame_bytes = self.max_frame_bytes
        whole = isinstance(frame_bytes, int) and not isinstance(frame_bytes, bool)
        if not whole or not MIN_FRAME_BYTES <= frame_bytes <= 2**32 - 1:
            msg = f"max_frame_bytes={frame_bytes!r}: frames must be allowed {MIN_FRAME_BYTES} to {2**32 - 1} bytes"
            raise ConfigError(msg)
        if self.max_message_bytes is not None:
            check_count("max_message_bytes", self.max_message_bytes, "bytes", most=2**63 - 1)
        check_count("max_links", self.max_links, "links")
        check_count("max_sessions", self.max_sessions, "sessions", most=65536)
        check_window_bytes(self.window_bytes)
        check_count("max_unfinished_bytes", self.max_unfinished_bytes, "bytes", most=2**63 - 1)


def check_function(call: str, option: str, function: object) -> None:
    """Check what is to be called.

    Errors: `ConfigError` unless it is a function.
    """
    if not callable(function):
        msg = f"{call}({option}={function!r:.80}): it must be a function"
        raise ConfigError(msg)


def check_time(option: str, seconds: float) -> None:
    """Check a time limit.

    Errors: `ConfigError` unless it is more than 0 seconds.
    """
    if not _is_number(seconds) or not seconds > 0:
        msg = f"{option}={seconds!r}: it must be more than 0 seconds"
        raise ConfigError(msg)


def check_count(option: str, value: int, what: str, *, most: int = 2**31 - 1) -> int:
    """Return a limit.

    Errors: `ConfigError` unless it is a whole number from 1 to `most`.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        msg = f"{option}={value!r}: it must be a whole number of 1 to {most} {what}"
        raise ConfigError(msg)
    return value


def check_unsettled(max_unsettled: int, max_unsettled_bytes: int) -> unsettled.UnsettledLimits:
    """Return what one sending link may have unsettled.

    Errors: `ConfigError` unless both are whole numbers from 1.
    """
    return unsettled.UnsettledLimits(
        check_count("max_unsettled", max_unsettled, "items"),
        check_count("max_unsettled_bytes", max_unsettled_bytes, "bytes", most=2**63 - 1),
    )


def check_tls(tls: ssl.SSLContext | None, *, server: bool) -> None:
    """Check a TLS context.

    Errors: `ConfigError` unless it is None or a context for this side.
    """
    wanted = "rstreams.tls.server_context(...)" if server else "rstreams.tls.client_context(...)"
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        msg = f"tls={tls!r}: it must be None or an ssl.SSLContext, such as {wanted} makes"
        raise ConfigError(msg)
    if tls is not None and tls.protocol is (ssl.PROTOCOL_TLS_CLIENT if server else ssl.PROTOCOL_TLS_SERVER):
        msg = f"tls={tls!r}: the context is made for the other side of a connection; use {wanted}"
        raise ConfigError(msg)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
