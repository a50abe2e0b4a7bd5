"""One trace goes from who sends to who handles, through every operator that calls a function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from rstreams import Connection, Message, Stream
from rstreams.errors import DeliveryFailed
from tests.telemetry.traced import Traces, about, id_of, links_of, parent_of, trace_of, traced


class Seen:
    """Which trace was the current one where a function was called with an item."""

    def __init__(self) -> None:
        self.traces: dict[Any, int] = {}

    def __call__(self, item: Any) -> Any:  # noqa: ANN401 - whatever comes
        self.traces[item] = trace.get_current_span().get_span_context().trace_id
        return item

    async def later(self, item: Any) -> Any:  # noqa: ANN401 - likewise
        before = self(item)
        await trio.sleep(0.001)
        assert trace.get_current_span().get_span_context().trace_id == self.traces[item], "after a wait it is the same"
        return before

    def inner(self, item: Any) -> Stream[Any]:  # noqa: ANN401 - likewise
        self(item)
        return Stream.of(item)


async def sent(traces: Traces, connection: Connection, queue: str, items: int = 6) -> dict[int, int]:
    """Send numbers, each in a trace of its own; return the traces."""
    made: dict[int, int] = {}
    async with connection.sender(queue) as sender:
        for number in range(items):
            with traces.tracer.start_as_current_span(f"request {number}") as span:
                made[number] = span.get_span_context().trace_id
                await sender.send(number)
    return made


OPERATORS: dict[str, Callable[[Stream[int], Seen], Stream[Any]]] = {
    "map": lambda stream, seen: stream.map(seen),
    "filter": lambda stream, seen: stream.filter(lambda item: seen(item) >= 0),
    "do_on_next": lambda stream, seen: stream.do_on_next(seen),
    "scan": lambda stream, seen: stream.scan(lambda _, item: seen(item), 0),
    "map_async": lambda stream, seen: stream.map_async(seen.later, concurrency=3),
    "map_async unordered": lambda stream, seen: stream.map_async(seen.later, concurrency=3, ordered=False),
    "map_blocking": lambda stream, seen: stream.map_blocking(seen, concurrency=2),
    "flat_map": lambda stream, seen: stream.flat_map(seen.inner),
    "concat_map": lambda stream, seen: stream.concat_map(seen.inner),
    "switch_map": lambda stream, seen: stream.switch_map(seen.inner),
    "behind map_async": lambda stream, seen: stream.map_async(Seen().later, concurrency=3).map(seen),
    "behind flat_map": lambda stream, seen: stream.flat_map(Stream.of).map(seen),
    "behind concat_map": lambda stream, seen: stream.concat_map(lambda item: [item]).filter(lambda _: True).map(seen),
    "two map_async": lambda stream, seen: stream.map_async(Seen().later).map_async(seen.later, concurrency=2),
}


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("spans", ["run", "message"])
async def test_a_function_runs_in_the_trace_of_its_item(operator: str, spans: str) -> None:
    traces, seen = Traces(), Seen()
    async with traced(traces, "q", spans=spans) as (_, connection):
        made = await sent(traces, connection, "q")
        await OPERATORS[operator](connection.stream("q"), seen).take(len(made)).to_list()
    assert seen.traces == made


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_handler_of_consume_runs_in_the_trace_of_its_item(concurrency: int) -> None:
    traces, later, at_once = Traces(), Seen(), Seen()
    for seen, handler in ((later, later.later), (at_once, at_once)):
        async with traced(traces, "q") as (_, connection):
            made = await sent(traces, connection, "q")
            await consumed(connection, handler, len(made), concurrency)
        assert seen.traces == made


async def consumed(
    connection: Connection,
    handler: Callable[[Any], Awaitable[Any]] | Callable[[Any], Any],
    items: int,
    concurrency: int,
) -> None:
    """Consume so many items."""
    handled: list[Any] = []
    with trio.CancelScope() as scope:

        async def handle(item: Any) -> None:  # noqa: ANN401 - whatever comes
            result = handler(item)
            if isinstance(result, Awaitable):
                await result
            handled.append(item)
            if len(handled) == items:
                scope.cancel()

        await connection.consume("q", handle, concurrency=concurrency)
    assert len(handled) == items


async def test_nothing_is_current_behind_a_run() -> None:
    traces, seen = Traces(), Seen()
    async with traced(traces, "q") as (_, connection):
        await sent(traces, connection, "q")
        async with connection.stream("q").map(seen).take(6).open() as items:
            async for _ in items:
                assert not trace.get_current_span().get_span_context().is_valid
        assert len(set(seen.traces.values())) == 6


async def test_the_spans_of_one_message_by_the_conventions() -> None:
    traces = Traces()
    async with traced(traces, "orders", spans="message") as (_, connection):
        with traces.tracer.start_as_current_span("request") as request:
            async with connection.sender("orders") as sender:
                await sender.send(Message(b"secret body", id="m1", properties={"a": 1}))
        got = await connection.messages("orders").take(1).to_list()
    send, process, accept = traces.one("send orders"), traces.one("process orders"), traces.one("accept orders")
    assert got[0].properties["a"] == 1
    assert {trace_of(span) for span in (send, process, accept)} == {request.get_span_context().trace_id}
    assert (send.kind, process.kind, accept.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.CLIENT)
    assert parent_of(send) == request.get_span_context().span_id
    assert parent_of(process) == id_of(send)
    assert links_of(process) == links_of(accept) == [id_of(send)]
    assert parent_of(accept) == id_of(process)
    common = {"messaging.system": "rstreams", "messaging.destination.name": "orders"}
    assert about(send) == {
        **common,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": "m1",
    }
    assert about(process) == {
        **common,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": "m1",
    }
    assert about(accept) == {
        **common,
        "messaging.operation.name": "accept",
        "messaging.operation.type": "settle",
    }
    for span in (send, process, accept):
        assert span.attributes is not None
        assert span.attributes["server.address"] == "127.0.0.1"
        assert isinstance(span.attributes["server.port"], int)
        assert "secret" not in span.to_json()
        assert span.status.status_code is StatusCode.UNSET


async def test_a_run_has_one_process_span_with_a_link_to_each_sender() -> None:
    traces = Traces()
    async with traced(traces, "q") as (_, connection):
        await sent(traces, connection, "q", 40)
        await connection.stream("q").take(40).to_list()
    senders = {id_of(span) for span in traces.named("send q")}
    runs = traces.named("process q")
    assert len(senders) == 40
    assert len(runs) < 40
    assert [link for run in runs for link in links_of(run)] == [id_of(span) for span in traces.named("send q")]
    sizes = [(span.attributes or {}).get("messaging.batch.message_count", 1) for span in runs]
    assert sizes == [len(span.links) for span in runs]


async def test_a_published_stream_shares_send_spans() -> None:
    traces = Traces()
    async with traced(traces, "q") as (_, connection):
        with traces.tracer.start_as_current_span("request") as request:
            await connection.publish("q", Stream.range(1000))
        got = await connection.messages("q").take(1000).to_list()
        trace_ids = {str(message.properties["traceparent"])[3:35] for message in got}
    sends = traces.named("send q")
    assert trace_ids == {f"{request.get_span_context().trace_id:032x}"}
    assert 8 <= len(sends) < 200
    assert sum(int(str((span.attributes or {}).get("messaging.batch.message_count", 1))) for span in sends) == 1000
    assert max(len(span.links) for span in traces.named("process q")) <= 128
    assert all(parent_of(span) == request.get_span_context().span_id for span in sends)


async def test_what_is_sent_on_from_a_stream_stays_in_the_trace_of_its_message() -> None:
    traces, seen = Traces(), Seen()
    async with traced(traces, "a", "b") as (_, connection):
        made = await sent(traces, connection, "a")
        await connection.publish("b", connection.stream("a").map_async(seen.later, concurrency=2).take(6))
        await connection.stream("b").map(seen).take(6).to_list()
    assert seen.traces == made
    assert {trace_of(span) for span in traces.named("process b")} <= set(made.values())


async def fails_with(traces: Traces, error: BaseException, on_failure: Any) -> None:  # noqa: ANN401 - a name
    async with traced(traces, "q") as (node, connection):
        await connection.publish("q", Stream.of(b"secret"))

        def handle(item: object) -> None:
            scope.cancel()
            raise error

        with trio.CancelScope() as scope:
            await connection.consume("q", handle, on_failure=on_failure, window=1)
        await trio.testing.wait_all_tasks_blocked()
        del node


@pytest.mark.parametrize(
    ("error", "on_failure", "operation", "error_type"),
    [
        (ValueError("secret"), "reject", "settle", "ValueError"),
        (ValueError("secret"), "modify", "settle", "ValueError"),
        (ValueError("secret"), "release", "settle", "ValueError"),
        (DeliveryFailed("rejected"), "reject", "reject", "rejected"),
        (DeliveryFailed("rejected", "app:no", "secret"), "reject", "reject", "app:no"),
        (DeliveryFailed("modified"), "reject", "modify", "modified"),
        (DeliveryFailed("released"), "reject", "release", "released"),
    ],
)
async def test_a_message_that_fails_has_a_span_that_says_so(
    error: BaseException, on_failure: str, operation: str, error_type: str
) -> None:
    traces = Traces()
    await fails_with(traces, error, on_failure)
    process = traces.named("process q")[0]
    assert process.status.status_code is StatusCode.ERROR
    assert (process.attributes or {})["error.type"] == error_type
    assert traces.named(f"{operation} q")
    assert all("secret" not in span.to_json() for span in traces.all())


async def test_a_message_that_is_given_back_has_not_failed() -> None:
    traces = Traces()
    async with traced(traces, "q") as (_, connection):
        await connection.publish("q", Stream.range(3))
        async with connection.stream("q", settlement="manual").open() as deliveries:
            delivery = await anext(deliveries)
            delivery.release()
    assert traces.named("release q")
    assert all(span.status.status_code is StatusCode.UNSET for span in traces.named("process q"))
