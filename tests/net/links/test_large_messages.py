"""Large messages from memory, which go into the engine a part at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat
from typing import Any, Literal

import pytest
import trio
from cproton_ffi import lib

import rstreams
from rstreams import ByteStream, Message, Node, Reconnect, Stream
from rstreams.message import decode_body, encode_item
from rstreams.net._proton import LinkDriver, sessions
from rstreams.net._proton.frame_fields import DISPOSITION
from rstreams.net._proton.receiving_driver import ReceivingDriver
from rstreams.net._proton.sending_driver import PART_BYTES
from rstreams.net.links.bodies import open_body
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.testing import FaultyNetwork, ManualPublisher, ProbeSubscriber
from tests.net.engines import Engines
from tests.net.over_tcp import connected, pump_of, until
from tests.protocol.played import never

LARGE_BYTES = 512 * 1024
LARGE = LARGE_BYTES + 100
KB = 1024


def large(number: int, size: int = LARGE) -> bytes:
    return bytes([number % 256]) * size


class Pair:
    """Both ends of a link over two engines."""

    def __init__(self, publisher: Any, *, settlement: Settlement = Settlement.AT_LEAST_ONCE) -> None:  # noqa: ANN401
        self.engines = Engines()
        self.probe = ProbeSubscriber[bytes]()
        self.finished: list[BaseException | None] = []
        self.receiver = LinkSubscription(
            self.probe, ReceivingOptions(decode=decode_body, window=64), self.finished.append
        )
        self.sender = LinkSubscriber(
            publisher,
            SendingOptions(
                encode=encode_item,
                settlement=settlement,
                settle_before_detach=True,
                expose_errors=True,
                open_body=open_body,
            ),
            self.finished.append,
        )
        self.settlement = settlement
        self.engines.other.answer = self._answer
        frame = Attach("large", Role.RECEIVER, "a", "", settlement)
        self.receiving = self.engines.one.attach(self.receiver, frame)
        self.engines.run()

    def _answer(self, driver: LinkDriver, frame: Attach) -> None:
        self.sending = driver
        link = self.sender.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        link.send(Attach(frame.name, Role.SENDER, "a", "", self.settlement))
        self.sender.start()

    def send_a_part(self) -> None:
        """Move one output of the sender, and nothing back."""
        self.engines.other.engine.dispatch(64, math.inf)
        self.engines.one.engine.feed(bytes(self.engines.other.engine.output()))

    @property
    def in_engine(self) -> int:
        return int(lib.pn_session_outgoing_bytes(self.sending._session))


@pytest.mark.parametrize("settlement", list(Settlement))
def test_credit_counts_what_waits(settlement: Settlement) -> None:
    items = [large(1), b"two", large(3), b"four", b"five"]
    pair = Pair(Stream.from_iterable(items), settlement=settlement)
    pair.probe.request(2)
    pair.engines.run()
    assert pair.probe.items == items[:2]
    assert pair.sending.credit() == 0
    pair.probe.request(9)
    pair.engines.run()
    assert pair.probe.items == items
    assert pair.probe.completed
    assert pair.finished == [None]
    assert pair.sender.accepted == 5


def test_the_engine_has_no_more_of_it_than_two_parts() -> None:
    pair = Pair(Stream.of(large(1, 8 * LARGE_BYTES), b"last"))
    pair.probe.request(2)
    most = turns = 0
    one, other = pair.engines.one.engine, pair.engines.other.engine
    while not pair.probe.completed:
        for engine, peer in ((one, other), (other, one)):
            engine.dispatch(64, math.inf)
            most = max(most, pair.in_engine)
            data = bytes(engine.output())
            if data:
                peer.feed(data)
        turns += 1
        assert turns < 1000
    assert most <= 2 * PART_BYTES
    assert pair.probe.items == [large(1, 8 * LARGE_BYTES), b"last"]


def test_messages_that_wait_for_a_window_leave_room_for_those_of_other_sessions() -> None:
    engines, sources, probes = Engines(), dict[str, ManualPublisher[Any]](), dict[str, ProbeSubscriber[bytes]]()

    def answer(driver: LinkDriver, frame: Attach) -> None:
        sources[frame.name] = ManualPublisher[Any]()
        sender = LinkSubscriber(sources[frame.name], SendingOptions(encode=encode_item), lambda _error: None)
        link = sender.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        link.send(Attach(frame.name, Role.SENDER, "a", ""))
        sender.start()

    engines.other.answer = answer
    engines.other.engine.limit_parts(1)  # as slow as no network is
    for name, window_bytes in (("held", 100 * KB), ("free", 0)):
        probes[name] = ProbeSubscriber[bytes](hold=True)
        options = ReceivingOptions(decode=decode_body, window=8, window_bytes=window_bytes)
        receiver = LinkSubscription(probes[name], options, never)
        engines.one.engine.links.attach(receiver, Attach(name, Role.RECEIVER, "a", ""))
        engines.run()
        probes[name].request(8)
    engines.run()
    sources["held"].next(b"small")  # from now on credit is granted for several such messages
    engines.run()
    sources["held"].next(large(1))
    engines.run()
    assert probes["held"].items == [b"small"]  # while it is held the window is closed in the middle of the other one

    sources["free"].next(large(3), b"last")
    engines.run()
    assert probes["free"].items == [large(3), b"last"]
    probes["held"].holds[0].done()
    engines.run()
    assert probes["held"].items == [b"small", large(1)]


def test_a_message_that_the_receiver_settles_behind_a_closed_window_is_not_kept_after_the_link() -> None:
    source, probe = ManualPublisher[Any](), ProbeSubscriber[bytes](hold=True)
    engines = Engines()

    def answer(driver: LinkDriver, frame: Attach) -> None:
        sender = LinkSubscriber(source, SendingOptions(encode=encode_item), lambda _error: None)
        link = sender.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        link.send(Attach(frame.name, Role.SENDER, "a", ""))
        sender.start()

    engines.other.answer = answer
    receiver = LinkSubscription(probe, ReceivingOptions(decode=decode_body, window=8, window_bytes=100 * KB), never)
    engines.one.engine.links.attach(receiver, Attach("held", Role.RECEIVER, "a", ""))
    engines.run()
    probe.request(8)
    engines.run()
    source.next(b"small")
    engines.run()
    source.next(large(1))
    engines.run()
    loops = engines.other.engine._host.loops
    assert loops.part_bytes() > 0  # the window is closed in the middle of it

    (receiving,) = engines.one.engine.links.drivers
    delivery = lib.pn_link_current(receiving.pointer)
    lib.pn_delivery_update(delivery, lib.PN_REJECTED)
    lib.pn_delivery_settle(delivery)
    said = engines.one.output()
    size = int.from_bytes(said[:4])
    assert said[10] == DISPOSITION
    engines.other.engine.feed(said[:size])  # and not the flow behind it, which opens the window again
    engines.other.output()
    lib.pn_link_close(receiving.pointer)
    engines.other.engine.feed(engines.one.output())
    while engines.other.output() or len(engines.other.engine.links):
        pass
    assert loops.part_bytes() == 0


def test_a_streamed_message_behind_it_is_asked_for_no_faster_than_it_goes_out() -> None:
    asked = 0

    def chunks() -> Iterator[bytes]:
        nonlocal asked
        for _ in range(5000):
            asked += 1
            yield bytes(KB)

    source = ManualPublisher[Any]()
    pair = Pair(source)
    pair.probe.request(2)
    pair.engines.run()
    whole_parts = large(1, LARGE_BYTES + PART_BYTES - 8)  # encoded: the last part leaves no room
    source.next(whole_parts, Message(ByteStream(chunks())))
    most_ahead = 0
    while len(pair.probe.items) < 2:
        for side, peer in ((pair.engines.one, pair.engines.other), (pair.engines.other, pair.engines.one)):
            before = asked
            data = side.output()
            most_ahead = max(most_ahead, asked - before)
            if data:
                peer.engine.feed(data)
    assert pair.probe.items == [whole_parts, bytes(5000 * KB)]
    assert most_ahead < 1100, "an output has 1 MiB of parts"


def test_a_drain_is_answered_behind_it() -> None:
    source = ManualPublisher[bytes]()
    pair = Pair(source)
    pair.probe.request(5)
    pair.engines.run()
    drained: list[int] = []
    source.next(large(1), b"two")
    pair.receiver.drain(lambda: drained.append(len(pair.probe.items)))
    pair.engines.run()
    assert pair.probe.items == [large(1), b"two"]
    assert drained == [2]
    assert pair.sending.credit() == pair.receiving.credit() == 3, "what was drained is granted again"


def test_what_the_peer_settles_before_it_has_come_whole_is_not_sent_to_its_end() -> None:
    source = ManualPublisher[bytes]()
    pair = Pair(source)
    pair.probe.request(5)
    pair.engines.run()
    source.next(large(1, 16 * LARGE_BYTES), b"two")
    pair.send_a_part()
    delivery = lib.pn_link_current(pair.receiving.pointer)
    assert lib.pn_delivery_partial(delivery)
    lib.pn_delivery_update(delivery, lib.PN_RELEASED)
    lib.pn_delivery_settle(delivery)
    assert isinstance(pair.receiving, ReceivingDriver)
    pair.receiving.arrivals.remove()
    pair.engines.run()
    assert pair.probe.items == [b"two"]
    assert source.outcomes == ["released", "done"]
    assert pair.sending.credit() == pair.receiving.credit()


def test_a_receiver_that_leaves_in_the_middle_of_one_ends_it() -> None:
    source = ManualPublisher[bytes]()
    pair = Pair(source)
    pair.probe.request(5)
    pair.engines.run()
    source.next(large(1, 16 * LARGE_BYTES), b"two")
    pair.send_a_part()
    pair.probe.cancel()
    pair.engines.run()
    assert source.cancelled
    assert pair.probe.items == []
    assert len(pair.finished) == 1
    assert pair.engines.one.engine.links.alive == pair.engines.other.engine.links.alive == []
    assert pair.engines.one.failures == pair.engines.other.failures == []


def test_links_of_one_session_send_theirs_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 1)
    engines, probes, senders = Engines(), list[ProbeSubscriber[bytes]](), dict[str, LinkSubscriber[bytes]]()

    def answer(driver: LinkDriver, frame: Attach) -> None:
        link = senders[frame.name].bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        link.send(Attach(frame.name, Role.SENDER, "a", ""))
        senders[frame.name].start()

    engines.other.answer = answer
    for name in ("one", "two", "three"):
        probe = ProbeSubscriber[bytes](20)
        probes.append(probe)
        senders[name] = LinkSubscriber(
            Stream.from_iterable(repeat(large(1))),
            SendingOptions(encode=encode_item, expose_errors=True),
            lambda _: None,
        )
        receiver = LinkSubscription(probe, ReceivingOptions(decode=decode_body, window=8), never)
        engines.one.attach(receiver, Attach(name, Role.RECEIVER, "a", ""))
    assert len({lib.pn_link_session(driver.pointer) for driver in engines.one.engine.links.drivers}) == 1
    most_ahead = 0
    while min(len(probe.items) for probe in probes) < 20:
        for side, peer in ((engines.one, engines.other), (engines.other, engines.one)):
            data = side.output()
            if data:
                peer.engine.feed(data)
        counts = [len(probe.items) for probe in probes]
        most_ahead = max(most_ahead, max(counts) - min(counts))
    assert most_ahead <= 1


# over TCP


Settled = Literal["at_most_once", "at_least_once"]


@pytest.mark.parametrize("settlement", ["at_most_once", "at_least_once"])
@pytest.mark.parametrize("window_bytes", [None, 100 * KB, 3 * LARGE])
async def test_a_served_stream_of_them_comes_in_order(settlement: Settled, window_bytes: int | None) -> None:
    items = [large(1), b"two", large(3, 3 * LARGE), large(4), b"five"]
    async with connected() as (node, connection):
        node.serve("large", Stream.from_iterable(items))
        stream = connection.stream("large", settlement=settlement, window_bytes=window_bytes)
        with trio.fail_after(20):
            assert await stream.to_list() == items


@pytest.mark.parametrize("pack_items", [1, 4])
async def test_they_are_published_beside_small_ones_and_the_node_is_there_for_others(pack_items: int) -> None:
    items = [b"one", large(2, 8 * LARGE), b"three", large(4), b"five"]
    async with Node(window_bytes=200 * KB, max_message_bytes=None) as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, rstreams.connect(listener.url) as other:
            with trio.fail_after(20):
                await connection.publish("work", Stream.from_iterable(items), pack_items=pack_items)
                await other.publish("work", Stream.of(b"six"))
                assert await other.stream("work").take(6).to_list() == [*items, b"six"]


async def test_a_stream_that_ends_early_leaves_the_connection_to_others() -> None:
    async with connected() as (node, connection):
        node.serve("large", Stream.from_iterable(repeat(large(1, 8 * LARGE))))
        node.serve("small", Stream.of(1, 2))
        with trio.fail_after(20):
            for _ in range(3):
                async with connection.stream("large").open() as items:
                    assert len(await anext(items)) == 8 * LARGE
                assert await connection.stream("small").to_list() == [1, 2]
        await until(lambda: not node.statistics().served["large"].subscribers)
        await until(lambda: not pump_of(connection).engine.links.drivers)


@pytest.mark.slow
async def test_one_that_was_cut_in_the_middle_is_sent_again_whole_and_in_order() -> None:
    items = [b"one", large(2, 8 * LARGE), b"three", large(4), b"five"]
    async with Node(max_message_bytes=None) as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with (
            FaultyNetwork(listener.url) as network,
            rstreams.connect(network.url, reconnect=Reconnect(first_delay_s=0.0)) as connection,
        ):
            network.after(bytes=3 * LARGE, direction="to_peer").reset()
            with trio.fail_after(20):
                await connection.publish(
                    "work", Stream.from_iterable(items), settlement="effectively_once", producer_id="p"
                )
                assert await connection.stream("work").take(5).to_list() == items
            assert network.faults["reset"] == 1
