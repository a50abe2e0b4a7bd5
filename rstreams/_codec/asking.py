"""What a message asks of the address that it goes to, in its header, its annotations and its properties.

The names of annotations are those of other makes: brokers and their clients know them.

Spec: AMQP 1.0 sections 3.2.1 (header), 3.2.3 (message annotations) and 3.2.4 (properties).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntFlag
from typing import Any, Final

from rstreams._codec.decode import FUNCTIONS, Malformed, read_list, read_map, skip_value
from rstreams._codec.sections import HEADER, MESSAGE_ANNOTATIONS, PROPERTIES, read_section
from rstreams._codec.types import is_whole

_NORMAL_PRIORITY: Final = 4


class Wish(IntFlag):
    """A thing that a message, or a link, can ask for; `_values.c` uses the same numbers."""

    DURABLE = 1
    """To outlive a restart: `durable` of the header."""
    PRIORITY = 2
    """To pass others, or to be passed: `priority` of the header."""
    LIFETIME = 4
    """To go when it is too old: `ttl` of the header, `absolute-expiry-time` of the properties."""
    GROUP = 8
    """To go to one consumer with all messages of its group: `group-id` of the properties."""
    DELAY = 16
    """To be delivered later, or again at some times: an annotation of `DELAYS`."""
    COPIES = 32
    """To go to further addresses: the annotation `x-cc`."""
    TURN = 64
    """That a consumer gets messages before others: a property of its link, one of `TURNS`."""


DELAYS: Final = frozenset(
    {
        "x-opt-delivery-delay",
        "x-opt-delivery-time",
        "x-opt-delivery-cron",
        "x-opt-delivery-period",
        "x-opt-delivery-repeat",
        "x-opt-scheduled-enqueue-time",
        "x-delay",
    }
)
"""Annotations of ActiveMQ, Artemis, Service Bus and RabbitMQ."""

COPIES: Final = "x-cc"
"""The annotation of RabbitMQ."""

TURNS: Final = ("rabbitmq:priority", "priority")
"""Properties of a consumer's link, of RabbitMQ and of Artemis."""

may_ask: Final[Callable[[bytes, int], bool]] = FUNCTIONS.may_ask
"""As `forwarding_in_python.may_ask`, but it looks into the sections: False for more messages."""


def asked_by(encoded: bytes) -> Wish:
    """Return what a message asks for; bytes that are not a message ask for what is found before that shows."""
    found = Wish(0)
    at = before = 0
    try:
        while at < len(encoded):
            code, at = read_section(encoded, at, before)
            if code > PROPERTIES:
                break
            if code in _FIELDS:
                values, at = read_list(encoded, at)
                for index, wish, asks in _FIELDS[code]:
                    if index < len(values) and values[index] is not None and asks(values[index]):
                        found |= wish
            elif code == MESSAGE_ANNOTATIONS:
                notes, at = read_map(encoded, at)
                found |= asked_by_annotations(notes)
            else:
                at = skip_value(encoded, at)
            before = code
    except Malformed:
        pass  # the consumer that decodes it gets the error
    return found


def asked_by_annotations(notes: Mapping[Any, Any]) -> Wish:
    """Return what annotations ask for."""
    found = Wish.COPIES if notes.get(COPIES) is not None else Wish(0)
    return found | Wish.DELAY if any(notes.get(name) is not None for name in DELAYS) else found


def asked_by_link(properties: Mapping[str, Any]) -> Wish:
    """Return what the properties of a consumer's link ask for."""
    return Wish.TURN if any(properties.get(name) for name in TURNS) else Wish(0)


def _is_given(value: object) -> bool:
    return value != ""


_FIELDS: Final[Mapping[int, tuple[tuple[int, Wish, Callable[[Any], bool]], ...]]] = {
    HEADER: (
        (0, Wish.DURABLE, lambda value: value is True),
        (1, Wish.PRIORITY, lambda value: is_whole(value) and value != _NORMAL_PRIORITY),
        (2, Wish.LIFETIME, is_whole),
    ),
    PROPERTIES: ((8, Wish.LIFETIME, _is_given), (10, Wish.GROUP, _is_given)),
}
"""The fields by which a message asks: the place, what for, and whether a value asks for it."""
