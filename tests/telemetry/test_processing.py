"""A process span of a program's own, for many messages at a time."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from rstreams import Message, telemetry
from rstreams.message import encode_item
from tests.telemetry.traced import Traces, about, links_of, parent_of, trace_of

PARENTS = [f"00-{number:032x}-{number:016x}-0{number % 2}" for number in range(1, 200)]


def test_it_is_the_child_of_the_first_recorded_message_and_links_to_all() -> None:
    traces = Traces()
    sent = [Message(b"", properties={"traceparent": parent}) for parent in (PARENTS[1], PARENTS[2], PARENTS[0])]
    with telemetry.processing(sent, "orders", tracer_provider=traces.provider) as span:
        assert trace.get_current_span() is span
    process = traces.one("process orders")
    assert (trace_of(process), parent_of(process)) == (3, 3)
    assert links_of(process) == [2, 3, 1]
    assert about(process) == {
        "messaging.system": "amqp",
        "messaging.destination.name": "orders",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.batch.message_count": 3,
    }


def test_any_form_of_a_message_is_taken_and_links_are_bounded() -> None:
    traces = Traces()
    sent = [encode_item(Message(b"", properties={"traceparent": parent})) for parent in PARENTS]
    with telemetry.processing([{"traceparent": None}, *sent], "q", count=0, tracer_provider=traces.provider):
        pass
    process = traces.one("process q")
    assert len(process.links) == 128
    assert "messaging.batch.message_count" not in about(process)


def test_messages_without_traces_have_a_span_without_links() -> None:
    traces = Traces()
    with telemetry.processing([Message(b"")], "q", tracer_provider=traces.provider):
        pass
    assert not traces.one("process q").links


def test_messages_that_are_not_recorded_have_no_span() -> None:
    traces = Traces()
    with telemetry.processing([{"traceparent": PARENTS[1]}], "q", tracer_provider=traces.provider) as span:
        assert not span.is_recording()
    assert traces.all() == []


def test_an_exception_fails_the_span_and_its_text_stays_out() -> None:
    traces = Traces()
    with (
        pytest.raises(ValueError, match="secret"),
        telemetry.processing([], "q", tracer_provider=traces.provider),
    ):
        msg = "secret"
        raise ValueError(msg)
    process = traces.one("process q")
    assert process.status.status_code is StatusCode.ERROR
    assert about(process)["error.type"] == "ValueError"
    assert "secret" not in process.to_json()
