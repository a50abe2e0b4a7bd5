"""Messages that are not recorded are decoded together, unless somebody wants to see each."""

from __future__ import annotations

from itertools import repeat

from opentelemetry.context import Context
from opentelemetry.trace import get_current_span

from rstreams.message import decode_body, encode_item
from rstreams.telemetry._header import Header, Stamp
from rstreams.telemetry._receiving import ReceivingTraces
from rstreams.telemetry._spans import LinkSpans
from tests.telemetry.traced import Traces


def message(trace: int, body: bytes, *, recorded: bool = False) -> bytes:
    return Stamp(Header(f"00-{trace:032x}-{trace:016x}-0{int(recorded)}")).on(encode_item(body))


def receiving() -> ReceivingTraces:
    made = ReceivingTraces(LinkSpans(Traces().tracer, dict, "q"), each=False)
    made.hands_over(0, list(repeat(None, 10)))
    return made


def trace_of(context: Context) -> int:
    return get_current_span(context).get_span_context().trace_id


def test_they_have_the_same_contexts_as_each_alone() -> None:
    traces = receiving()
    decode = traces.decoding(decode_body)
    payloads = [message(trace, b"%d" % at) for at, trace in enumerate((1, 1, 1, 2, 3, 3, 1))]
    together = traces.decode_alike(decode, payloads)
    assert together is not None
    waiting = iter(payloads)
    pairs = together(waiting)
    assert [(trace_of(context), body) for context, body in pairs] == [
        (trace_of(context), body) for context, body in map(decode, payloads)
    ]


def test_an_item_is_made_when_it_is_taken() -> None:
    traces = receiving()
    decode = traces.decoding(decode_body)
    payloads = [message(1, b"a"), message(1, b"b")]
    together = traces.decode_alike(decode, payloads)
    assert together is not None
    waiting = iter(payloads)
    pairs = together(waiting)
    next(pairs)
    assert list(waiting) == payloads[1:]


def test_one_that_is_recorded_or_has_no_context_is_decoded_alone_with_all_others() -> None:
    traces = receiving()
    decode = traces.decoding(decode_body)
    for other in (message(2, b"", recorded=True), encode_item(b"")):
        assert traces.decode_alike(decode, [message(1, b""), other]) is None


def test_a_decoder_of_somebody_else_sees_each_message() -> None:
    traces = receiving()
    decode = traces.decoding(decode_body)
    assert traces.decode_alike(lambda encoded: decode(encoded), [message(1, b"")]) is None  # noqa: PLW0108 - another one
