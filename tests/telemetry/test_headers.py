"""The context of a trace in a message: written for others, read from others, and no harm from what is malformed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.trace import TraceFlags, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rstreams.message import Message, Symbol, decode_message, encode_item
from rstreams.net.links.encoding import encode_durable
from rstreams.telemetry import context_of
from rstreams.telemetry._header import ContextReader, Header, Stamp

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = "vendor=1,other=2"

MESSAGES = [
    Message(b"body"),
    Message("text"),
    Message([1, 2]),
    Message(b"", durable=True),
    Message(b"body", properties={"a": 1, "b": "text"}),
    Message(b"body", properties={f"name {number}": "value" * 20 for number in range(40)}),
    Message(b"body", id="m1", annotations={"x-opt-a": 1}, ttl_s=5.0, properties={"a": True}),
]

read = ContextReader[Header](lambda header: header).read


@pytest.mark.parametrize("message", MESSAGES, ids=range(len(MESSAGES)))
@pytest.mark.parametrize("state", ["", STATE])
def test_a_context_is_written_into_any_message_and_everything_else_stays(message: Message, state: str) -> None:
    stamp = Stamp(Header(PARENT, state))
    stamped = stamp.on(encode_item(message))
    found = decode_message(stamped)
    names = {"traceparent": PARENT, **({"tracestate": state} if state else {})}
    assert found.properties == {**names, **message.properties}
    assert (found.body, found.id, found.annotations) == (message.body, message.id, message.annotations)
    assert read(stamped) == Header(PARENT, state)
    assert stamp.on(stamped) == stamped
    assert Stamp(Header(PARENT.replace("-b7", "-c8"))).on(stamped) == stamped, "the first context stays"


@pytest.mark.parametrize("encode", [encode_item, encode_durable])
@pytest.mark.parametrize(
    "bodies",
    [[b"body", b"tail"], [b"x" * 1000] * 3, [b"", b""], [b"one", b"three"], [b"x" * 255, b"x" * 256]],
    ids=range(5),
)
def test_many_bodies_are_written_as_each_alone(bodies: list[bytes], encode: Callable[[object], bytes]) -> None:
    stamp = Stamp(Header(PARENT))
    assert stamp.on_all(bodies, encode) == [stamp.on(encode(each)) for each in bodies]


def test_another_library_reads_what_is_written_and_writes_what_is_read() -> None:
    propagator = TraceContextTextMapPropagator()
    written = decode_message(Stamp(Header(PARENT, STATE)).on(encode_item(b"body")))
    carrier = {name: str(value) for name, value in written.properties.items()}
    theirs = get_current_span(propagator.extract(carrier)).get_span_context()
    ours = get_current_span(context_of(written)).get_span_context()
    assert theirs == ours
    assert ours.is_remote
    assert ours.trace_flags == TraceFlags.SAMPLED
    assert ours.trace_state.to_header() == STATE

    injected: dict[str, str] = {}
    propagator.inject(injected, context_of(written))
    back = get_current_span(context_of(encode_item(Message(b"body", properties=injected)))).get_span_context()
    assert back == ours


@pytest.mark.parametrize(
    "properties",
    [
        {"traceparent": PARENT},
        {"Diagnostic-Id": PARENT},
        {"a": 1, "traceparent": PARENT},
        {"traceparent": PARENT.encode()},
        {"traceparent": Symbol(PARENT)},
        {"traceparent": "malformed", "Diagnostic-Id": PARENT},
        {"traceparent": PARENT.replace("00-", "01-", 1) + "-later"},
    ],
    ids=str,
)
def test_what_foreign_clients_write_is_read(properties: dict[str, Any]) -> None:
    for message in (Message(b"body", properties=properties), encode_item(Message(b"body", properties=properties))):
        found = get_current_span(context_of(message)).get_span_context()
        assert f"{found.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"


HOSTILE: list[Any] = [
    "",
    "00",
    "00-00000000000000000000000000000000-b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
    "00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-01",
    "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
    "|legacy.id.",
    "\x00" * 55,
    "\u0660" * 55,
    b"\xff" * 55,
    "0" * 1_000_000,
    17,
    None,
    [PARENT],
    {"traceparent": PARENT},
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("name", ["traceparent", "Diagnostic-Id"])
def test_what_is_malformed_counts_as_absent(name: str, value: Any) -> None:  # noqa: ANN401 - whatever a peer sends
    message = Message(b"body", properties={name: value})
    assert not get_current_span(context_of(message)).get_span_context().is_valid
    try:
        encoded = encode_item(message)
    except Exception:
        return
    assert read(encoded) is None


@pytest.mark.parametrize("state", ["a" * 513, "ä=1", "not a state", ",,,,", "=" * 100, 17, b"\xff"])
def test_a_malformed_state_is_left_out(state: Any) -> None:  # noqa: ANN401 - whatever a peer sends
    message = Message(b"body", properties={"traceparent": PARENT, "tracestate": state})
    found = get_current_span(context_of(message)).get_span_context()
    assert found.is_valid
    assert found.trace_state.to_header() == ""


def test_properties_that_are_too_large_are_not_looked_at() -> None:
    message = Message(b"body", properties={"large": "x" * 70_000, "traceparent": PARENT})
    assert read(encode_item(message)) is None


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 120))
def test_no_bytes_of_a_peer_raise(noise: bytes, at: int) -> None:
    stamped = Stamp(Header(PARENT, STATE)).on(encode_item(b"body"))
    for encoded in (noise, stamped[:at], stamped[:at] + noise, noise + stamped, stamped[:at] + noise + stamped[at:]):
        read(encoded)


def test_few_contexts_are_remembered() -> None:
    reader = ContextReader[Header](lambda header: header)
    for number in range(1, 2000):
        parent = f"00-{number:032x}-b7ad6b7169203331-01"
        assert reader.read(Stamp(Header(parent)).on(encode_item(b"body"))) == Header(parent)
    assert len(reader._known) <= 256
