"""The properties of requests and replies for which AMQP 1.0 has no field.

A request tells how many replies it wants, and how it learns that there are no more. All of them are application
properties, which every broker passes on. A requester or responder of another library does not need to know them: a
request without them gets all replies, and a reply without them is an ordinary one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from rstreams import _machine
from rstreams._codec.message_fields import check_properties
from rstreams.errors import Condition, ConfigError, RequestFailed, condition_of
from rstreams.message import Message, MessageId, encode_item

_MAX_TTL_S: Final = (2**32 - 1) / 1000

REPLIES: Final = "rstreams-replies"
"""The property of a request that tells how it wants its replies: `ONE`, `STREAM` or `MARKED`."""

ONE: Final = "one"
STREAM: Final = "stream"
"""Any number, to an address of the request's own; the sender detaches after the last one."""
MARKED: Final = "marked"
"""Any number; the last one is marked, or a mark comes after it."""

REPLY: Final = "rstreams-reply"
"""The property of a reply that is marked: `LAST` or `END`."""

LAST: Final = "last"
END: Final = "end"
"""A message that is not a reply: there are no more."""

ERROR_CONDITION: Final = "rstreams-error-condition"
ERROR_DESCRIPTION: Final = "rstreams-error-description"

TEMPORARY: Final = "temporary-queue"
"""The capability of an address that is made for a link; brokers that serve JMS clients need it."""

REPLY_STREAM: Final = "rstreams:reply-stream"
"""The capability of a temporary address with one sender; when the sender ends, the receiver does as well."""

REPLY_QUEUE: Final = "rstreams:reply-queue"
"""The capability of a temporary address that takes the replies to any number of requests, from any sender."""

NO_REPLY: Final = "rstreams:no-reply"
"""The condition of a request without a reply."""


def encode_request(
    item: object, key: MessageId, wants: str, *, reply_to: str | None = None, left_s: float | None = None
) -> bytes:
    """Return an encoded request.

    Args:
        item: A `Message`, or a value.
        key: Its id, and the correlation id of its replies.
        wants: How it wants its replies; see `REPLIES`.
        reply_to: The address for them.
        left_s: How long somebody waits for the reply; None: for ever. A message's own fields go first.

    Errors: `ConfigError` if it cannot be encoded.
    """
    fields: dict[str, Any] = {"id": key, "correlation_id": key, "reply_to": reply_to}
    message = item if isinstance(item, Message) else None
    if left_s is not None and left_s <= _MAX_TTL_S:
        left_s = max(left_s, 0.0)
        if message is None or message.ttl_s is None:
            fields["ttl_s"] = math.ceil(left_s * 1000) / 1000
        if message is None or message.expiry_time is None:
            fields["expiry_time"] = _machine.today_utc() + timedelta(seconds=left_s)
    if message is None:
        return encode_item(Message(item, properties={REPLIES: wants}, **fields))
    check_properties(message.properties)
    return encode_item(replace(message, properties={**message.properties, REPLIES: wants}, **fields))


def reply_to(request: Message, item: object, *, last: bool = False) -> Message:
    """Return the reply that carries `item`, a `Message` or a value.

    Errors: `ConfigError` if it cannot be encoded.
    """
    reply = _about(request, item)
    try:
        if last:
            check_properties(reply.properties)
            reply = replace(reply, properties={**reply.properties, REPLY: LAST})
        encode_item(reply)
    except ConfigError as error:
        msg = f"the handler's reply to request {request.id!r:.80}: {error}"
        raise ConfigError(msg) from error
    return reply


def failure_to(request: Message, error: BaseException, *, expose: bool) -> Message:
    """Return the message that there is no reply, with the reason."""
    failed = told(error, expose=expose)
    properties = {ERROR_CONDITION: failed.condition, ERROR_DESCRIPTION: failed.description}
    return _about(request, Message(properties=properties))


def failure_instead(reply: Message, error: BaseException) -> Message | None:
    """Return the message that a reply cannot be sent, with the reason; None if the reply is such a message itself."""
    if failure_of(reply) is not None:
        return None
    return failure_to(Message(correlation_id=reply.correlation_id, reply_to=reply.address), error, expose=True)


def end_of(request: Message) -> Message:
    """Return the mark after the last reply."""
    return _about(request, Message(properties={REPLY: END}))


def told(error: BaseException, *, expose: bool) -> RequestFailed:
    """Return the condition and description of `error` for the requester."""
    condition, description, _ = condition_of(error, expose=expose)
    if condition == Condition.INTERNAL_ERROR and not expose and not isinstance(error, RequestFailed):
        description = "the handler failed"
    return RequestFailed(condition, description)


def failure_of(reply: Message) -> RequestFailed | None:
    """Return the failure in a reply; None if it is an ordinary one."""
    condition = reply.properties.get(ERROR_CONDITION)
    if condition is None:
        return None
    return RequestFailed(str(condition), str(reply.properties.get(ERROR_DESCRIPTION) or ""))


def decoded(payload: bytes, decode: Callable[[bytes], Any]) -> tuple[Any, Exception | None]:
    """Return the item of an encoded message, or the exception of its decoder."""
    try:
        return decode(payload), None
    except Exception as error:  # the user's own decoder may raise anything
        return None, error


def has_expired(request: Message) -> bool:
    """Whether the requester does not wait for the reply any more, by this machine's clock."""
    return request.expiry_time is not None and request.expiry_time <= _machine.today_utc()


def _about(request: Message, item: object) -> Message:
    correlation = request.id if request.correlation_id is None else request.correlation_id
    if isinstance(item, Message):
        return replace(item, correlation_id=correlation, address=request.reply_to, reply_to=None)
    return Message(item, correlation_id=correlation, address=request.reply_to)
