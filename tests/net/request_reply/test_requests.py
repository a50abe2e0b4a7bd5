"""Requests and their replies: to whom they go, when they are given up, what a failure says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, assert_type

import pytest
import trio
import trio.testing

from rstreams import Connection, Message, Stream
from rstreams.abc import Subscriber, Subscription
from rstreams.errors import (
    ConfigError,
    DeliveryFailed,
    LinkDetached,
    RequestFailed,
    RStreamsError,
    StreamTimeout,
)
from rstreams.message import decode_body, decode_message
from rstreams.net.request_reply.requester import Requester
from rstreams.node import Address
from rstreams.runtime.scope import open_nursery
from tests.loops import Loop, over_both_loops
from tests.net.asking import WAYS, Gate, Way, answered, queued
from tests.net.over_tcp import connected, until


@WAYS
@over_both_loops
async def test_a_request_has_the_reply_that_the_handler_returns(on: Loop, way: Way) -> None:
    async with way(lambda number: number * 2) as (_, _, requester):
        assert await requester.request(21) == 42
        assert [await requester.request(number) for number in range(5)] == [0, 2, 4, 6, 8]
        assert requester.late == requester.in_flight == 0


@WAYS
@over_both_loops
async def test_a_handler_may_be_an_async_function(on: Loop, way: Way) -> None:
    async def shout(text: str) -> str:
        await on.checkpoint()
        return text.upper()

    async with way(shout) as (_, _, requester):
        assert await requester.request("tea") == "TEA"


@WAYS
@over_both_loops
async def test_whole_messages_both_ways(on: Loop, way: Way) -> None:
    seen: list[Message] = []

    def answer(request: Message) -> Message:
        seen.append(request)
        return Message(b"reply", subject="yes", properties={"weight": 3})

    async with (
        way(answer, decode=decode_message) as (_, connection, _),
        connection.requester("service", decode=decode_message) as requester,
    ):
        reply = await requester.request(Message(b"request", id=7, properties={"colour": "red"}), timeout_s=5)
    (request,) = seen
    assert (request.body, request.id, request.correlation_id) == (b"request", 7, 7)
    assert request.properties["colour"] == "red"
    assert request.ttl_s is not None
    assert 0 < request.ttl_s <= 5
    assert request.expiry_time is not None
    assert abs(request.expiry_time - datetime.now(UTC)) < timedelta(seconds=60)
    assert request.reply_to is not None
    assert (reply.body, reply.subject, reply.correlation_id) == (b"reply", "yes", 7)
    assert reply.properties == {"weight": 3}


@pytest.mark.slow
@WAYS
@over_both_loops
async def test_many_at_a_time_each_get_their_own_reply_and_no_more_than_allowed_are_under_way(
    on: Loop, way: Way
) -> None:
    working = most = 0

    async def answer(number: int) -> int:
        nonlocal working, most
        working += 1
        most = max(most, working)
        for _ in range(number % 7):
            await on.checkpoint()
        working -= 1
        return -number

    got: dict[int, int] = {}
    async with (
        way(answer, concurrency=16) as (_, connection, _),
        connection.requester("service", max_in_flight=8) as requester,
    ):

        async def ask(number: int) -> None:
            got[number] = await requester.request(number)
            assert requester.in_flight <= 8

        async with on.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(ask, number)
    assert got == {number: -number for number in range(100)}
    assert 1 < most <= 8


@WAYS
async def test_the_handler_has_no_more_requests_than_it_takes(way: Way) -> None:
    gate = Gate()
    async with way(gate, concurrency=3) as (_, _, requester), trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(requester.request, number)
        await until(lambda: len(gate.came) == 3)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(gate.came) == 3
        gate.open.set()
    assert sorted(gate.came) == list(range(10))


@over_both_loops
async def test_two_requests_with_one_id_cannot_be_told_apart(on: Loop) -> None:
    gate = Gate()
    async with answered(gate) as (_, _, requester), on.open_nursery() as nursery:
        nursery.start_soon(requester.request, Message(1, id="same"))
        await on.until(lambda: gate.came)
        with pytest.raises(ConfigError, match="under way already"):
            await requester.request(Message(2, id="same"))
        gate.open.set()


# ---------------------------------------------------------------------------------------------------- time and going


async def test_a_request_is_given_up_in_time_and_its_late_reply_is_counted(mock_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with answered(gate) as (_, _, requester):
        with pytest.raises(StreamTimeout, match="'service' has had no reply within 5 s"):
            async with open_nursery() as nursery:
                nursery.start_soon(lambda: requester.request("slow", timeout_s=5))
                await until(lambda: gate.came)
                mock_clock.jump(5)
        assert requester.in_flight == 0
        gate.open.set()
        await until(lambda: requester.late == 1)
        assert await requester.request("next") == "next", "the late one has used up the credit of another"


async def test_waiting_for_its_turn_counts_as_time(mock_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with (
        answered(gate) as (_, connection, _),
        connection.requester("service", max_in_flight=1, timeout_s=3) as requester,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(lambda: requester.request("first", timeout_s=10))
        await until(lambda: gate.came)
        second: list[str] = []

        async def ask() -> None:
            with pytest.raises(StreamTimeout):
                await requester.request("second")
            second.append("given up")

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(4)
        await until(lambda: second)
        assert gate.came == ["first"]
        gate.open.set()


@over_both_loops
async def test_a_cancelled_request_is_forgotten(on: Loop) -> None:
    gate = Gate()
    async with answered(gate) as (_, _, requester):
        async with on.open_nursery() as nursery:
            nursery.start_soon(requester.request, "never")
            await on.until(lambda: gate.came)
            assert requester.in_flight == 1
            nursery.cancel_scope.cancel()
        assert requester.in_flight == 0
        gate.open.set()
        await on.until(lambda: requester.late == 1)


@over_both_loops
async def test_a_request_that_has_expired_is_not_handled(on: Loop) -> None:
    seen: list[Any] = []
    async with on.connected() as (node, connection):
        node.respond("service", seen.append)
        stale = Message("stale", expiry_time=datetime.now(UTC) - timedelta(seconds=1))
        fresh = Message("fresh", expiry_time=datetime.now(UTC) + timedelta(seconds=60))
        assert (await connection.publish("service", on.Stream.of(stale, fresh))).accepted == 2
    assert seen == ["fresh"]


async def test_a_requester_that_has_gone_is_no_error_of_the_responder() -> None:
    gate = Gate()
    async with queued(gate, concurrency=2) as (node, connection, requester):
        async with connection.requester("service") as leaving, trio.open_nursery() as nursery:
            nursery.start_soon(leaving.request, "gone")
            await until(lambda: gate.came)
            nursery.cancel_scope.cancel()
        await until(lambda: len(node._links._temporaries._made) == 1)
        gate.open.set()
        assert await requester.request("here") == "here"


async def test_the_end_of_the_block_fails_what_waits() -> None:
    gate, errors = Gate(), list[BaseException]()

    async def ask(requester: Requester[Any]) -> None:
        try:
            await requester.request("x")
        except RStreamsError as error:
            errors.append(error)

    async with connected() as (node, connection), trio.open_nursery() as nursery:
        node.respond("service", gate)
        async with connection.requester("service") as requester:
            nursery.start_soon(ask, requester)
            await until(lambda: gate.came)
        await until(lambda: errors)
        assert "is closed" in str(errors[0])
        with pytest.raises(RStreamsError, match="is closed"):
            await requester.request("y")
        with pytest.raises(RStreamsError, match="is closed"):
            await requester.stream("z").to_list()
        gate.open.set()
        await until(lambda: not node._links._temporaries._made)


# ----------------------------------------------------------------------------------------------------------- failures


@WAYS
@pytest.mark.filterwarnings("ignore")
@over_both_loops
async def test_a_failed_handler_tells_only_that_unless_it_may_tell_more(on: Loop, way: Way) -> None:
    def fail(_: object) -> object:
        msg = "the password is x"
        raise ValueError(msg)

    async with way(fail) as (_, _, requester):
        for ask in (requester.request, lambda item: requester.stream(item).to_list()):
            with pytest.raises(RequestFailed) as caught:
                await ask(1)
            assert (caught.value.condition, caught.value.description) == ("amqp:internal-error", "the handler failed")
    async with way(fail, expose_errors=True) as (_, _, requester):
        with pytest.raises(RequestFailed, match="ValueError: the password is x"):
            await requester.request(1)


@WAYS
@over_both_loops
async def test_a_handler_may_say_why(on: Loop, way: Way) -> None:
    def refuse(item: object) -> object:
        condition = "shop:sold-out"
        raise RequestFailed(condition, f"no {item}")

    async with way(refuse) as (_, _, requester):
        for ask in (requester.request, lambda item: requester.stream(item).to_list()):
            with pytest.raises(RequestFailed) as caught:
                await ask("tea")
            assert (caught.value.condition, caught.value.description) == ("shop:sold-out", "no tea")


@WAYS
@over_both_loops
async def test_a_reply_that_cannot_be_encoded_is_a_failure(on: Loop, way: Way) -> None:
    async with way(lambda _: object()) as (_, _, requester):
        with pytest.raises(RequestFailed) as caught:
            await requester.request(1)
        assert caught.value.condition == "amqp:invalid-field"


@WAYS
@over_both_loops
async def test_the_properties_of_the_only_reply_of_a_stream_are_looked_at(on: Loop, way: Way) -> None:
    async with way(lambda _: Message(properties=[1])) as (_, _, requester):  # type: ignore[arg-type]
        with pytest.raises(RequestFailed) as caught:
            await requester.stream(1).to_list()
        assert caught.value.condition == "amqp:invalid-field"


@over_both_loops
async def test_a_request_that_cannot_be_encoded_is_not_sent(on: Loop) -> None:
    async with answered(lambda item: item) as (_, _, requester):
        with pytest.raises(ConfigError):
            await requester.request(object())
        with pytest.raises(ConfigError):
            requester.stream(object())
        with pytest.raises(ConfigError, match=re.escape("Message.properties=[1]: must be a mapping")):
            await requester.request(Message(properties=[1]))  # type: ignore[arg-type]
        assert await requester.request(1) == 1


@over_both_loops
async def test_what_a_decoder_raises_is_the_requests_own_error(on: Loop) -> None:
    async with (
        answered(lambda item: item) as (_, connection, _),
        connection.requester("service", decode=lambda encoded: int(decode_body(encoded))) as numbers,
    ):
        with pytest.raises(ValueError, match="invalid literal"):
            await numbers.request("x")
        with pytest.raises(ValueError, match="invalid literal"):
            await numbers.stream("x").to_list()
        assert await numbers.request("5") == 5


@over_both_loops
async def test_a_request_without_an_address_for_replies_is_handled_and_no_more(on: Loop) -> None:
    seen: list[Any] = []

    async def respond(connection: Connection) -> None:
        await connection.respond("work", handle)

    def handle(item: Any) -> Any:  # noqa: ANN401 - whatever comes
        seen.append(item)
        if item == "bad":
            msg = "bad"
            raise ValueError(msg)
        return on.Stream.of(1, 2).do_on_next(seen.append) if item == "many" else "nobody hears this"

    async with on.connected() as (node, connection):
        queue = node.queue("work")
        async with on.open_nursery() as nursery:
            nursery.start_soon(respond, connection)
            await connection.publish("work", on.Stream.of("good", "bad", "many"))
            await on.until(lambda: queue.statistics().accepted == 2)
            nursery.cancel_scope.cancel()
        assert queue.statistics().rejected == 1
    assert seen == ["good", "bad", "many", 1, 2]


async def test_a_peer_that_does_not_take_the_request() -> None:
    async with connected() as (node, connection):
        node.serve("numbers", Stream.range(3))
        for address, condition in (("nowhere", "amqp:not-found"), ("numbers", "amqp:not-allowed")):
            with pytest.raises(LinkDetached) as caught:
                async with connection.requester(address):
                    pass
            assert caught.value.condition == condition
        await until(lambda: not node._links._temporaries._made)


class Refusing(Address):
    """Rejects each item that it is sent."""

    def __init__(self, name: str) -> None:
        self.name = name

    def producer(self, *, once: bool = False) -> Subscriber[bytes]:  # noqa: ARG002 - it stores nothing
        return Refuser()


class Refuser:
    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription
        subscription.request(10)

    def on_next(self, item: bytes) -> None:  # noqa: ARG002 - whatever it is
        self._subscription.hold().fail(DeliveryFailed("rejected", "shop:full"))

    def on_error(self, error: BaseException) -> None: ...

    def on_complete(self) -> None: ...


async def test_a_request_that_the_peer_rejects_fails_with_its_outcome() -> None:
    async with connected() as (node, connection):
        node.add(Refusing("service"))
        async with connection.requester("service") as requester:
            asks: list[Callable[[], Awaitable[object]]] = [
                lambda: requester.request("x"),
                lambda: requester.stream("x").to_list(),
            ]
            for ask in asks:
                with trio.fail_after(10), pytest.raises(DeliveryFailed) as caught:
                    await ask()
                assert caught.value.condition == "shop:full"


# ------------------------------------------------------------------------------------------------- options and types


@over_both_loops
async def test_bad_options_are_told_at_the_call(on: Loop) -> None:
    async with answered(lambda item: item) as (node, connection, requester):
        bad: list[dict[str, Any]] = [{"timeout_s": 0}, {"max_in_flight": 0}, {"reply_address": ""}]
        for options in bad:
            with pytest.raises(ConfigError, match=next(iter(options))):
                connection.requester("service", **options)
        with pytest.raises(ConfigError, match="address"):
            connection.requester("")
        with pytest.raises(ConfigError, match="timeout_s"):
            await requester.request(1, timeout_s=-1)
        with pytest.raises(ConfigError, match="window"):
            requester.stream(1, window=0)
        with pytest.raises(ConfigError, match="reply_address"):
            requester.stream(1, reply_address="")
        with pytest.raises(TypeError, match="handler"):
            await connection.respond("service", "no function")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="handler"):
            node.respond("other", "no function")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="concurrency"):
            node.respond("other", print, concurrency=0)
        with pytest.raises(ConfigError, match="has one of this name"):
            node.respond("service", print)
        assert repr(requester) == "<rstreams requester of 'service'>"


@over_both_loops
async def test_a_plain_generator_function_is_no_handler_and_an_async_one_is(on: Loop) -> None:
    class Handler:
        def __call__(self, item: int) -> Iterator[int]:
            yield item

    class AsyncHandler:
        async def __call__(self, item: int) -> AsyncIterator[int]:
            yield item
            yield item + 1

    plain = Handler()
    async with answered(AsyncHandler()) as (node, connection, requester):
        for handler in (plain, plain.__call__, partial(Handler.__call__, plain)):
            with pytest.raises(
                TypeError, match="give an async generator function, or a function that returns a Stream"
            ):
                await connection.respond("service", handler)
            with pytest.raises(TypeError, match="generator function"):
                node.respond("other", handler)
        assert await requester.stream(1).to_list() == [1, 2]


@over_both_loops
async def test_types(on: Loop) -> None:
    async with (
        answered(lambda item: item) as (_, connection, _),
        connection.requester("service", decode=decode_message) as whole,
        connection.requester("service") as plain,
    ):
        assert_type(whole, Requester[Message])
        assert_type(await whole.request(1), Message)
        assert_type(whole.stream(1), Stream[Message])
        assert_type(plain, Requester[Any])
