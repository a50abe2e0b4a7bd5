"""Traces by OpenTelemetry: `pip install "rstreams[telemetry]"`.

    from rstreams import telemetry

    async with rstreams.connect(url) as connection:
        telemetry.instrument(connection)

From then on the messages that the connection sends carry the context of the trace (`traceparent`), and the functions
that handle received messages run in it. Without that call nothing is done for traces, and nothing is imported.

Spec: OpenTelemetry's semantic conventions for messaging, 1.44; W3C Trace Context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal

from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanKind,
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer,
    set_span_in_context,
    use_span,
)
from opentelemetry.util.types import AttributeValue

import rstreams
from rstreams._checks.choices import require_choice
from rstreams._core.contexts import carry
from rstreams.errors import ConfigError
from rstreams.message import Message
from rstreams.net.connection import Connection
from rstreams.net.links.connection_links import Links
from rstreams.telemetry._header import ContextReader, header_of
from rstreams.telemetry._receiving import ReceivingTraces
from rstreams.telemetry._sending import SendingTraces
from rstreams.telemetry._spans import MAX_LINKS, NODE_SYSTEM, OTHER_SYSTEM, SYSTEMS, LinkSpans, context_from, fail

__all__ = ["context_of", "instrument", "processing"]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"


def instrument(
    connection: object,
    tracer_provider: TracerProvider | None = None,
    *,
    spans: Literal["run", "message"] = "run",
) -> None:
    """Trace what a connection sends and receives from now on.

    The context of a message travels in its application properties `traceparent` and `tracestate`. It is the current
    one while a handler, or the function of an operator, works on the message.

    Args:
        connection: A connection of `rstreams`, `rstreams.aio` or `rstreams.blocking`. Streams and senders that are
            opened later are traced.
        tracer_provider: Makes the tracer; None: the global one.
        spans: "run": messages that come together share a process span, with links to the spans of their senders; and
            messages that are sent together share a send span. "message": each message has spans of its own, and its
            process span is the child of the sender's, and current in its handler.

    Errors: `ConfigError` for something that is no connection.
    Context: The thread of the connection, or before others use it.
    Spec: OpenTelemetry's semantic conventions for messaging, 1.44.
    """
    require_choice("instrument", "spans", spans, Literal["run", "message"])
    traced = connection
    while not isinstance(traced, Connection):
        traced = getattr(traced, "_connection", None)
        if traced is None:
            msg = f"instrument({connection!r:.80}): it must be a connection of rstreams"
            raise ConfigError(msg)
    tracer = _tracer(tracer_provider)
    links = traced._links  # noqa: SLF001 - the connection's own, and there is no other way to it
    links.tracing = _Tracing(links, tracer, each=spans == "message")
    carry(_CARRIER)


def context_of(message: Message | bytes | Mapping[str, Any]) -> Context:
    """Return the context that a message came with, as the parent of spans: empty if it came with none.

    A handler does not need this: its message's context is the current one. The body of a loop does:

        async for message in messages:
            with tracer.start_as_current_span("work", context=telemetry.context_of(message)):
                ...

    Args:
        message: The message, encoded or not; or its application properties.

    Context: Any thread; does not block.
    """
    if isinstance(message, bytes):
        return ContextReader(context_from).read(message) or Context()
    header = header_of(message.properties if isinstance(message, Message) else message)
    return Context() if header is None else context_from(header)


@contextmanager
def processing(
    messages: Sequence[Message | bytes | Mapping[str, Any]],
    address: str,
    *,
    count: int | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Iterator[Span]:
    """Have a process span for the block, which links to the spans that sent some messages; it is the current span.

    This is for a program that handles many messages at a time, such as a list of `buffer_time`:

        async for messages in connection.messages("orders").buffer_time(1.0):
            with telemetry.processing(messages, "orders"):
                ...

    Args:
        messages: The messages, each as for `context_of`. The span is the child of the first of them whose trace is
            recorded, and links to up to 128 of them.
        address: Where they come from.
        count: How many they are; None: as many as are given; 0: that is not known.
        tracer_provider: Makes the tracer; None: the global one.

    Errors: An exception of the block gives the span the status "error", and passes.
    Context: The task of the block.
    """
    spans = [get_current_span(context_of(each)).get_span_context() for each in messages]
    spans = [span for span in spans if span.is_valid]
    parent = next((span for span in spans if span.trace_flags.sampled), spans[0] if spans else None)
    context = Context() if parent is None else set_span_in_context(NonRecordingSpan(parent), Context())
    operations = LinkSpans(_tracer(tracer_provider), lambda: {"messaging.system": OTHER_SYSTEM}, address)
    span = operations.begin("process", SpanKind.CONSUMER, context, links=[Link(each) for each in spans[:MAX_LINKS]])
    size = len(messages) if count is None else count
    if size > 1:
        span.set_attribute("messaging.batch.message_count", size)
    with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield span
        except Exception as error:  # a cancellation is no failure
            fail(span, error)
            raise


def _tracer(provider: TracerProvider | None) -> Tracer:
    return get_tracer("rstreams", rstreams.__version__, provider, SCHEMA_URL)


class _OpenTelemetry:
    """Makes contexts of OpenTelemetry the current ones.

    OpenTelemetry keeps the current context in a `ContextVar`, unless a program has chosen something else. The variable
    itself costs a third of OpenTelemetry's functions, and handlers are called more often than all else.
    """

    def __init__(self) -> None:
        variable = getattr(getattr(contexts, "_RUNTIME_CONTEXT", None), "_current_context", None)
        self.current: Callable[[], Context] = contexts.get_current
        self.attach: Callable[[Any], Any] = contexts.attach
        self.detach: Callable[[Any], None] = contexts.detach
        if isinstance(variable, ContextVar):
            self.current, self.attach, self.detach = variable.get, variable.set, variable.reset


_CARRIER: Final = _OpenTelemetry()


class _Tracing:
    """Makes the traces of a connection; see `rstreams.net.links.tracing`."""

    def __init__(self, links: Links, tracer: Tracer, *, each: bool) -> None:
        self._links = links
        self._tracer = tracer
        self._each = each

    def sending(self, address: str | None, *, settled: bool = False) -> SendingTraces:
        """Return what traces a link that sends."""
        return SendingTraces(LinkSpans(self._tracer, self._about, address), each=self._each, settled=settled)

    def receiving(self, address: str, group: str | None) -> ReceivingTraces:
        """Return what traces a subscription."""
        return ReceivingTraces(LinkSpans(self._tracer, self._about, address, group), each=self._each)

    def _about(self) -> Mapping[str, AttributeValue]:
        """Return the attributes of the peer that the connection has now."""
        links = self._links
        host, _, port = links.peer.rpartition(":")
        is_node = links.carrier.peer_properties.get("product") == "rstreams"
        about: dict[str, AttributeValue] = {
            "messaging.system": NODE_SYSTEM if is_node else SYSTEMS.get(links.dialect.name, OTHER_SYSTEM),
            "server.address": host.strip("[]"),
        }
        if port.isdecimal():
            about["server.port"] = int(port)
        return about


def __dir__() -> list[str]:
    return __all__
