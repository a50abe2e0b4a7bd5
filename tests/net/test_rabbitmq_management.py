"""RabbitMQ's management over AMQP, against a scripted broker: what is asked for, and what an answer means."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from rstreams.aio import Connection
from rstreams.aio._guest import guest_run
from rstreams.aio.rabbitmq_management import rabbitmq_management as for_asyncio
from rstreams.errors import ConfigError, LinkDetached
from rstreams.message import Message, decode_message, encode_item
from rstreams.net.rabbitmq_management import ManagementRefused, RabbitMQManagement, rabbitmq_management
from tests.loops import Loop, over_both_loops
from tests.net.wire import Peer, attach_frame, close_frame, detach_frame, error, flow_frame, scripted, transfer_frame

Answer = Callable[[Message], Message | None]


class Broker:
    """A broker that answers each request by a function; None is no answer, and the end of the link.

    Attributes:
        requests: What was asked for.
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[Message] = []

    async def script(self, peer: Peer) -> None:
        await peer.opens(properties={"product": "RabbitMQ", "version": "4.1.0"})
        begin = await peer.begins()
        sending, receiving = await peer.expect("attach"), await peer.expect("attach")
        assert sending["name"] == receiving["name"]
        assert sending.channel == receiving.channel == begin.channel
        assert sending["target"].value[0] == receiving["source"].value[0] == "/management"
        assert sending["snd-settle-mode"] == receiving["snd-settle-mode"] == 1
        name, requests, replies = sending["name"], sending["handle"], receiving["handle"]
        await peer.send(
            attach_frame(name, "receiver", target="/management", handle=requests),
            attach_frame(name, "sender", source="/management", initial_delivery_count=0, handle=replies),
            flow_frame(handle=requests, credit=100),
        )
        answered, ended = 0, set()
        while (came := await peer.frame()).name != "close":
            if came.name == "transfer":
                request = decode_message(came.payload)
                self.requests.append(request)
                reply = self.answer(request)
                if reply is None:
                    ended.add(replies)
                    await peer.send(detach_frame(handle=replies, why=error("amqp:resource-deleted", "gone")))
                    continue
                payload = encode_item(reply)
                await peer.send(transfer_frame(answered, b"", settled=True, handle=replies, payload=payload))
                answered += 1
            elif came.name == "detach" and came["handle"] not in ended:
                ended.add(came["handle"])
                await peer.send(detach_frame(handle=came["handle"]))
        await peer.send(close_frame())


@asynccontextmanager
async def managed(on: Loop, broker: Broker) -> AsyncIterator[RabbitMQManagement]:
    async with on.hosted(scripted(broker.script)) as connection:
        if on.name == "trio":
            async with rabbitmq_management(connection) as management:
                yield management
        else:
            async with guest_run() as guest, for_asyncio(Connection(guest, connection)) as management:
                yield management


def answering(status: str, body: object = None) -> Answer:
    return lambda request: Message(body, subject=status, correlation_id=request.id)


Call = Callable[[RabbitMQManagement], Awaitable[object]]

DECLARED = {"durable": True, "auto_delete": False, "exclusive": False}


@pytest.mark.parametrize(
    ("call", "method", "path", "body"),
    [
        (
            lambda m: m.declare_queue("a b/c", arguments={"x-max-length": 3}),
            "PUT",
            "/queues/a%20b%2Fc",
            {**DECLARED, "arguments": {"x-queue-type": "quorum", "x-max-length": 3}},
        ),
        (
            lambda m: m.declare_queue("q", type="stream"),
            "PUT",
            "/queues/q",
            {**DECLARED, "arguments": {"x-queue-type": "stream"}},
        ),
        (lambda m: m.queue("q"), "GET", "/queues/q", None),
        (lambda m: m.delete_queue("q"), "DELETE", "/queues/q", None),
        (lambda m: m.purge_queue("q"), "DELETE", "/queues/q/messages", None),
        (
            lambda m: m.declare_exchange("e", type="topic"),
            "PUT",
            "/exchanges/e",
            {"type": "topic", "durable": True, "auto_delete": False, "internal": False, "arguments": {}},
        ),
        (lambda m: m.delete_exchange("e"), "DELETE", "/exchanges/e", None),
        (
            lambda m: m.bind("q", "e", "k.#"),
            "POST",
            "/bindings",
            {"source": "e", "destination_queue": "q", "binding_key": "k.#", "arguments": {}},
        ),
        (
            lambda m: m.declare_queue("q", exclusive=True),
            "PUT",
            "/queues/q",
            {**DECLARED, "exclusive": True, "arguments": {"x-queue-type": "classic"}},
        ),
        (
            lambda m: m.declare_queue("q", auto_delete=True),
            "PUT",
            "/queues/q",
            {**DECLARED, "auto_delete": True, "arguments": {"x-queue-type": "classic"}},
        ),
        (
            lambda m: m.declare_queue("q", type="quorum", exclusive=True),
            "PUT",
            "/queues/q",
            {**DECLARED, "exclusive": True, "arguments": {"x-queue-type": "quorum"}},
        ),
    ],
)
@over_both_loops
async def test_each_call_is_one_request(on: Loop, call: Call, method: str, path: str, body: Any) -> None:  # noqa: ANN401
    broker = Broker(answering("200", {"message_count": 7}))
    async with managed(on, broker) as management:
        await call(management)
    (request,) = broker.requests
    assert (request.subject, request.address, request.body) == (method, path, body)
    assert request.reply_to == "$me"


