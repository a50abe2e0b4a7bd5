"""The limits and options that clients and listeners share, checked before anything is opened."""

from __future__ import annotations

import math
import ssl
from dataclasses import dataclass
from typing import Final

from rstreams._checks.numbers import is_number, require_count
from rstreams._checks.refusals import refuse_value
from rstreams.errors import ConfigError
from rstreams.protocol import unsettled
from rstreams.protocol.byte_bound import require_window_bytes

MAX_IDLE_TIMEOUT_S: Final = (2**32 - 1) // 1000
"""The longest idle time-out AMQP can tell: a number of milliseconds in 32 bits (2.7.1)."""

MIN_IDLE_TIMEOUT_S: Final = 0.2
"""The shortest: the peer is told half of it, and a peer that is rstreams takes no idle time-out below 100 ms."""

DEFAULT_IDLE_TIMEOUT_S: Final = 30.0
DEFAULT_ANSWER_TIMEOUT_S: Final = 60.0
DEFAULT_MAX_FRAME_BYTES: Final = 128 * 1024
DEFAULT_MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
DEFAULT_MAX_UNSETTLED: Final = unsettled.DEFAULT_MAX_UNSETTLED
DEFAULT_MAX_UNSETTLED_BYTES: Final = unsettled.DEFAULT_MAX_UNSETTLED_BYTES
DEFAULT_TOTAL_UNSETTLED_BYTES: Final = unsettled.DEFAULT_TOTAL_UNSETTLED_BYTES
DEFAULT_MAX_LINKS: Final = 1024
DEFAULT_TOTAL_LINKS: Final = 32768
DEFAULT_MAX_SESSIONS: Final = 256
DEFAULT_MAX_UNFINISHED_BYTES: Final = 72 * 1024 * 1024
DEFAULT_TOTAL_UNFINISHED_BYTES: Final = 80 * 1024 * 1024
DEFAULT_MAX_CONNECTIONS: Final = 1000

DEFAULT_TOTAL_STORED_BYTES: Final = 256 * 1024 * 1024
"""The most bytes of all addresses of a node together, if nobody says another number."""

DEFAULT_DRAIN_S: Final = 10.0
"""How long a node that is told to end may finish the work under way, in seconds."""

MAX_COUNT: Final = 2**31 - 1
"""The most of a limit that is not in bytes."""

MIN_FRAME_BYTES: Final = 512
"""The frame size that every peer must accept (2.7.1)."""


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
        answer_timeout_s: Seconds until the peer must have answered an attach or a detach; infinite: no limit. A node
            has none: its clients may settle what they have before they answer.

    Errors: `ConfigError` naming the limit.
    """

    idle_timeout_s: float = DEFAULT_IDLE_TIMEOUT_S
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    max_message_bytes: int | None = DEFAULT_MAX_MESSAGE_BYTES
    max_links: int = DEFAULT_MAX_LINKS
    max_sessions: int = DEFAULT_MAX_SESSIONS
    window_bytes: int | None = None
    max_unfinished_bytes: int = DEFAULT_MAX_UNFINISHED_BYTES
    answer_timeout_s: float = math.inf

    def __post_init__(self) -> None:
        """Check each limit by itself."""
        if not is_number(self.idle_timeout_s) or not MIN_IDLE_TIMEOUT_S <= self.idle_timeout_s <= MAX_IDLE_TIMEOUT_S:
            allowed = f"{MIN_IDLE_TIMEOUT_S} to {MAX_IDLE_TIMEOUT_S} seconds"
            refuse_value("", "idle_timeout_s", self.idle_timeout_s, allowed)
        require_count("", "max_frame_bytes", self.max_frame_bytes, MIN_FRAME_BYTES, 2**32 - 1, unit=" bytes")
        if self.max_message_bytes is not None:
            require_count("", "max_message_bytes", self.max_message_bytes, 1, 2**63 - 1, unit=" bytes")
        require_count("", "max_links", self.max_links, 1, MAX_COUNT, unit=" links")
        require_count("", "max_sessions", self.max_sessions, 1, 65536, unit=" sessions")
        require_window_bytes(self.window_bytes)
        require_count("", "max_unfinished_bytes", self.max_unfinished_bytes, 1, 2**63 - 1, unit=" bytes")
        require_time_limit("answer_timeout_s", self.answer_timeout_s)


def require_time_limit(option: str, seconds: float) -> float:
    """Return a time limit if it is more than 0 seconds; it may be infinite.

    Errors: `ConfigError` for any other value.
    """
    if not is_number(seconds) or not seconds > 0:
        refuse_value("", option, seconds, "more than 0 seconds, or math.inf for no limit")
    return seconds


def require_unsettled(max_unsettled: int, max_unsettled_bytes: int) -> unsettled.UnsettledLimits:
    """Return the limits of one sending link's unsettled deliveries.

    Errors: `ConfigError` unless both are whole numbers from 1.
    """
    return unsettled.UnsettledLimits(
        require_count("", "max_unsettled", max_unsettled, 1, MAX_COUNT, unit=" items"),
        require_count("", "max_unsettled_bytes", max_unsettled_bytes, 1, 2**63 - 1, unit=" bytes"),
    )


def require_tls(tls: ssl.SSLContext | None, *, server: bool) -> None:
    """Check a TLS context.

    Errors: `ConfigError` unless it is None or a context for this side.
    """
    wanted = "rstreams.tls.server_context(...)" if server else "rstreams.tls.client_context(...)"
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        refuse_value("", "tls", tls, f"None or an ssl.SSLContext, such as {wanted} makes")
    if tls is not None and tls.protocol is (ssl.PROTOCOL_TLS_CLIENT if server else ssl.PROTOCOL_TLS_SERVER):
        msg = f"tls={tls!r}: the context is made for the other side of a connection; use {wanted}"
        raise ConfigError(msg)
