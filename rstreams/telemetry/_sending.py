"""Traces of the messages that a link sends: send spans, whose context is written into the messages.

Messages that are sent one after the other in the same context share a span: at most `MAX_MESSAGES` of them, and none
that is sent more than `MAX_S` after the first, or when the others are settled. So it is also where a program sends in
no span of its own: then a sampler decides once for all of them.

In a context that is not recorded there is no span. The messages carry that context, and nothing behind them is
recorded.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from opentelemetry.context import Context, get_current
from opentelemetry.trace import Span, SpanKind, get_current_span

from rstreams import _machine
from rstreams._core.claims import DONE, Ending
from rstreams.errors import DeliveryFailed
from rstreams.message import Message, MessageId
from rstreams.telemetry._header import Stamp
from rstreams.telemetry._spans import MAX_ID_CHARACTERS, LinkSpans, fail, header_from

MAX_MESSAGES: Final = 128
"""The most messages that share a send span."""

MAX_S: Final = 0.005
"""How long after its first message another one may share it, in seconds."""

ENDED_UNKNOWN: Final = "unknown"
"""`error.type` for messages whose outcome never came."""


class SendBatch:
    """The messages that share a send span.

    Attributes:
        first: The number of the first, for those that are counted.
        size: How many they are.
    """

    __slots__ = ("_on_end", "_settled", "_span", "first", "size")

    def __init__(self, span: Span, first: int, on_end: Callable[[SendBatch], None]) -> None:
        self._span = span
        self._on_end = on_end
        self._settled = 0
        self.first = first
        self.size = 0

    def add(self, message_id: MessageId | None, more: int = 1) -> None:
        """Account for a message, or for more of them."""
        self.size += more
        if self.size > 1:
            self._span.set_attribute("messaging.batch.message_count", self.size)
        elif message_id is not None:
            self._span.set_attribute("messaging.message.id", str(message_id)[:MAX_ID_CHARACTERS])

    def settled(self, how: Ending) -> None:
        """Hear the outcome of one of them."""
        self.settled_to(self._settled + 1, how)

    def settled_to(self, count: int, how: Ending = DONE) -> None:
        """Hear that `count` of them are settled."""
        self._settled = count
        if how is not DONE:
            fail(self._span, how if isinstance(how, BaseException) else "released")
        if count >= self.size:
            self._on_end(self)
            self._span.end()

    def refused(self, error: DeliveryFailed) -> None:
        """Hear that one was not accepted."""
        fail(self._span, error)

    def abandoned(self, error: BaseException | None) -> None:
        """End: no more outcomes will come."""
        fail(self._span, ENDED_UNKNOWN if error is None else error)
        self._span.end()


class SendingTraces:
    """Traces the messages of one link that sends; see `TracesSending`.

    Args:
        operations: Begins the spans.
        each: Whether each message has a span of its own.
        settled: Whether outcomes do not come; then a span ends when it has begun.
    """

    def __init__(self, operations: LinkSpans, *, each: bool, settled: bool) -> None:
        self._operations = operations
        self._most = 1 if each else MAX_MESSAGES
        self._settled = settled
        self._ambient = get_current()  # where nothing else is current: in the tasks of a connection
        self._context: Context | None = None  # of the messages sent last
        self._left = 0
        self._until = math.inf
        self._stamp: Stamp | None = None
        self._batch: SendBatch | None = None
        self._open: dict[SendBatch, None] = {}
        self._count = 0  # messages of `stamping`
        self._told: deque[SendBatch] = deque()  # the open batches of these

    def current(self) -> Context:
        """See `TracesSending`."""
        return get_current()

    def begin(self, context: Context, encoded: bytes, message_id: MessageId | None) -> tuple[bytes, SendBatch | None]:
        """See `TracesSending`."""
        self._look(context)
        self._left -= 1
        batch = self._batch
        if batch is not None:
            batch.add(message_id)
        stamp = self._stamp
        if stamp is None:  # nobody makes traces
            return encoded, batch
        return stamp.on(encoded), batch

    def stamping(self, encode: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
        """See `TracesSending`."""
        begin = self.begin

        def stamped(item: Any) -> bytes:  # noqa: ANN401 - an item of the user
            encoded = encode(item)
            message_id = item.id if type(item) is Message else None
            encoded, batch = begin(get_current(), encoded, message_id)
            if batch is not None:
                self._note(batch, 1)
            self._count += 1
            return encoded

        return stamped

    def stamping_all(self, encode: Callable[[Any], bytes]) -> Callable[[list[bytes]], list[bytes]]:
        """See `TracesSending`."""

        def stamped(bodies: list[bytes]) -> list[bytes]:
            context = get_current()
            made: list[bytes] = []
            while bodies:
                self._look(context)
                size = min(self._left, len(bodies))
                chunk, bodies = bodies[:size], bodies[size:]
                self._left -= size
                if self._batch is not None:
                    self._batch.add(None, size)
                    self._note(self._batch, size)
                self._count += size
                made += map(encode, chunk) if self._stamp is None else self._stamp.on_all(chunk, encode)
            return made

        return stamped

    def told(self, accepted: int, refused: Mapping[int, DeliveryFailed]) -> None:
        """See `TracesSending`."""
        settled = accepted + len(refused)
        while self._told and self._told[0].first < settled:
            batch = self._told[0]
            for number, error in refused.items():
                if batch.first <= number < batch.first + batch.size:
                    batch.refused(error)
            batch.settled_to(min(batch.size, settled - batch.first))
            if batch in self._open:
                break
            self._told.popleft()

    def ended(self, error: BaseException | None) -> None:
        """See `TracesSending`."""
        self._context = None
        batches, self._open = list(self._open), {}
        self._told.clear()
        for batch in batches:
            batch.abandoned(error)

    def _note(self, batch: SendBatch, size: int) -> None:
        """Note the first messages of a batch, whose outcomes will be told by their numbers."""
        if batch.size == size:
            batch.first = self._count
            self._told.append(batch)

    def _look(self, context: Context) -> None:
        """See which span the next message has."""
        if context is not self._context or not self._left or _machine.now() > self._until:
            self._begin(context)

    def _begin(self, context: Context) -> None:
        """Begin with messages that are sent in another context, or need another span."""
        self._context, self._batch, self._left, self._until = context, None, sys.maxsize, math.inf
        parent = get_current_span(context).get_span_context()
        if not parent.is_valid:
            context = self._ambient
            parent = get_current_span(context).get_span_context()
        if parent.is_valid and not parent.trace_flags.sampled:
            self._stamp = Stamp(header_from(parent))
            return
        span = self._operations.begin("send", SpanKind.PRODUCER, context)
        of = span.get_span_context()
        self._stamp = Stamp(header_from(of)) if of.is_valid else None
        self._left, self._until = self._most, _machine.now() + MAX_S
        if span.is_recording() and self._settled:
            span.end()
        elif span.is_recording():
            self._batch = SendBatch(span, self._count, self._ended)
            self._open[self._batch] = None

    def _ended(self, batch: SendBatch) -> None:
        self._open.pop(batch, None)
        if batch is self._batch:
            self._context = None  # a later message has another span
