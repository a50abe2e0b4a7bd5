"""Browsing a queue: copies of what is in it, in order, under demand, which change nothing."""

from __future__ import annotations

import pytest

import rstreams
from rstreams import Message, Node, Stream
from rstreams.errors import ConfigError, LinkDetached
from rstreams.message import decode_body, encode_item
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.node.redelivery import Attempts, RedeliveryDelay
from rstreams.testing import ProbeSubscriber
from tests.loops import Loop, over_both_loops
from tests.net.foreign import foreign
from tests.net.wire import ACCEPT, Peer, attach_frame, close_frame, described, detach_frame, disposition_frame, scripted
from tests.node.queues import bodies, consumed, counts, encoded, filled, produced
from tests.node.test_dead_letters import Time, check_laws, fill


def browsed(queue: Queue, request: int = 0) -> ProbeSubscriber[bytes]:
    probe = ProbeSubscriber[bytes](request, hold=True)
    queue.browse(probe)
    return probe


def test_a_browser_sees_what_is_there_in_order_as_it_asks() -> None:
    queue = Queue("q")
    link = filled(queue, *"abc")
    probe = browsed(queue)
    assert bodies(probe) == []
    probe.request(2)
    assert bodies(probe) == list("ab")
    probe.request(5)
    assert bodies(probe) == list("abc")
    link.next(*encoded("d"))
    assert bodies(probe) == list("abcd")
    now = queue.statistics()
    assert (now.ready, now.delivered, now.unsettled, now.browsers, now.consumers) == (4, 0, 0, 1, 0)
    assert bodies(consumed(queue, 9)) == list("abcd")
    assert probe.subscription is not None
    probe.cancel()
    assert queue.statistics().browsers == 0


def test_what_becomes_of_a_copy_changes_nothing() -> None:
    queue = Queue("q", attempts=Attempts(max_deliveries=1))
    filled(queue, *"ab")
    probe = browsed(queue, 2)
    probe.holds[0].fail(ValueError())
    probe.holds[1].release()
    again, consumer = browsed(queue, 2), consumed(queue, 2)
    assert bodies(again) == bodies(consumer) == list("ab")
    assert counts(consumer) == [0, 0]


def test_what_is_taken_is_not_shown_and_what_comes_back_before_the_browser_is() -> None:
    queue = Queue("q")
    filled(queue, *"abcdef")
    consumer = consumed(queue, 3)
    first, second = browsed(queue, 1), browsed(queue)
    assert bodies(first) == ["d"]
    consumer.holds[1].release()  # behind the first browser's back
    consumer.holds[2].fail(ValueError())
    first.request(9)
    second.request(9)
    assert bodies(first) == list("def")
    assert bodies(second) == list("bcdef")
    assert counts(second)[:2] == [0, 1]


def test_a_browser_that_waits_sees_all_that_comes_by() -> None:
    queue = Queue("q")
    consumer, probe = consumed(queue, 100, hold=False), browsed(queue, 100)
    link = produced(queue)
    for text in "abcdef":
        link.next(*encoded(text))
    assert bodies(probe) == bodies(consumer) == list("abcdef")


def test_what_waits_for_its_next_attempt_is_shown_and_what_is_too_old_is_not() -> None:
    time = Time()
    queue = time.queue(attempts=Attempts(redelivery=RedeliveryDelay(10.0)))
    fill(queue, "late", Message("stale", ttl_s=1.0), "fine")
    consumed(queue, 1).holds[0].fail(ValueError())
    time.now += 2
    probe = browsed(queue, 9)
    assert [decode_body(item) for item in probe.items] == ["late", "fine"]
    queue.expire()
    check_laws(queue)


def test_messages_that_go_do_not_move_a_browser() -> None:
    """What is too old leaves holes, which are closed now and then: nothing is shown twice, and nothing left out."""
    time = Time()
    queue = time.queue(capacity=1000)
    fill(queue, *[Message(number, ttl_s=1.0 if number % 4 else None) for number in range(400)])
    probe, behind = browsed(queue, 150), browsed(queue, 10)
    assert [decode_body(item) for item in probe.items] == list(range(150))
    time.now += 1
    queue.expire()
    assert len(queue.storage.backlog.fresh) == 100, "the holes have been closed"
    probe.request(1000)
    behind.request(1000)
    assert [decode_body(item) for item in probe.items[150:]] == list(range(152, 400, 4))
    assert [decode_body(item) for item in behind.items[10:]] == list(range(12, 400, 4))


def test_a_browser_keeps_no_copy_of_the_queue() -> None:
    queue = Queue("q", MemoryStorage(2000))
    link = produced(queue)
    while link.outstanding:
        link.next(*[encode_item(b"x")] * link.outstanding)
    probe = browsed(queue, 1500)
    assert len(probe.items) == 1500
    assert queue.statistics().ready == 2000


