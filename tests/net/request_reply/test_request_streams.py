"""Replies as streams, replies to addresses by name, and what a lost connection takes with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

import rstreams
from rstreams import Message, Node
from rstreams.errors import (
    ConnectionLost,
    LinkDetached,
    RequestFailed,
    RStreamsError,
    StreamTimeout,
)
from rstreams.net.request_reply import responder
from rstreams.net.request_reply.requester import Requester
from rstreams.runtime.scope import open_nursery
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.loops import Loop, over_both_loops
from tests.net.asking import AT_ONCE, WAYS, Gate, Way, answered, cut, queued, returning
from tests.net.over_tcp import until
from tests.net.wire import Peer, attach_frame, scripted

# ------------------------------------------------------------------------------------------------------------- streams


@WAYS
@over_both_loops
async def test_a_stream_of_replies(on: Loop, way: Way) -> None:
    async with way(on.Stream.range) as (_, _, requester):
        assert await requester.stream(5).to_list() == [0, 1, 2, 3, 4]
        assert await requester.stream(0).to_list() == []
        assert await requester.stream(2000).to_list() == list(range(2000))


@WAYS
@over_both_loops
async def test_a_stream_of_one_reply(on: Loop, way: Way) -> None:
    async with way(lambda item: item) as (_, _, requester):
        assert await requester.stream("only").to_list() == ["only"]


@WAYS
@over_both_loops
async def test_an_async_generator_makes_several_replies(on: Loop, way: Way) -> None:
    async def count(most: int) -> AsyncIterator[int]:
        for number in range(most):
            yield number

    async with way(count) as (_, _, requester):
        assert await requester.stream(4).to_list() == [0, 1, 2, 3]


@WAYS
@over_both_loops
async def test_a_request_for_one_gets_the_first_of_several(on: Loop, way: Way) -> None:
    async with way(on.Stream.range) as (_, _, requester):
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
@over_both_loops
async def test_completion_needs_no_demand_and_a_failure_comes_after_its_items(on: Loop, way: Way) -> None:
    source = ManualPublisher[int]()
    async with way(lambda _: source) as (_, _, requester):
        probe = ProbeSubscriber[int](1)
        requester.stream("all").subscribe(probe)
        await on.until(lambda: source.requested == 1)
        source.next(0)
        source.error(RequestFailed("shop:closed", "at six"))
        await on.until(lambda: probe.error)
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
        await until(lambda: len(node._links._temporaries._made) == 1)


@pytest.mark.slow
@WAYS
@over_both_loops
async def test_streams_side_by_side(on: Loop, way: Way) -> None:
    got: dict[int, list[int]] = {}
    async with way(on.Stream.range, concurrency=8) as (_, _, requester), on.open_nursery() as nursery:

        async def ask(most: int) -> None:
            got[most] = await requester.stream(most, window=4).to_list()

        for most in range(20):
            nursery.start_soon(ask, most)
    assert got == {most: list(range(most)) for most in range(20)}


@over_both_loops
async def test_a_reply_that_is_still_in_hand_is_not_settled_for_the_responder(on: Loop) -> None:
    source = ManualPublisher[int]()
    async with answered(lambda _: source) as (_, _, requester):
        probe = ProbeSubscriber[int](5, hold=True)
        requester.stream("all").subscribe(probe)
        await on.until(lambda: source.requested == 5)
        source.next(1)
        source.complete()
        await on.until(lambda: probe.items)
        assert probe.holds
        probe.holds[0].done()
        await on.until(lambda: probe.completed)


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
        with pytest.raises(kind, match="name one by reply_address="):
            async with connection.requester("a", timeout_s=5):
                pass


# ----------------------------------------------------------------------------------- other peers, and addresses by name


@over_both_loops
async def test_a_queue_may_be_the_address_for_replies(on: Loop) -> None:
    async with queued(lambda item: on.Stream.range(item) if isinstance(item, int) else item) as (node, connection, _):
        node.queue("answers")
        node.queue("more")
        async with connection.requester("service", reply_address="answers") as requester:
            assert await requester.request("x") == "x"
            assert await requester.stream(3, reply_address="more").to_list() == [0, 1, 2]
            assert await requester.stream("one", reply_address="more").to_list() == ["one"]
            await connection.publish("answers", on.Stream.of(Message("to whom?", correlation_id="nobody")))
            assert await requester.request("y") == "y"
            assert requester.late == 1


@over_both_loops
async def test_a_request_of_another_library_gets_all_replies_and_a_mark(on: Loop) -> None:
    async with queued(lambda item: on.Stream.of(*item) if isinstance(item, list) else item) as (node, connection, _):
        node.queue("answers")
        asked = Message(["a", "b"], id="m-1", reply_to="answers")
        await connection.publish("service", on.Stream.of(asked, replace(asked, body="c", correlation_id="c-1")))
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
        (name,) = node._links._temporaries._made
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
        links = node._links.producers
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
