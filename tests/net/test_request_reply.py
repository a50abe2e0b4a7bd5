"""Requests and their replies: to whom they go, when they are given up, how many are asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import pytest
import trio
import trio.testing

import rstreams
from rstreams import Connection, Message, Node, Reconnect, Stream
from rstreams.errors import (
    ConfigError,
    ConnectionLost,
    DeliveryFailed,
    LinkDetached,
    RequestFailed,
    RStreamsError,
    StreamTimeout,
)
from rstreams.message import decode_body, decode_message
from rstreams.net import responder
from rstreams.net.requester import Requester
from rstreams.node._address import Producer
from rstreams.runtime.scope import open_nursery
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.over_tcp import connected, pump_of, until
from tests.net.wire import Peer, attach_frame, scripted

AT_ONCE = Reconnect(first_delay_s=0.0, max_delay_s=0.0)


@asynccontextmanager
async def answered(
    handler: Callable[[Any], object],
    **options: Any,  # noqa: ANN401 - those of `Node.respond`
) -> AsyncIterator[tuple[Node, Connection, Requester[Any]]]:
    """A node that answers with `handler`, and a requester of it."""
    async with connected() as (node, connection):
        node.respond("service", handler, **options)
        async with connection.requester("service") as requester:
            yield node, connection, requester


@asynccontextmanager
async def queued(
    handler: Callable[[Any], object],
    **options: Any,  # noqa: ANN401 - those of `Connection.respond`
) -> AsyncIterator[tuple[Node, Connection, Requester[Any]]]:
    """A queue on a node, a client that answers with `handler` what comes there, and a requester of it."""
    async with connected() as (node, connection), rstreams.connect(node._listeners[0].url) as other:
        node.queue("service")

        async def respond() -> None:
            await other.respond("service", handler, **options)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(respond)
            async with connection.requester("service") as requester:
                yield node, connection, requester
            nursery.cancel_scope.cancel()


WAYS = pytest.mark.parametrize("way", [answered, queued])
Way = Callable[..., Any]


async def cut(connection: Connection) -> None:
    await trio.aclose_forcefully(pump_of(connection)._stream)


class Gate:
    """A handler that answers when it is let."""

    def __init__(self) -> None:
        self.open = trio.Event()
        self.came: list[Any] = []

    async def __call__(self, item: object) -> object:
        self.came.append(item)
        await self.open.wait()
        return item


@WAYS
async def test_a_request_has_the_reply_that_the_handler_returns(way: Way) -> None:
    async with way(lambda number: number * 2) as (_, _, requester):
        assert await requester.request(21) == 42
        assert [await requester.request(number) for number in range(5)] == [0, 2, 4, 6, 8]
        assert requester.late == requester.in_flight == 0


@WAYS
async def test_a_handler_may_be_an_async_function(way: Way) -> None:
    async def shout(text: str) -> str:
        await trio.lowlevel.checkpoint()
        return text.upper()

    async with way(shout) as (_, _, requester):
        assert await requester.request("tea") == "TEA"


@WAYS
async def test_whole_messages_both_ways(way: Way) -> None:
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


@WAYS
async def test_many_at_a_time_each_get_their_own_reply_and_no_more_than_allowed_are_under_way(way: Way) -> None:
    working = most = 0

    async def answer(number: int) -> int:
        nonlocal working, most
        working += 1
        most = max(most, working)
        for _ in range(number % 7):
            await trio.lowlevel.checkpoint()
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

        async with trio.open_nursery() as nursery:
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


async def test_two_requests_with_one_id_cannot_be_told_apart() -> None:
    gate = Gate()
    async with answered(gate) as (_, _, requester), trio.open_nursery() as nursery:
        nursery.start_soon(requester.request, Message(1, id="same"))
        await until(lambda: gate.came)
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


async def test_a_cancelled_request_is_forgotten() -> None:
    gate = Gate()
    async with answered(gate) as (_, _, requester):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(requester.request, "never")
            await until(lambda: gate.came)
            assert requester.in_flight == 1
            nursery.cancel_scope.cancel()
        assert requester.in_flight == 0
        gate.open.set()
        await until(lambda: requester.late == 1)


async def test_a_request_that_has_expired_is_not_handled() -> None:
    seen: list[Any] = []
    async with connected() as (node, connection):
        node.respond("service", seen.append)
        stale = Message("stale", expiry_time=datetime.now(UTC) - timedelta(seconds=1))
        fresh = Message("fresh", expiry_time=datetime.now(UTC) + timedelta(seconds=60))
        assert (await connection.publish("service", Stream.of(stale, fresh))).accepted == 2
    assert seen == ["fresh"]


async def test_a_requester_that_has_gone_is_no_error_of_the_responder() -> None:
    gate = Gate()
    async with queued(gate, concurrency=2) as (node, connection, requester):
        async with connection.requester("service") as leaving, trio.open_nursery() as nursery:
            nursery.start_soon(leaving.request, "gone")
            await until(lambda: gate.came)
            nursery.cancel_scope.cancel()
        await until(lambda: len(node._temporaries._made) == 1)
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
        await until(lambda: not node._temporaries._made)


# ----------------------------------------------------------------------------------------------------------- failures


@WAYS
@pytest.mark.filterwarnings("ignore")
async def test_a_failed_handler_tells_only_that_unless_it_may_tell_more(way: Way) -> None:
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
async def test_a_handler_may_say_why(way: Way) -> None:
    def refuse(item: object) -> object:
        condition = "shop:sold-out"
        raise RequestFailed(condition, f"no {item}")

    async with way(refuse) as (_, _, requester):
        for ask in (requester.request, lambda item: requester.stream(item).to_list()):
            with pytest.raises(RequestFailed) as caught:
                await ask("tea")
            assert (caught.value.condition, caught.value.description) == ("shop:sold-out", "no tea")


@WAYS
async def test_a_reply_that_cannot_be_encoded_is_a_failure(way: Way) -> None:
    async with way(lambda _: object()) as (_, _, requester):
        with pytest.raises(RequestFailed) as caught:
            await requester.request(1)
        assert caught.value.condition == "amqp:invalid-field"


async def test_a_request_that_cannot_be_encoded_is_not_sent() -> None:
    async with answered(lambda item: item) as (_, _, requester):
        with pytest.raises(ConfigError):
            await requester.request(object())
        with pytest.raises(ConfigError):
            requester.stream(object())
        assert await requester.request(1) == 1


async def test_what_a_decoder_raises_is_the_requests_own_error() -> None:
    async with (
        answered(lambda item: item) as (_, connection, _),
        connection.requester("service", decode=lambda encoded: int(decode_body(encoded))) as numbers,
    ):
        with pytest.raises(ValueError, match="invalid literal"):
            await numbers.request("x")
        with pytest.raises(ValueError, match="invalid literal"):
            await numbers.stream("x").to_list()
        assert await numbers.request("5") == 5


async def test_a_request_without_an_address_for_replies_is_handled_and_no_more() -> None:
    seen: list[Any] = []

    async def respond(connection: Connection) -> None:
        await connection.respond("work", handle)

    def handle(item: Any) -> Any:  # noqa: ANN401 - whatever comes
        seen.append(item)
        if item == "bad":
            msg = "bad"
            raise ValueError(msg)
        return Stream.of(1, 2).do_on_next(seen.append) if item == "many" else "nobody hears this"

    async with connected() as (node, connection):
        queue = node.queue("work")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(respond, connection)
            await connection.publish("work", Stream.of("good", "bad", "many"))
            await until(lambda: queue.statistics().accepted == 2)
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
        await until(lambda: not node._temporaries._made)


async def test_a_request_that_the_peer_rejects_fails_with_its_outcome() -> None:
    async with connected() as (node, connection):
        queue = node.queue("service")
        async with connection.requester("service") as requester, trio.open_nursery() as nursery:
            failed: list[BaseException] = []

            async def ask(ask: Callable[[Any], Any]) -> None:
                with pytest.raises(DeliveryFailed) as caught:
                    await ask("x")
                failed.append(caught.value)

            refused = Producer.on_next
            with pytest.MonkeyPatch.context() as patched:

                def refuse(self: Producer, item: bytes) -> None:
                    self._subscription.hold().fail(DeliveryFailed("rejected", "shop:full"))

                patched.setattr(Producer, "on_next", refuse)
                nursery.start_soon(ask, requester.request)
                nursery.start_soon(ask, lambda item: requester.stream(item).to_list())
                await until(lambda: len(failed) == 2)
            assert refused is Producer.on_next
        assert all(error.condition == "shop:full" for error in failed if isinstance(error, DeliveryFailed))
        assert queue.statistics().enqueued == 0


# ------------------------------------------------------------------------------------------------------------- streams


@WAYS
async def test_a_stream_of_replies(way: Way) -> None:
    async with way(Stream.range) as (_, _, requester):
        assert await requester.stream(5).to_list() == [0, 1, 2, 3, 4]
        assert await requester.stream(0).to_list() == []
        assert await requester.stream(2000).to_list() == list(range(2000))


@WAYS
async def test_a_stream_of_one_reply(way: Way) -> None:
    async with way(lambda item: item) as (_, _, requester):
        assert await requester.stream("only").to_list() == ["only"]


@WAYS
async def test_an_async_generator_makes_several_replies(way: Way) -> None:
    async def count(most: int) -> AsyncIterator[int]:
        for number in range(most):
            yield number

    async with way(count) as (_, _, requester):
        assert await requester.stream(4).to_list() == [0, 1, 2, 3]


@WAYS
async def test_a_request_for_one_gets_the_first_of_several(way: Way) -> None:
    async with way(Stream.range) as (_, _, requester):
        assert await requester.request(5) == 0
        assert await requester.request(3) == 0
        assert requester.late == 0
        with pytest.raises(RequestFailed, match="rstreams:no-reply"):
            await requester.request(0)


@WAYS
async def test_the_responders_stream_is_asked_for_just_what_the_requester_asks_for(way: Way) -> None:
    source = ManualPublisher[int]()
    async with way(lambda _: source) as (_, _, requester):
        probe = ProbeSubscriber[int](3)
        requester.stream("all").subscribe(probe)
        await until(lambda: source.requested == 3)
        source.next(0, 1)
        await until(lambda: len(probe.items) == 2)
        probe.request(4)
        await until(lambda: source.requested == 7)
        source.next(2, 3, 4, 5, 6)
        await until(lambda: len(probe.items) == 7)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert source.requested == 7
        assert not probe.completed
        source.complete()
        await until(lambda: probe.completed)
        assert probe.items == list(range(7))


@WAYS
async def test_completion_needs_no_demand_and_a_failure_comes_after_its_items(way: Way) -> None:
    source = ManualPublisher[int]()
    async with way(lambda _: source) as (_, _, requester):
        probe = ProbeSubscriber[int](1)
        requester.stream("all").subscribe(probe)
        await until(lambda: source.requested == 1)
        source.next(0)
        source.error(RequestFailed("shop:closed", "at six"))
        await until(lambda: probe.error)
        assert probe.items == [0]
        assert isinstance(probe.error, RequestFailed)
        assert (probe.error.condition, probe.error.description) == ("shop:closed", "at six")


@WAYS
async def test_who_has_enough_cancels_the_responders_stream(way: Way) -> None:
    source = ManualPublisher[int]()
    async with way(lambda _: source) as (node, _, requester):
        probe = ProbeSubscriber[int](2)
        requester.stream("all").subscribe(probe)
        await until(lambda: source.requested == 2)
        probe.cancel()
        await until(lambda: source.cancelled)
        await until(lambda: len(node._temporaries._made) == 1)


@WAYS
async def test_streams_side_by_side(way: Way) -> None:
    got: dict[int, list[int]] = {}
    async with way(Stream.range, concurrency=8) as (_, _, requester), trio.open_nursery() as nursery:

        async def ask(most: int) -> None:
            got[most] = await requester.stream(most, window=4).to_list()

        for most in range(20):
            nursery.start_soon(ask, most)
    assert got == {most: list(range(most)) for most in range(20)}


async def test_a_reply_that_is_still_in_hand_is_not_settled_for_the_responder() -> None:
    source = ManualPublisher[int]()
    async with answered(lambda _: source) as (_, _, requester):
        probe = ProbeSubscriber[int](5, hold=True)
        requester.stream("all").subscribe(probe)
        await until(lambda: source.requested == 5)
        source.next(1)
        source.complete()
        await until(lambda: probe.items)
        assert probe.holds
        probe.holds[0].done()
        await until(lambda: probe.completed)


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize(
    ("source", "kind"), [("", LinkDetached), (None, StreamTimeout)], ids=["an empty one", "no source at all"]
)
async def test_a_peer_that_attaches_the_link_for_replies_without_an_address(
    source: str | None, kind: type[RStreamsError]
) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        for _ in range(2):
            await peer.begins()
        replies, requests = await peer.expect("attach"), await peer.expect("attach")
        assert replies["source"].value[4] is True, "dynamic"
        assert replies["source"].value[-1] == ["temporary-queue", "rstreams:reply-queue"]
        channel = replies.channel
        answer = attach_frame(replies["name"], "sender", source=source, initial_delivery_count=0, channel=channel)
        await peer.send(answer)
        await peer.send(attach_frame(requests["name"], "receiver", target="a", channel=requests.channel))
        await peer.closes()

    async with scripted(script) as connection:
        with pytest.raises(kind, match="reply_address= names one"):
            async with connection.requester("a", timeout_s=5):
                pass


# ----------------------------------------------------------------------------------- other peers, and addresses by name


async def test_a_queue_may_be_the_address_for_replies() -> None:
    async with queued(lambda item: Stream.range(item) if isinstance(item, int) else item) as (node, connection, _):
        node.queue("answers")
        node.queue("more")
        async with connection.requester("service", reply_address="answers") as requester:
            assert await requester.request("x") == "x"
            assert await requester.stream(3, reply_address="more").to_list() == [0, 1, 2]
            assert await requester.stream("one", reply_address="more").to_list() == ["one"]
            await connection.publish("answers", Stream.of(Message("to whom?", correlation_id="nobody")))
            assert await requester.request("y") == "y"
            assert requester.late == 1


async def test_a_request_of_another_library_gets_all_replies_and_a_mark() -> None:
    async with queued(lambda item: Stream.of(*item) if isinstance(item, list) else item) as (node, connection, _):
        node.queue("answers")
        asked = Message(["a", "b"], id="m-1", reply_to="answers")
        await connection.publish("service", Stream.of(asked, replace(asked, body="c", correlation_id="c-1")))
        replies = await connection.messages("answers").take(4).to_list()
        assert [(reply.body, reply.correlation_id) for reply in replies] == [
            ("a", "m-1"),
            ("b", "m-1"),
            (None, "m-1"),
            ("c", "c-1"),
        ]
        assert [dict(reply.properties) for reply in replies] == [{}, {}, {"rstreams-reply": "end"}, {}]


async def test_a_temporary_address_is_for_its_own_link_alone() -> None:
    async with answered(lambda item: item) as (node, connection, requester):
        (name,) = node._temporaries._made
        assert await requester.request(1) == 1
        with pytest.raises(LinkDetached) as caught:
            await connection.stream(name).to_list()
        assert caught.value.condition == "amqp:not-found"
        with pytest.raises(LinkDetached) as caught:
            await connection.stream("service").to_list()
        assert caught.value.condition == "amqp:not-allowed"


async def test_idle_links_for_replies_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responder, "MAX_SENDERS", 2)
    made: list[responder.ReplySenders] = []
    attach = responder.ReplySenders._attach

    def noting(self: responder.ReplySenders, address: str) -> Any:  # noqa: ANN401
        made.append(self)
        return attach(self, address)

    monkeypatch.setattr(responder.ReplySenders, "_attach", noting)
    async with (
        queued(lambda item: item) as (_, connection, first),
        connection.requester("service") as second,
        connection.requester("service") as third,
    ):
        for requester in (first, second, third, third, first):
            assert await requester.request(1) == 1
        await until(lambda: len(made[0]._open) == 2)
    assert len(made) == 4, "the third one and the first one again"


async def test_idle_links_for_replies_are_closed(mock_clock: trio.testing.MockClock) -> None:
    async with queued(lambda item: item) as (node, connection, first), connection.requester("service") as second:
        links = node._producers
        await first.request(1)
        before = len([end for end in links if not end.ended])
        mock_clock.jump(20)
        await first.request(1)
        assert len([end for end in links if not end.ended]) == before
        for _ in range(4):
            mock_clock.jump(20)
            await second.request(1)
        await until(lambda: len([end for end in links if not end.ended]) == before)


# --------------------------------------------------------------------------------------------------------------- losses


async def test_without_a_policy_a_loss_is_the_error_at_once() -> None:
    gate = Gate()
    async with answered(gate) as (_, connection, requester):
        with pytest.raises(ConnectionLost):
            async with open_nursery() as nursery:
                nursery.start_soon(requester.request, 1)
                await until(lambda: gate.came)
                await cut(connection)
        with pytest.raises(ConnectionLost):
            await requester.request(2)
        with pytest.raises(ConnectionLost):
            await requester.stream(2).to_list()
        gate.open.set()


@asynccontextmanager
async def returning(handler: Callable[[Any], object]) -> AsyncIterator[tuple[Node, Connection, Requester[Any]]]:
    async with Node() as node:
        node.respond("service", handler)
        listener = await node.listen("127.0.0.1:0")
        async with (
            rstreams.connect(listener.url, reconnect=AT_ONCE) as connection,
            connection.requester("service") as requester,
        ):
            yield node, connection, requester


async def test_what_was_under_way_is_lost_and_what_follows_goes_on() -> None:
    gate, lost = Gate(), list[int]()
    async with returning(gate) as (_, connection, requester):

        async def ask(number: int) -> None:
            with pytest.raises(ConnectionLost):
                await requester.request(number)
            lost.append(number)

        async def asked(count: int) -> None:
            await until(lambda: len(gate.came) == count)

        for turn in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, turn)
                await asked(turn + 1)
                await cut(connection)
        gate.open.set()
        assert await requester.request("after") == "after"
        assert lost == [0, 1, 2]
        assert gate.came == [0, 1, 2, "after"], "nothing is asked twice"


async def test_what_may_be_asked_twice_is_asked_again() -> None:
    gate, got = Gate(), list[Any]()

    async with returning(gate) as (_, connection, requester), trio.open_nursery() as nursery:

        async def ask() -> None:
            got.append(await requester.request("x", retry_lost=True))

        nursery.start_soon(ask)
        await until(lambda: gate.came)
        await cut(connection)
        await until(lambda: len(gate.came) == 2)
        gate.open.set()
        await until(lambda: got)
    assert (got, gate.came) == (["x"], ["x", "x"])


async def test_what_had_not_been_sent_goes_out_on_the_next_connection() -> None:
    gate, got = Gate(), list[str]()

    async def ask(requester: Requester[Any], item: str) -> None:
        try:
            got.append(await requester.request(item))
        except ConnectionLost:
            got.append(f"{item} lost")

    async with Node() as node:
        node.respond("service", gate, concurrency=1)
        listener = await node.listen("127.0.0.1:0")
        async with (
            rstreams.connect(listener.url, reconnect=AT_ONCE) as connection,
            connection.requester("service") as requester,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(ask, requester, "sent")
            await until(lambda: gate.came)
            nursery.start_soon(ask, requester, "waits")
            await until(lambda: requester.in_flight == 2)
            await cut(connection)
            await until(lambda: got)
            gate.open.set()
    assert got == ["sent lost", "waits"]
    assert gate.came == ["sent", "waits"]


async def test_a_stream_of_replies_ends_with_its_connection() -> None:
    source = ManualPublisher[int]()
    async with returning(lambda _: source) as (_, connection, requester):
        probe = ProbeSubscriber[int](5)
        requester.stream("all").subscribe(probe)
        await until(lambda: source.requested == 5)
        await cut(connection)
        await until(lambda: probe.error)
        assert isinstance(probe.error, ConnectionLost)
        await until(lambda: source.cancelled)


# ------------------------------------------------------------------------------------------------- options and types


async def test_bad_options_are_told_at_the_call() -> None:
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
        with pytest.raises(ConfigError, match="handler"):
            await connection.respond("service", "no function")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="handler"):
            node.respond("other", "no function")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="concurrency"):
            node.respond("other", print, concurrency=0)
        with pytest.raises(ConfigError, match="has one of this name"):
            node.respond("service", print)
        assert repr(requester) == "<rstreams requester of 'service'>"


async def test_types() -> None:
    async with (
        answered(lambda item: item) as (_, connection, _),
        connection.requester("service", decode=decode_message) as whole,
        connection.requester("service") as plain,
    ):
        assert_type(whole, Requester[Message])
        assert_type(await whole.request(1), Message)
        assert_type(whole.stream(1), Stream[Message])
        assert_type(plain, Requester[Any])