PLACE = "/bindings/src=e;dstq=q;key=k.%23;args="
BINDINGS = [
    {"binding_key": "k.#", "arguments": {}, "location": PLACE},
    {"binding_key": "k.#", "arguments": {"x-match": "all", "n": 1}, "location": f"{PLACE}abc"},
    {"binding_key": "k.#", "arguments": {"x-match": "any", "n": 1}, "location": f"{PLACE}def"},
]


@pytest.mark.parametrize(
    ("arguments", "there", "deleted"),
    [
        (None, BINDINGS, PLACE),
        ({}, BINDINGS, PLACE),
        ({"n": 1, "x-match": "all"}, BINDINGS, f"{PLACE}abc"),
        ({"x-match": "any", "n": 1}, BINDINGS, f"{PLACE}def"),
        (None, BINDINGS[1:], None),
        ({"n": 2}, BINDINGS, None),
        ({"n": 1}, [], None),
        (None, [], None),
    ],
)
@over_both_loops
async def test_unbind_undoes_the_binding_with_these_arguments_and_tells_if_there_is_none(
    on: Loop, arguments: dict[str, Any] | None, there: list[dict[str, Any]], deleted: str | None
) -> None:
    def answer(request: Message) -> Message:
        listed = request.subject == "GET"
        return Message(there if listed else None, subject="200" if listed else "204", correlation_id=request.id)

    broker = Broker(answer)
    async with managed(on, broker) as management:
        if deleted is None:
            with pytest.raises(ManagementRefused, match="there is no binding with arguments=") as caught:
                await management.unbind("q", "e", "k.#", arguments=arguments)
            assert caught.value.status == 404
            assert all(repr(each["arguments"]) in str(caught.value) for each in there)
        else:
            await management.unbind("q", "e", "k.#", arguments=arguments)
    asked = [(request.subject, request.address) for request in broker.requests]
    assert asked == [("GET", "/bindings?src=e&dstq=q&key=k.%23"), *([("DELETE", deleted)] if deleted else [])]


@over_both_loops
async def test_counts_and_facts_come_back(on: Loop) -> None:
    async with managed(on, Broker(answering("200", {"message_count": 7}))) as management:
        assert await management.delete_queue("q") == 7
        assert await management.purge_queue("q") == 7
        assert await management.queue("q") == {"message_count": 7}
    async with managed(on, Broker(answering("204"))) as management:
        assert await management.delete_queue("q") == 0


@pytest.mark.parametrize(
    ("status", "body", "code", "text"),
    [
        ("404", "no queue 'q'", 404, "DELETE /queues/q: RabbitMQ answered 404 (no queue 'q')"),
        ("409", None, 409, "DELETE /queues/q: RabbitMQ answered 409"),
        ("nonsense", None, 0, "DELETE /queues/q: RabbitMQ answered 0"),
    ],
)
@over_both_loops
async def test_what_is_refused_says_why_and_the_next_request_goes_on(
    on: Loop, status: str, body: object, code: int, text: str
) -> None:
    broker = Broker(answering(status, body))
    async with managed(on, broker) as management:
        with pytest.raises(ManagementRefused) as caught:
            await management.delete_queue("q")
        assert (caught.value.status, str(caught.value)) == (code, text)
        broker.answer = answering("200", {})
        assert await management.queue("q") == {}


@over_both_loops
async def test_answers_find_their_requests(on: Loop) -> None:
    def swapped(request: Message) -> Message:
        assert isinstance(request.id, int)
        return Message({"name": request.address}, subject="200", correlation_id=request.id)

    async with managed(on, Broker(swapped)) as management:

        async def ask(name: str) -> None:
            assert (await management.queue(name))["name"] == f"/queues/{name}"

        await on.together(*(partial(ask, f"q{number}") for number in range(10)))


@over_both_loops
async def test_a_link_that_ends_is_the_error_of_who_waits_and_of_who_comes_later(on: Loop) -> None:
    async with managed(on, Broker(lambda _: None)) as management:
        for _ in range(2):
            with pytest.raises(LinkDetached) as caught:
                await management.queue("q")
            assert caught.value.condition == "amqp:resource-deleted"


async def test_another_thread_is_refused() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.closes()

    async with scripted(script) as connection:

        async def enter() -> None:
            with pytest.raises(ConfigError, match="another thread"):
                async with rabbitmq_management(connection):
                    pass

        await trio.to_thread.run_sync(trio.run, enter)
