"""Traces go along every way of a message: dead letters, requests, other settlements, asyncio and threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any, Literal

import pytest
import trio
import trio.lowlevel
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import StatusCode

import rstreams
import rstreams.aio
import rstreams.blocking
from rstreams import DeadLetters, Message, Stream, telemetry
from rstreams.errors import ConfigError, DeliveryFailed, RequestFailed
from rstreams.runtime.portal import start_portal
from tests.telemetry.traced import Traces, about, id_of, parent_of, trace_of, traced


def current_trace() -> int:
    return trace.get_current_span().get_span_context().trace_id


async def test_the_dead_letters_of_a_node_keep_the_trace() -> None:
    traces = Traces()
    async with traced(traces, "dead") as (node, connection):
        node.queue("q", dead_letters="dead", max_deliveries=1)
        with traces.tracer.start_as_current_span("request") as request:
            await connection.publish("q", Stream.of("poison"))
        with trio.move_on_after(5) as scope:

            def handle(_item: object) -> None:
                scope.cancel()
                raise ValueError

            await connection.consume("q", handle, on_failure="reject")
        seen = await connection.stream("dead").map(lambda _: current_trace()).take(1).to_list()
    assert seen == [request.get_span_context().trace_id]
    process = traces.one("process q")
    assert process.status.status_code is StatusCode.ERROR
    assert traces.one("process dead").status.status_code is StatusCode.UNSET


async def test_the_dead_letters_of_a_client_keep_the_trace() -> None:
    traces = Traces()
    async with traced(traces, "q", "dead") as (_, connection):
        with traces.tracer.start_as_current_span("request") as request:
            await connection.publish("q", Stream.of("poison", "good"))
        got: list[object] = []
        with trio.move_on_after(5) as scope:

            def handle(item: object) -> None:
                if item == "poison":
                    raise ValueError
                got.append(item)
                scope.cancel()

            await connection.consume("q", handle, on_failure=DeadLetters("dead"))
        seen = await connection.stream("dead").map(lambda _: current_trace()).take(1).to_list()
    assert seen == [request.get_span_context().trace_id]


async def test_a_request_and_its_reply_are_in_one_trace() -> None:
    traces, seen = Traces(), []
    async with traced(traces, "desk") as (_, connection), trio.open_nursery() as nursery:

        async def answer(request: str) -> str:
            seen.append(current_trace())
            with traces.tracer.start_as_current_span("answer"):
                await trio.lowlevel.checkpoint()
            return request.upper()

        nursery.start_soon(connection.respond, "desk", answer)
        async with connection.requester("desk") as requester:
            with traces.tracer.start_as_current_span("request") as request:
                assert await requester.request("hello") == "HELLO"
        nursery.cancel_scope.cancel()
    assert seen == [request.get_span_context().trace_id]
    assert parent_of(traces.one("send desk")) == request.get_span_context().span_id
    assert trace_of(traces.one("answer")) == request.get_span_context().trace_id
    replies = [span for span in traces.all() if span.name.startswith("send ") and span.name != "send desk"]
    assert [trace_of(span) for span in replies] == [request.get_span_context().trace_id]


async def test_a_request_that_fails_is_in_the_trace() -> None:
    traces = Traces()
    async with traced(traces, "desk") as (_, connection), trio.open_nursery() as nursery:

        def answer(request: str) -> str:
            condition = "app:no"
            raise RequestFailed(condition, f"secret {request}")

        nursery.start_soon(connection.respond, "desk", answer)
        async with connection.requester("desk") as requester:
            with pytest.raises(RequestFailed):
                await requester.request("hello")
        nursery.cancel_scope.cancel()
    assert traces.named("process desk")
    assert all("secret" not in span.to_json() for span in traces.all())


@pytest.mark.parametrize("settlement", ["at_most_once", "at_least_once", "effectively_once", "manual"])
@pytest.mark.parametrize("spans", ["run", "message"])
async def test_every_settlement_is_traced(
    settlement: Literal["at_most_once", "at_least_once", "effectively_once", "manual"], spans: str
) -> None:
    traces, seen = Traces(), []
    sent_as = "at_least_once" if settlement == "manual" else settlement
    async with traced(traces, "q", spans=spans) as (_, connection):
        with traces.tracer.start_as_current_span("request") as request:
            await connection.publish("q", Stream.range(10), settlement=sent_as)
            async with connection.sender("q", settlement=sent_as) as sender:
                await sender.send(10)

        def look(item: Any) -> Any:  # noqa: ANN401 - an item or a delivery
            seen.append(current_trace())
            if settlement == "manual":
                item.accept()
            return item

        await connection.stream("q", settlement=settlement).map(look).take(11).to_list()
    assert seen == [request.get_span_context().trace_id] * 11
    assert sum(_size(span) for span in traces.named("process q")) == 11
    assert all(span.end_time is not None for span in traces.all())
    assert bool(traces.named("accept q")) == (settlement != "at_most_once")


def _size(span: Any) -> int:  # noqa: ANN401 - a span
    return int(about(span).get("messaging.batch.message_count", 1))


async def test_packs_are_traced() -> None:
    traces, seen = Traces(), []
    async with traced(traces, "q") as (_, connection):
        with traces.tracer.start_as_current_span("request") as request:
            await connection.publish("q", Stream.range(300).map(lambda number: b"%d" % number))
        await (
            connection.stream("q", pack_items=64).do_on_next(lambda _: seen.append(current_trace())).take(300).to_list()
        )
    assert seen == [request.get_span_context().trace_id] * 300


async def test_a_body_that_is_sent_while_it_comes_is_traced() -> None:
    traces = Traces()

    async def chunks() -> Any:  # noqa: ANN401 - an async generator
        for _ in range(3):
            yield b"chunk"

    async with traced(traces, "q") as (_, connection):
        with traces.tracer.start_as_current_span("request") as request:
            await connection.publish("q", Stream.of(Message(rstreams.message.ByteStream(chunks()))))
        (got,) = await connection.messages("q").take(1).to_list()
    assert got.body == b"chunk" * 3
    assert str(got.properties["traceparent"])[3:35] == f"{request.get_span_context().trace_id:032x}"


async def test_a_message_that_the_peer_refuses_fails_its_send_span() -> None:
    traces = Traces()
    async with traced(traces) as (node, connection):
        node.queue("q", capacity=1, when_full="reject")
        async with connection.sender("q") as sender:
            await sender.send(b"fits")
            with pytest.raises(DeliveryFailed):
                await sender.send(b"too much")
        with pytest.raises(DeliveryFailed):
            await connection.publish("q", Stream.of(b"too much"))
    spans = traces.named("send q")
    assert [span.status.status_code for span in spans] == [StatusCode.UNSET, StatusCode.ERROR, StatusCode.ERROR]
    assert all("error.type" in (span.attributes or {}) for span in spans[1:])


async def test_a_trace_that_is_not_sampled_costs_no_span_and_stays_unsampled() -> None:
    traces, recording = Traces(ParentBased(ALWAYS_OFF)), []
    async with traced(traces, "q") as (_, connection):
        with traces.tracer.start_as_current_span("request") as request:
            await connection.publish("q", Stream.range(100))
            async with connection.sender("q") as sender:
                await sender.send(100)

        def look(_item: object) -> None:
            with traces.tracer.start_as_current_span("work") as work:
                recording.append(work.is_recording())
                assert current_trace() == request.get_span_context().trace_id

        await connection.stream("q").do_on_next(look).take(101).to_list()
    assert traces.all() == []
    assert recording == [False] * 101


async def test_part_of_the_traces_is_sampled_at_both_ends_or_at_none() -> None:
    traces = Traces(ParentBased(TraceIdRatioBased(0.3)))
    async with traced(traces, "q") as (_, connection):
        async with connection.sender("q") as sender:
            for number in range(50):
                with traces.tracer.start_as_current_span("request"):
                    await sender.send(number)
        await connection.stream("q").map_async(_nothing).take(50).to_list()
    sends = traces.named("send q")
    assert 0 < len(sends) < 50
    processed = {link.context.span_id for span in traces.named("process q") for link in span.links}
    assert processed == {id_of(span) for span in sends}


async def _nothing(item: object) -> object:
    await trio.lowlevel.checkpoint()
    return item


async def test_messages_of_senders_without_traces_are_processed_in_traces_of_their_own() -> None:
    traces, seen = Traces(), []
    async with traced(traces) as (node, connection):
        queue = node.queue("q")
        Stream.of(*(rstreams.message.encode_item(number) for number in range(5))).subscribe(queue.producer())
        await connection.stream("q").do_on_next(lambda _: seen.append(current_trace())).take(5).to_list()
    assert set(seen) == {trace_of(span) for span in traces.named("process q")}
    assert all(not span.links and span.parent is None for span in traces.named("process q"))


def test_asyncio_has_the_same_traces() -> None:
    traces, seen = Traces(), []

    async def work(item: object) -> object:
        seen.append(current_trace())
        await asyncio.sleep(0)
        assert current_trace() == seen[-1]
        return item

    async def answer(request: str) -> str:
        seen.append(current_trace())
        await asyncio.sleep(0)
        return request

    async def main() -> None:
        async with rstreams.aio.Node() as node:
            node.queue("q")
            node.queue("desk")
            url = (await node.listen("127.0.0.1:0")).url
            async with rstreams.aio.connect(url) as connection:
                telemetry.instrument(connection, traces.provider)
                with traces.tracer.start_as_current_span("request"):
                    await connection.publish("q", Stream.of(1))
                    async with connection.sender("q") as sender:
                        await sender.send(2)
                await connection.stream("q").map_async(work, concurrency=2).map(work_at_once).take(2).to_list()
                responding = asyncio.create_task(connection.respond("desk", answer))
                async with connection.requester("desk") as requester:
                    with traces.tracer.start_as_current_span("request"):
                        assert await requester.request("hello") == "hello"
                responding.cancel()
                await asyncio.gather(responding, return_exceptions=True)

    def work_at_once(item: object) -> object:
        seen.append(current_trace())
        return item

    asyncio.run(main())
    first, second = (trace_of(span) for span in traces.named("request"))
    assert seen == [first] * 4 + [second]


def test_threads_have_the_same_traces() -> None:
    traces, seen = Traces(), []
    handled: Future[int] = Future()
    with start_portal("node") as portal, portal.enter(rstreams.Node()) as node:
        node.queue("q")
        url = portal.run(node.listen, "127.0.0.1:0").url
        with rstreams.blocking.connect(url) as connection:
            telemetry.instrument(connection, traces.provider)
            with traces.tracer.start_as_current_span("request"):
                connection.publish("q", Stream.of(1))
                with connection.sender("q") as sender:
                    sender.send(2)
            connection.stream("q").do_on_next(lambda _: seen.append(current_trace())).take(2).to_list()
            with traces.tracer.start_as_current_span("second") as second:
                connection.publish("q", Stream.of(3))
            with connection.consume_in_background("q", lambda _: handled.set_result(current_trace())):
                assert handled.result(10) == second.get_span_context().trace_id
    assert seen == [trace_of(traces.one("request"))] * 2


def test_only_a_connection_is_instrumented() -> None:
    with pytest.raises(ConfigError, match="it must be a connection"):
        telemetry.instrument(object())
    with pytest.raises(ConfigError, match="spans"):
        telemetry.instrument(object(), spans="all")  # type: ignore[arg-type] # the mistake of the test
