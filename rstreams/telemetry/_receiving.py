"""Traces of the messages that a subscription receives: a process span a run, or a message, and settle spans.

A message whose sender does not record its trace costs no span. Its context is the current one where it is handled, so
that nothing behind it is recorded either.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, get_current_span, set_span_in_context

from rstreams._core.claims import DONE, RELEASED, Ending
from rstreams.errors import DeliveryFailed
from rstreams.net.links.effectively_once import read_message_id
from rstreams.telemetry._header import ContextReader, Header, front_of
from rstreams.telemetry._spans import MAX_ID_CHARACTERS, MAX_LINKS, LinkSpans, context_from, fail

_NOWHERE = Context()


class _Incoming:
    """The context of a received message."""

    __slots__ = ("context", "front", "sampled", "span")

    def __init__(self, header: Header) -> None:
        self.context = context_from(header)
        self.span: SpanContext = get_current_span(self.context).get_span_context()
        self.sampled = header.sampled
        self.front = front_of(header)  # of most messages that come with this context


class _Processing:
    """A process span: of the messages of one run, or of one message."""

    __slots__ = ("_size", "_unsettled", "context", "span")

    def __init__(self, operations: LinkSpans, first: _Incoming | None) -> None:
        self.span: Span = operations.begin("process", SpanKind.CONSUMER, _NOWHERE if first is None else first.context)
        self.context = set_span_in_context(self.span, _NOWHERE)
        self._size = self._unsettled = 0

    def add(self, incoming: _Incoming | None, encoded: bytes) -> None:
        """Account for a message."""
        self._size += 1
        self._unsettled += 1
        if incoming is not None and self._size <= MAX_LINKS:
            self.span.add_link(incoming.span)
        if self._size == 1:
            message_id = read_message_id(encoded)
            if message_id is not None:
                self.span.set_attribute("messaging.message.id", str(message_id)[:MAX_ID_CHARACTERS])
        else:
            self.span.set_attribute("messaging.batch.message_count", self._size)

    def settled(self, how: Ending) -> None:
        """Hear the outcome of one message; the span ends with the last one."""
        self._unsettled -= 1
        if isinstance(how, BaseException):  # what was given back was not processed: that is no failure
            fail(self.span, how)
        if not self._unsettled:
            self.span.end()

    def handed_over(self) -> None:
        """End the span: no outcomes will come."""
        self._unsettled = 0
        self.span.end()


class ReceivingTraces:
    """Traces the messages of one subscription; see `TracesReceiving`.

    Args:
        operations: Begins the spans.
        each: Whether each message has a process span of its own, which is then current where it is handled.
    """

    def __init__(self, operations: LinkSpans, *, each: bool) -> None:
        self._operations = operations
        self._each = each
        self._contexts = ContextReader(_Incoming)
        self._decode: Callable[[bytes], Any] = bytes
        self._decoded: Callable[[bytes], Any] | None = None
        self._open: dict[tuple[int, Hashable], tuple[_Processing, _Incoming | None]] = {}
        self._run: _Processing | None = None
        self._epoch = 0
        self._places: Sequence[Hashable] = ()
        self._next = 0

    def decoding(self, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """See `TracesReceiving`."""
        read, process = self._contexts.read, self._process
        self._decode = decode

        def decoded(encoded: bytes) -> tuple[Context, Any]:
            self._next += 1
            incoming = read(encoded)
            if incoming is None or incoming.sampled:
                return process(incoming, encoded), decode(encoded)
            return incoming.context, decode(encoded)

        self._decoded = decoded
        return decoded

    def _process(self, incoming: _Incoming | None, encoded: bytes) -> Context:
        """Account for a message that is handed over now; return the context for its handler."""
        processing = None if self._each else self._run
        if processing is None:
            processing = self._run = _Processing(self._operations, incoming)
        if processing.span.is_recording():
            processing.add(incoming, encoded)
            place = self._places[self._next - 1]
            if place is not None:
                self._open[self._epoch, place] = processing, incoming
            elif self._each:
                processing.handed_over()
        return processing.context if self._each or incoming is None else incoming.context

    # as `WatchesItems`

    def hands_over(self, epoch: int, places: Sequence[Hashable]) -> None:
        """See `WatchesItems`."""
        self._epoch, self._places, self._next, self._run = epoch, places, 0, None

    def decode_alike(
        self, decode: Callable[[bytes], Any], payloads: Sequence[bytes]
    ) -> Callable[[Iterator[bytes]], Iterator[Any]] | None:
        """See `WatchesItems`: messages of which none is recorded. Those that were sent together begin alike."""
        if decode is not self._decoded:
            return None  # somebody else wants to see each message, too
        contexts: list[Iterator[Context]] = []
        begin, end = 0, len(payloads)
        while begin < end:
            first, at = self._contexts.read(payloads[begin]), begin + 1
            if first is None or first.sampled:
                return None
            front = first.front
            while at < end and payloads[at].startswith(front):
                at += 1
            contexts.append(repeat(first.context, at - begin))
            begin = at
        return partial(self._decode_alike, contexts)

    def _decode_alike(self, contexts: list[Iterator[Context]], waiting: Iterator[bytes]) -> Iterator[Any]:
        return zip(chain.from_iterable(contexts), map(self._decode, waiting))  # noqa: B905 - the first has as many

    def handed_over(self) -> None:
        """See `WatchesItems`."""
        run, self._run = self._run, None
        if run is not None and self._places[0] is None and run.span.is_recording():
            run.handed_over()

    def settled(self, epoch: int, places: Sequence[Hashable], how: Ending) -> None:
        """See `WatchesItems`."""
        if not self._open:
            return
        settled = [each for place in places if (each := self._open.pop((epoch, place), None)) is not None]
        if not settled:
            return
        operation = "accept" if how is DONE else "release" if how is RELEASED else _outcome(how)
        links = [Link(incoming.span) for _, incoming in settled[:MAX_LINKS] if incoming is not None]
        span = self._operations.begin(operation, SpanKind.CLIENT, settled[0][0].context, "settle", links)
        if len(settled) > 1:
            span.set_attribute("messaging.batch.message_count", len(settled))
        span.end()
        for processing, _ in settled:
            processing.settled(how)


def _outcome(how: Ending) -> str:
    if isinstance(how, DeliveryFailed):
        return {"rejected": "reject", "modified": "modify", "released": "release"}.get(how.outcome, "settle")
    return "settle"  # the failure strategy decides
