"""Connections whose spans a test sees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import SpanContext, Tracer

import rstreams
from rstreams import Connection, Node, telemetry


class Traces:
    """Spans that have ended."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = self.provider.get_tracer("tests")

    def all(self) -> list[ReadableSpan]:
        """Return them in the order in which they ended."""
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """Return those with a name."""
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        """Return the only one with a name."""
        (span,) = self.named(name)
        return span


def trace_of(span: ReadableSpan) -> int:
    """Return the id of a span's trace."""
    return _context_of(span).trace_id


def id_of(span: ReadableSpan) -> int:
    """Return the id of a span."""
    return _context_of(span).span_id


def _context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None, "a span that has ended was begun"
    return context


def parent_of(span: ReadableSpan) -> int | None:
    """Return the id of the span's parent."""
    return None if span.parent is None else span.parent.span_id


def links_of(span: ReadableSpan) -> list[int]:
    """Return the ids of the spans that a span links to."""
    return [link.context.span_id for link in span.links]


def about(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of a span, without those of the peer."""
    return {name: value for name, value in (span.attributes or {}).items() if not name.startswith("server.")}


@asynccontextmanager
async def traced(
    traces: Traces,
    *queues: str,
    **options: Any,  # noqa: ANN401 - those of `instrument`
) -> AsyncIterator[tuple[Node, Connection]]:
    """Have a node with queues, and a connection to it that is traced."""
    async with rstreams.Node() as node:
        for queue in queues:
            node.queue(queue)
        url = (await node.listen("127.0.0.1:0")).url
        async with rstreams.connect(url) as connection:
            telemetry.instrument(connection, traces.provider, **options)
            yield node, connection
