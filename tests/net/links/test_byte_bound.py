"""Streams bounded in bytes, over TCP: what is on hand is counted while messages of mixed sizes come."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import trio
from cproton_ffi import lib

import rstreams
import rstreams.blocking
from rstreams import ByteStream, Message, Node, Stream
from rstreams.abc import Hold, Subscription
from rstreams.errors import ConfigError, RemoteProtocolError
from rstreams.net._proton.receiving_driver import ReceivingDriver
from rstreams.protocol.frames import Transfer
from rstreams.protocol.receiver import LinkSubscription
from rstreams.runtime.portal import start_portal
from tests.interop.tap import tapped
from tests.net.over_tcp import connected, pump_of, until

KB = 1024


class Holder:
    """Holds all that comes."""

    def __init__(self) -> None:
        self.held: list[Hold] = []
        self.completed = False

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        subscription.request(1000)

    def on_next(self, item: object) -> None:
        assert item
        self.held.append(self.subscription.hold())

    def on_error(self, error: BaseException) -> None:
        raise error

    def on_complete(self) -> None:
        self.completed = True


@pytest.fixture
def most_on_hand(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[int, int]]:
    """Return what measures the most bytes on hand there have been: in the link's end, and read or not, with all."""
    seen = [0, 0]
    receive = ReceivingDriver.receive

    def measured(self: ReceivingDriver, frame: object) -> None:
        receive(self, frame)  # type: ignore[arg-type]
        end = None if self.link is None else self.link._endpoint
        if not isinstance(end, LinkSubscription):
            return
        if isinstance(frame, Transfer) and end.ledger.bound is not None:
            on_hand = end.ledger.bound.on_hand
            waiting = self.arrivals.current()[0] + int(lib.pn_session_incoming_bytes(self._session))
            seen[0] = max(seen[0], on_hand)
            seen[1] = max(seen[1], on_hand + waiting)

    monkeypatch.setattr(ReceivingDriver, "receive", measured)
    return lambda: (seen[0], seen[1])


def mixed(count: int, *, seed: int = 7) -> list[bytes]:
    """Return messages of 1 byte to 1 MB, the small ones much more often."""
    chance = random.Random(seed)  # noqa: S311 - the same ones each time
    return [bytes(int(2 ** chance.uniform(0, 20))) for _ in range(count)]


@pytest.mark.parametrize("settlement", ["at_least_once", "at_most_once"])
async def test_mixed_sizes_stay_within_the_bound(settlement: str, most_on_hand: Callable[[], tuple[int, int]]) -> None:
    messages = mixed(80)
    bound = 256 * KB
    got = []
    async with connected() as (node, connection):
        node.serve("mixed", Stream.from_iterable(messages))
        async with connection.stream("mixed", settlement=settlement, window_bytes=bound).open() as stream:  # type: ignore[call-overload]
            async for item in stream:
                got.append(len(item))
                await trio.lowlevel.checkpoint()
    assert got == [len(message) for message in messages]
    on_hand, with_all = most_on_hand()
    session = 2 * 64 * KB
    assert with_all <= max(bound, max(got) + 16) + 2 * session
    assert on_hand <= max(bound, *got) + session


async def test_a_sender_of_larger_ones_than_expected_is_stopped(most_on_hand: Callable[[], tuple[int, int]]) -> None:
    messages = [b"x"] * 300 + [bytes(100 * KB)] * 300
    bound = 1024 * KB
    holder = Holder()
    async with connected() as (node, connection):
        node.serve("grows", Stream.from_iterable(messages))
        connection.stream("grows", window_bytes=bound).subscribe(holder)
        await until(lambda: len(holder.held) == 256)
        for hold in holder.held:
            hold.done()
        await until(lambda: most_on_hand()[0] >= bound)  # credit for many more had been granted
        for _ in range(50):
            await trio.lowlevel.checkpoint()
        assert len(holder.held) < 320
        while not holder.completed:
            for hold in holder.held:
                hold.done()
            await trio.lowlevel.checkpoint()
        assert len(holder.held) == 600
    _, with_all = most_on_hand()
    assert with_all <= bound + 2 * 128 * KB


async def test_nothing_more_comes_while_the_pipeline_holds_all_of_the_bound() -> None:
    holder = Holder()
    held = holder.held
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.from_iterable([bytes(10 * KB)] * 100))
        connection.stream("work", window_bytes=105 * KB).subscribe(holder)
        await until(lambda: len(held) == 10)
        for _ in range(50):
            await trio.lowlevel.checkpoint()
        assert len(held) == 10
        assert queue.statistics().ready == 90, "no credit beyond what fits"
        for hold in held[:4]:
            hold.done()
        await until(lambda: len(held) == 14)


async def test_a_message_larger_than_the_bound_comes_alone() -> None:
    messages = [b"a", bytes(300 * KB), b"b", bytes(500 * KB), bytes(500 * KB), b"c"]
    async with connected() as (node, connection):
        node.serve("large", Stream.from_iterable(messages))
        assert await connection.stream("large", window_bytes=1).to_list() == messages


