"""CloudEvents in messages, as their AMQP binding says: `pip install "rstreams[cloudevents]"`.

The events are those of the SDK of CloudEvents for Python. This module gives them the types of AMQP: the time of an
event is a timestamp. It has the functions for the options `encode` and `decode`:

    await connection.publish("orders", events, encode=encode_event)
    received = connection.stream("orders", decode=decode_event)

Spec: CloudEvents 1.0.2, AMQP Protocol Binding; both modes of content are read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.amqp import AMQPMessage, from_amqp, to_binary, to_structured
from cloudevents.core.exceptions import BaseCloudEventException
from cloudevents.core.formats.json import JSONFormat

from rstreams.errors import ConfigError
from rstreams.message import Message, decode_message

__all__ = ["decode_event", "encode_event"]

_FORMAT: Final = JSONFormat()
_PREFIX: Final = "cloudEvents_"
_OTHER_PREFIX: Final = "cloudEvents:"
_STRUCTURED: Final = "application/cloudevents"


def encode_event(event: BaseCloudEvent, *, structured: bool = False) -> Message:
    """Return the message of an event.

    Args:
        event: The event, such as a `cloudevents.core.v1.event.CloudEvent`.
        structured: Whether all of the event is JSON in the body. Otherwise its data is the body, and its attributes are
            application properties whose names begin with `cloudEvents_`.

    Errors: `ConfigError` for what is no event, or has data that is no dict, str or bytes, or a dict that JSON has not.
    Context: Any thread; does not block.
    """
    if not hasattr(event, "get_attributes"):
        msg = (
            f"encode_event({event!r:.80}): it must be an event of the SDK, such as cloudevents.core.v1.event.CloudEvent"
        )
        raise ConfigError(msg)
    data = event.get_data()
    if not isinstance(data, dict | str | bytes | None):  # the SDK would send its `str`
        msg = f"the data of the event {event.get_id()!r:.80} must be a dict, str, bytes or None, not {data!r:.80}"
        raise ConfigError(msg)
    try:
        made = to_structured(event, _FORMAT) if structured else to_binary(event, _FORMAT)
    except (TypeError, ValueError) as error:
        msg = f"the data of the event {event.get_id()!r:.80} cannot be encoded: {error}"
        raise ConfigError(msg) from error
    times = {f"{_PREFIX}{name}": each for name, each in event.get_attributes().items() if isinstance(each, datetime)}
    properties = made.application_properties if structured else made.application_properties | times
    return Message(made.application_data, content_type=made.properties.get("content-type"), properties=properties)


def decode_event(message: bytes | Message) -> BaseCloudEvent:
    """Return the event of a message.

    Args:
        message: The message, encoded or not; its body must be bytes or text.

    Errors: `ConfigError` for a message without an event, or with one that is not whole.
    Context: Any thread; does not block.
    """
    if not isinstance(message, Message):
        message = decode_message(message)
    body = message.body.encode() if isinstance(message.body, str) else message.body
    content_type = message.content_type or ""
    is_structured = content_type.lower().startswith(_STRUCTURED)
    if not is_structured and not any(name.startswith((_PREFIX, _OTHER_PREFIX)) for name in message.properties):
        msg = f"the message has no CloudEvent: its content type is {content_type!r:.80}, and no property has its prefix"
        raise ConfigError(msg)
    if not isinstance(body, bytes):
        msg = f"the body of a CloudEvent must be bytes, not {body!r:.80}"
        raise ConfigError(msg)
    found = {"content-type": str(content_type)} if content_type else {}
    try:
        return from_amqp(AMQPMessage(found, dict(message.properties), body), _FORMAT)
    except (AttributeError, BaseCloudEventException, KeyError, TypeError, ValueError) as error:
        msg = f"the message has a CloudEvent that is not whole: {error}"
        raise ConfigError(msg) from error


def __dir__() -> list[str]:
    return __all__
