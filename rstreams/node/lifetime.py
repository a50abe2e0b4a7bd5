"""How long a message may wait: its time to live and its expiry time, read from the encoded message and removed from it.

Spec: AMQP 1.0 sections 3.2.1 (ttl) and 3.2.4 (absolute-expiry-time).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from rstreams import _machine
from rstreams._codec.annotations import with_annotations
from rstreams._codec.decode import Malformed, skip_value
from rstreams._codec.encode import NULL, encode_fields, encode_value
from rstreams._codec.forwarding import lifetime_of, split_list
from rstreams._codec.sections import HEADER, PROPERTIES, START, read_section
from rstreams.errors import ConfigError
from rstreams.net.links.failures import FAILURE_ADDRESS, FAILURE_TEXT
from rstreams.node.failure import TOLD
from rstreams.protocol.delivery import MAX_TEXT

DELIVERY_COUNT: Final = "x-opt-rstreams-delivery-count"
"""The annotation of a dead letter with the number of attempts to deliver it that failed."""

_TTL: Final = 2
_FIRST_ACQUIRER: Final = 3
_DELIVERY_COUNT: Final = 4
_EXPIRY: Final = 8


@dataclass(slots=True)
class QueueClock:
    """The source of time of a queue; a node gives it its own.

    Attributes:
        now: Returns seconds that only go on.
        today: Returns the date and time, which may be set.
        wake_at: Called with the time at which the queue has something to do, whenever that may be earlier than before.
    """

    now: Callable[[], float] = _machine.monotonic
    today: Callable[[], datetime] = _machine.today_utc
    wake_at: Callable[[float], None] = lambda _: None

    def deadline(self, encoded: bytes, age_s: float = 0.0) -> float:
        """Return the time by `now` at which a message that came `age_s` ago is too old; infinity for never."""
        if encoded[2:3] > b"s":  # its first section comes after the properties (0x73)
            return math.inf
        try:
            ttl_s, expiry = lifetime_of(encoded)
        except Malformed:
            return math.inf  # not an AMQP message: the queue stores it nevertheless
        ttl_s -= age_s
        if expiry is not None:
            ttl_s = min(ttl_s, (expiry - self.today()).total_seconds())
        return math.inf if ttl_s == math.inf else self.now() + ttl_s


def dead_letter(
    encoded: bytes, reason: str, address: str, failures: int, told: Mapping[str, Any] = MappingProxyType({})
) -> bytes:
    """Return a message annotated with its failure, and without its time to live; a malformed one is not changed.

    Args:
        encoded: The message.
        reason: Why it is a dead letter.
        address: The queue that it comes from.
        failures: How many attempts to deliver it have failed.
        told: Annotations that describe these attempts.
    """
    annotations = {FAILURE_TEXT: reason[:MAX_TEXT], FAILURE_ADDRESS: address, DELIVERY_COUNT: failures, **told}
    try:
        added = {name: encode_value(value) for name, value in annotations.items()}
        return with_annotations(_without_lifetime(encoded), added, removed=TOLD)
    except Malformed:
        return encoded


def annotated(encoded: bytes, annotations: Mapping[str, Any]) -> bytes:
    """Return the message with more annotations; a malformed one, or one that cannot be annotated, is not changed."""
    try:
        return with_annotations(encoded, {str(name): encode_value(value) for name, value in annotations.items()})
    except (*Malformed, ConfigError):
        return encoded


def _without_lifetime(encoded: bytes) -> bytes:
    """Return the same message without time to live, expiry time and delivery count."""
    parts: list[bytes] = []
    at = before = 0
    while at < len(encoded):
        code, content = read_section(encoded, at, before)
        if code > PROPERTIES:
            break
        if code in {HEADER, PROPERTIES}:
            fields, end = split_list(encoded, content)
            for index in (_TTL, _FIRST_ACQUIRER, _DELIVERY_COUNT) if code == HEADER else (_EXPIRY,):
                if index < len(fields):
                    fields[index] = NULL
            parts.append(START[code] + encode_fields(fields))
        else:
            end = skip_value(encoded, content)
            parts.append(encoded[at:end])
        before, at = code, end
    return b"".join(parts) + encoded[at:]