def test_a_bad_request_ends_it_and_one_that_raises_loses_it_alone() -> None:
    queue = Queue("q")
    filled(queue, "a")
    probe = browsed(queue)
    probe.request(0)
    assert isinstance(probe.error, Exception)

    class Raises(ProbeSubscriber[bytes]):
        def on_next(self, item: bytes) -> None:
            raise ValueError(item)

    raises = Raises(1)
    queue.browse(raises)
    assert isinstance(raises.error, ValueError)
    assert (queue.statistics().browsers, queue.statistics().ready) == (0, 1)


# over a link


@over_both_loops
async def test_over_tcp_a_stream_browses(on: Loop) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", on.Stream.of("a", "b", "c"))
        assert await connection.stream("work", browse=True).take(3).to_list() == ["a", "b", "c"]
        first = await connection.messages("work", browse=True).take(1).to_list()
        assert [each.body for each in first] == ["a"]
        await on.until(lambda: not queue.statistics().browsers)
        now = queue.statistics()
        assert (now.ready, now.delivered) == (3, 0)
        assert await connection.stream("work").take(3).to_list() == ["a", "b", "c"]


async def test_the_answer_says_what_is_in_force_and_a_drain_tells_the_end() -> None:
    """An old broker's browser: it asks for much, and what the drain leaves of its credit says that this is all."""
    async with Node() as node:
        queue = node.queue("work")
        node.multicast("news")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, foreign(listener) as client:
            await connection.publish("work", Stream.of(b"0", b"1"))
            for number, (address, asked, answered) in enumerate(
                [("work", "copy", "copy"), ("work", "move", "move"), ("work", None, "move"), ("news", "move", "copy")]
            ):
                answer = await client.attach(f"l{number}", "receiver", address=address, distribution=asked)
                assert str(answer["source"].value[6]) == answered
                if number:
                    await client.send(detach_frame())
                    await client.due("detach")
                    continue
                await client.grant(10, drain=True)
                got = [await client.due("transfer") for _ in range(2)]
                flow = await client.frame()
                assert (flow.name, flow["link-credit"]) == ("flow", 0)
                assert [decode_body(each.payload) for each in got] == [b"0", b"1"]
                await client.send(disposition_frame(0, 1, ACCEPT))
                await client.send(disposition_frame(0, 0, described(0x27, b"\x41")))
                await client.send(detach_frame())
                await client.due("detach")
                assert (queue.statistics().ready, queue.statistics().accepted) == (2, 0)


@pytest.mark.parametrize("mode", ["", "move"])
async def test_a_peer_that_does_not_say_that_it_copies_is_asked_for_nothing(mode: str, autojump_clock: object) -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        assert str(attach["source"].value[6]) == "copy"
        await peer.send(attach_frame(attach["name"], "sender", source="a", initial_delivery_count=0, distribution=mode))
        detach = await peer.expect("detach")
        assert detach["closed"] is True
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(peer) as connection:
        with pytest.raises(LinkDetached, match="browse=True: the peer does not say"):
            await connection.stream("a", browse=True).to_list()


@pytest.mark.parametrize(
    ("version", "dialect"), [("3.10.8", "rabbitmq310"), ("4.0.5", "rabbitmq4"), ("4.3.6", "rabbitmq4")]
)
async def test_a_peer_that_removes_browsed_messages_is_not_attached_to(
    version: str, dialect: str, autojump_clock: object
) -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens(properties={"product": "RabbitMQ", "version": version})
        await peer.expect("close")  # no attach and no flow comes before
        await peer.send(close_frame())

    async with scripted(peer) as connection:
        with pytest.raises(
            ConfigError, match=f"^browse=True: 'a' is at a peer of dialect '{dialect}'; .*without browse$"
        ):
            await connection.stream("a", browse=True).to_list()


@over_both_loops
async def test_browsing_is_no_way_to_consume(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.queue("work")
        with pytest.raises(ConfigError, match="browse=True"):
            await connection.consume("work", print, browse=True)
        with pytest.raises(ConfigError, match="browse='yes'"):
            connection.stream("work", browse="yes")
        with pytest.raises(ConfigError, match="expose_errors=1"):
            connection.stream("work", expose_errors=1)


@over_both_loops
async def test_a_drained_node_waits_for_no_browser(on: Loop) -> None:
    got: list[object] = []
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        node.queue("work")
        await connection.publish("work", on.Stream.of(1))

        async def browse() -> None:
            with pytest.raises(LinkDetached, match="closing"):
                await connection.stream("work", browse=True).for_each(got.append)

        nursery.start_soon(browse)
        await on.until(lambda: got)
        drained = await node.drain_and_close()
        assert (drained.left, drained.outcome_unknown) == (1, 0)
