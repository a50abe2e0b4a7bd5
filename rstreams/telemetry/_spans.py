"""Spans of messaging, by the semantic conventions of OpenTelemetry 1.44: their names, kinds, attributes and errors.

No attribute has a body, a credential or the text of an error: that may have either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)
from opentelemetry.util.types import AttributeValue

from rstreams.errors import DeliveryFailed
from rstreams.telemetry._header import Header

MAX_LINKS: Final = 128
"""The most links of a span: as many as the SDK of OpenTelemetry keeps by default."""

MAX_ID_CHARACTERS: Final = 256

SYSTEMS: Final = {
    "rabbitmq4": "rabbitmq",
    "rabbitmq310": "rabbitmq",
    "artemis": "activemq",
    "activemq": "activemq",
    "servicebus": "servicebus",
    "eventhubs": "eventhubs",
}
"""`messaging.system` by the dialect of the peer; of others it is "amqp"."""

NODE_SYSTEM: Final = "rstreams"
OTHER_SYSTEM: Final = "amqp"


class LinkSpans:
    """Begins the spans of one link.

    Args:
        tracer: Makes them.
        about: Returns the attributes that tell the peer; the peer may change with the connection.
        address: The address of the link; None: each message has its own.
        group: The consumer group of the link.
    """

    def __init__(
        self,
        tracer: Tracer,
        about: Callable[[], Mapping[str, AttributeValue]],
        address: str | None,
        group: str | None = None,
    ) -> None:
        self._tracer = tracer
        self._about = about
        self._name = "" if address is None else f" {address}"
        self._attributes: dict[str, AttributeValue] = {}
        if address is not None:
            self._attributes["messaging.destination.name"] = address
        if group is not None:
            self._attributes["messaging.consumer.group.name"] = group

    def begin(
        self, operation: str, kind: SpanKind, context: Context, type_: str = "", links: Sequence[Link] = ()
    ) -> Span:
        """Begin the span of an operation; `type_` is its type, by default its name."""
        attributes = {
            **self._about(),
            **self._attributes,
            "messaging.operation.name": operation,
            "messaging.operation.type": type_ or operation,
        }
        return self._tracer.start_span(f"{operation}{self._name}", context, kind, attributes, links)


def fail(span: Span, error: BaseException | str) -> None:
    """Note that the operation of a span has failed."""
    name = error if isinstance(error, str) else error_type(error)
    span.set_attribute("error.type", name)
    span.set_status(Status(StatusCode.ERROR, name))


def error_type(error: BaseException) -> str:
    """Return the AMQP condition of an error, or else the outcome of a delivery, or else the name of its class."""
    condition = getattr(error, "condition", None)
    if isinstance(condition, str) and condition:
        return condition
    if isinstance(error, DeliveryFailed):
        return error.outcome
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def context_from(header: Header) -> Context:
    """Return the context that a message came with: its span is of another process."""
    _, trace_id, span_id, flags = header.parent.split("-")
    state = TraceState.from_header([header.state]) if header.state else None
    span = SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)), trace_state=state
    )
    return set_span_in_context(NonRecordingSpan(span), Context())


def header_from(span: SpanContext) -> Header:
    """Return what is written into a message that is sent in the context of a span."""
    state = span.trace_state.to_header() if span.trace_state else ""
    return Header(f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags & 0xFF:02x}", state)