async def test_a_link_with_a_bound_has_a_session_to_itself_as_long_as_there_are_some() -> None:
    async with Node(max_sessions=3) as node:
        node.serve("count", Stream.range(5))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            for _ in range(4):  # each time the one that is free again
                assert await connection.stream("count", window_bytes=1000).to_list() == [0, 1, 2, 3, 4]
                await until(lambda: not pump_of(connection).engine.links.drivers)
            assert len(pump_of(connection).engine._sessions) == 1
            async with trio.open_nursery() as nursery:
                for _ in range(6):
                    nursery.start_soon(connection.stream("count", window_bytes=1000).to_list)
                    nursery.start_soon(connection.stream("count").to_list)
            assert len(pump_of(connection).engine._sessions) == 3


@pytest.mark.usefixtures("heedless")
async def test_a_message_that_comes_in_parts_may_not_be_larger_than_messages_may_be() -> None:
    async with Node() as node:
        node.serve("large", Stream.of(b"a", bytes(300 * KB)))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, max_message_bytes=200 * KB) as connection:
            got: list[object] = []
            with pytest.raises(RemoteProtocolError, match="max_message_bytes=204800"):
                await connection.stream("large", window_bytes=KB).for_each(got.append)
            assert got == [b"a"]


async def test_packs_count_by_their_items(most_on_hand: Callable[[], tuple[int, int]]) -> None:
    async with connected() as (node, connection):
        node.serve("packed", Stream.from_iterable([bytes(KB)] * 500))
        got = await connection.stream("packed", pack_items=16, window_bytes=64 * KB).to_list()
        assert got == [bytes(KB)] * 500
    on_hand, _ = most_on_hand()
    assert 16 * KB <= on_hand <= 65 * KB + 2 * 17 * KB, "the session's window has two packs"


async def test_after_a_loss_what_is_on_hand_is_counted_anew() -> None:
    messages = [Message(bytes(10 * KB), id=number) for number in range(30)]
    async with Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, reconnect=rstreams.Reconnect(first_delay_s=0.001)) as connection:
            await connection.publish("work", Stream.from_iterable(messages))
            got: set[object] = set()
            cuts = [10, 5]
            async with connection.messages("work", window_bytes=50 * KB).open() as stream:
                async for message in stream:
                    got.add(message.id)
                    if cuts and len(got) == cuts[-1]:
                        cuts.pop()
                        pump_of(connection).cut()
                    if len(got) == 30:
                        break
            assert not cuts


@pytest.mark.parametrize("window_bytes", [None, 64 * KB])
async def test_a_node_bounds_its_producers(window_bytes: int | None) -> None:
    messages = mixed(30, seed=3)
    async with connected(window_bytes=window_bytes) as (node, connection):
        queue = node.queue("work")
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(connection.publish, "work", Stream.from_iterable(messages))
        assert queue.statistics().ready == 90
        got = await connection.stream("work").take(90).map(len).to_list()
        assert sorted(got) == sorted([len(message) for message in messages] * 3)


async def test_a_bad_bound_is_named_at_the_call() -> None:
    async with connected() as (_, connection):
        with pytest.raises(ConfigError, match="window_bytes=0"):
            connection.stream("any", window_bytes=0)
    with pytest.raises(ConfigError, match="window_bytes=-1"):
        Node(window_bytes=-1)


def test_threads_have_the_bound_and_send_bodies_as_they_come_too() -> None:
    with start_portal("node") as portal, portal.enter(Node()) as node:
        node.queue("work")
        listener = portal.run(node.listen, "127.0.0.1:0")
        with rstreams.blocking.connect(listener.url) as connection:
            sent = Stream.of(Message(ByteStream([bytes(10 * KB)] * 3)), Message(b"x"))
            connection.publish("work", sent)
            got = connection.stream("work", window_bytes=20 * KB).take(2).to_list()
            assert got == [bytes(30 * KB), b"x"]


async def test_a_window_is_told_without_a_word_about_a_link_that_the_peer_has_not_attached() -> None:
    """A flow for such a link has a delivery count of which the peer knows nothing: RabbitMQ 4.0 makes credit of it."""
    async with Node() as node:
        node.queue("readings")
        listener = await node.listen("127.0.0.1:0")
        async with tapped(listener.url) as tap, rstreams.connect(tap.url) as connection:
            await connection.publish("readings", Stream.range(4))
            for window_bytes in (None, 64 * KB, 128 * KB * KB):  # a new session, and one that has been used
                assert await connection.stream("readings", window_bytes=window_bytes).take(1).to_list()
            names = [(who, frame.name, frame["handle"] is not None) for who, frame in tap.frames]
        attached = [i for i, (who, name, _) in enumerate(names) if (who, name) == ("theirs", "attach")]
        asked = [i for i, (who, name, _) in enumerate(names) if (who, name) == ("ours", "attach")]
        for ours, theirs in zip(asked, attached, strict=True):
            assert ("ours", "flow", True) not in names[ours:theirs]


@pytest.mark.slow
@pytest.mark.parametrize("settlement", ["at_least_once", "at_most_once"])
async def test_what_waits_at_the_sender_of_a_cancelled_link_takes_no_room_from_the_next_link(settlement: Any) -> None:  # noqa: ANN401
    async with Node() as node:
        node.serve("large", Stream.range(10**6).map(lambda _: bytes(9000)))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            for _ in range(60):
                large = connection.stream("large", window=300, window_bytes=128 * KB, settlement=settlement)
                with trio.fail_after(60):
                    async with large.open() as items:  # asks for a whole window, most of which waits at the node
                        assert [len(await anext(items)) for _ in range(2)] == [9000, 9000]
