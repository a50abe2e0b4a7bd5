"""The loops over the engine, in C and in Python (see conftest): one by one, and that both do the same."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import ANY

import pytest
from cproton_ffi import ffi, lib

from rstreams.message import encode_item
from rstreams.net._proton import LinkDriver
from rstreams.net._proton.loops import address_of, as_delivery
from rstreams.net._proton.receiving_driver import ReceivingDriver
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role, Settlement, Transfer
from rstreams.protocol.link import Link
from tests.net.engines import Engines
from tests.oracles.loops import PythonLoops

MOST = 65_000
"""The largest message in one frame."""

ENOUGH = 1024 * 1024
"""The bytes of large messages with which an output is full."""


def read_nothing(frame: bytes) -> None:
    raise AssertionError(frame)


class End:
    """An end of a link that does nothing by itself."""

    place = str
    driver: LinkDriver

    def __init__(self, role: Role) -> None:
        self.role = role

    def bind(self, name: str, driver: LinkDriver) -> Link:  # type: ignore[override, unused-ignore]
        self.driver = driver
        return Link(name, self.role, driver, self)

    def on_attach(self, frame: Attach) -> None: ...
    def on_flow(self, frame: Flow) -> None: ...
    def on_transfer(self, frame: Transfer) -> None: ...
    def on_disposition(self, frame: Disposition) -> None: ...
    def on_detach(self, frame: Detach) -> None: ...
    def on_lost(self, frame: Lost) -> None: ...
    def work(self) -> None: ...


class Pair:
    """A link between two engines, and the loops of both."""

    most = MOST

    def __init__(self) -> None:
        self.engines = Engines()
        receiver, sender = End(Role.RECEIVER), End(Role.SENDER)

        def answer(driver: LinkDriver, frame: Attach) -> None:
            link = sender.bind(frame.name, driver)
            driver.bind(link)
            link.receive(frame)
            link.send(Attach(frame.name, Role.SENDER, frame.source, frame.target, frame.settlement))

        self.engines.other.answer = answer
        self.engines.one.attach(receiver, Attach("link", Role.RECEIVER, "a", "", Settlement.AT_LEAST_ONCE))  # type: ignore[arg-type]
        self.engines.run()
        self.sender, self.receiver = sender.driver.pointer, receiver.driver.pointer
        assert isinstance(receiver.driver, ReceivingDriver)
        self.arrivals = receiver.driver.arrivals
        self.sending, self.reading = self.engines.other.engine._host.loops, self.engines.one.engine._host.loops
        lib.pn_link_flow(self.receiver, 1000)
        self.engines.run()

    def move(self) -> None:
        """Carry all bytes over, and work off no event."""
        for side, peer in ((self.engines.other, self.engines.one), (self.engines.one, self.engines.other)):
            while data := side.engine.output():
                peer.engine.feed(data)

    def send(self, *messages: bytes, settled: bool = False) -> Sequence[Any]:
        sent = self.begin_to_send(range(len(messages)), list(messages), settled=settled)
        self.move()
        return sent

    def begin_to_send(
        self, numbers: Sequence[Any], messages: Sequence[Any], *, settled: bool = False, are_bodies: bool = False
    ) -> Sequence[Any]:
        """Send without moving bytes."""
        sent: Sequence[Any] = self.sending.send(
            address_of(self.sender), numbers, messages, settled, are_bodies, self.most
        )
        return sent

    def read(self, most: int = 1000, most_bytes: int = 0) -> tuple[Sequence[Any], list[bytes], bool]:
        *read, is_split, starved = self.arrivals.read(most, most_bytes)
        assert not is_split
        assert not starved
        return tuple(read)


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.engines.free()


def test_the_loops_are_the_ones_asked_for(pair: Pair, request: pytest.FixtureRequest) -> None:
    asked = request.node.callspec.params["language"]  # this test does not name the fixture, as most do not
    wanted = {"C": "Loops", "Python": PythonLoops.__name__}[asked]
    assert type(pair.reading).__name__ == type(pair.sending).__name__ == wanted


def test_messages_of_any_size_arrive_as_they_were_sent(pair: Pair) -> None:
    messages = [b"", b"x", bytes(range(256)) * 16, b"y" * 16_384, b"z" * 16_385, b"large" * 6000, b""]
    pair.send(*messages)
    deliveries, received, settled = pair.read()
    assert received == messages
    assert not settled
    assert len(deliveries) == len(messages)


@pytest.mark.parametrize("settled", [False, True])
def test_bodies_arrive_as_their_encoded_messages(pair: Pair, *, settled: bool) -> None:
    bodies = [b"", b"x", b"y" * 255, b"z" * 256, b"large" * 6_000]
    pair.begin_to_send(range(len(bodies)), bodies, settled=settled, are_bodies=True)
    pair.move()
    assert pair.read() == (ANY, list(map(encode_item, bodies)), settled)


def test_no_more_is_read_than_is_asked_for(pair: Pair) -> None:
    pair.send(b"1", b"2", b"3")
    assert pair.read(2)[1] == [b"1", b"2"]
    assert pair.read(2)[1] == [b"3"]
    deliveries, messages, settled = pair.read(2)
    assert (len(deliveries), messages, settled) == (0, [], False)


def test_a_run_ends_where_deliveries_begin_to_be_settled_and_where_they_cease_to_be(pair: Pair) -> None:
    pair.send(b"1", b"2")
    pair.send(b"3", settled=True)
    pair.send(b"4")
    runs = [pair.read() for _ in range(4)]
    assert [(messages, settled) for _, messages, settled in runs] == [
        ([b"1", b"2"], False),
        ([b"3"], True),
        ([b"4"], False),
        ([], False),
    ]


def test_a_message_that_is_too_large_stays_with_all_behind_it(pair: Pair) -> None:
    pair.send(b"1", b"22222", b"3")
    assert pair.read(most_bytes=4)[1] == [b"1"]
    assert pair.read(most_bytes=4)[1] == []
    assert lib.pn_link_current(pair.receiver)
    assert pair.read(most_bytes=5)[1] == [b"22222", b"3"]


def test_a_message_that_has_not_come_whole_is_left_alone(pair: Pair) -> None:
    lib.pn_delivery(pair.sender, ffi.new("pn_bytes_t *", {"size": 0, "start": ffi.NULL})[0])
    lib.pn_link_send(pair.sender, b"half", 4)
    pair.move()
    assert pair.read()[1] == []
    lib.pn_link_send(pair.sender, b" whole", 6)
    lib.pn_link_advance(pair.sender)
    pair.move()
    assert pair.read()[1] == [b"half whole"]


def test_an_aborted_delivery_is_passed_over(pair: Pair) -> None:
    for message in (b"1", b"2"):
        delivery = lib.pn_delivery(pair.sender, ffi.new("pn_bytes_t *", {"size": 0, "start": ffi.NULL})[0])
        lib.pn_link_send(pair.sender, message, 1)
        pair.move()
        if message == b"1":
            lib.pn_delivery_abort(delivery)
        else:
            lib.pn_link_advance(pair.sender)
        pair.move()
    assert pair.read()[1] == [b"2"]


def test_outcomes_come_back_to_the_deliveries_in_order(pair: Pair) -> None:
    sent = pair.send(b"1", b"2", b"3", b"4")
    assert pair.sending.settle_accepted(sent) == 0
    deliveries, _, _ = pair.read()
    pair.reading.settle(deliveries[:2], lib.PN_ACCEPTED)
    pair.reading.settle(deliveries[3:], lib.PN_RELEASED)
    pair.move()
    assert pair.sending.settle_accepted(sent) == 2
    assert [lib.pn_delivery_remote_state(as_delivery(each)) for each in sent[2:]] == [0, lib.PN_RELEASED]
    pair.reading.settle(list(deliveries[2:3]), lib.PN_ACCEPTED)
    pair.move()
    assert pair.sending.settle_accepted(sent[2:]) == 1
    lib.pn_delivery_settle(as_delivery(sent[3]))
    pair.move()
    assert lib.pn_link_unsettled(pair.sender) == lib.pn_link_unsettled(pair.receiver) == 0


def test_tags_are_the_low_32_bits_of_the_numbers(pair: Pair) -> None:
    assert len(pair.begin_to_send([2**32 - 1, 2**32, 258], [b""] * 3)) == 3
    pair.move()
    tags = []
    while delivery := lib.pn_link_current(pair.receiver):
        tag = lib.pn_delivery_tag(delivery)
        tags.append(bytes(ffi.unpack(tag.start, tag.size)))
        lib.pn_link_advance(pair.receiver)
    assert tags == [b"\xff" * 4, b"\0" * 4, b"\0\0\1\2"]


def test_events_are_told_link_by_link_and_the_first_of_another_kind_stays(pair: Pair) -> None:
    collector = pair.engines.one.engine._events.collector
    pair.send(b"1", b"2", b"3")
    noted: dict[Any, int] = {}
    kinds = []
    while lib.pn_collector_peek(collector):
        for link, deliveries, flow in pair.reading.note_events(address_of(collector)):
            noted[link] = noted.get(link, 0) + deliveries
            assert not flow
        if lib.pn_collector_peek(collector):
            kinds.append(lib.pn_event_type(lib.pn_collector_peek(collector)))
            lib.pn_collector_pop(collector)
    assert noted == {address_of(pair.receiver): 3}
    assert not {lib.PN_DELIVERY, lib.PN_LINK_FLOW} & set(kinds)


def test_news_of_credit_is_told(pair: Pair) -> None:
    lib.pn_link_flow(pair.receiver, 1)
    pair.move()
    pair.move()
    collector, flows = pair.engines.other.engine._events.collector, []
    while lib.pn_collector_peek(collector):
        flows += [link for link, _, flow in pair.sending.note_events(address_of(collector)) if flow]
        lib.pn_collector_pop(collector)
    assert flows == [address_of(pair.sender)]


def test_what_does_not_fit_the_buffer_goes_out_with_the_next(pair: Pair) -> None:
    pair.begin_to_send(range(20), [b"x" * 5000] * 20, settled=True)
    room, sizes = memoryview(bytearray(30_000)), []
    while (output := pair.sending.output(room, ENOUGH, 0, read_nothing))[1]:
        pieces, size, _ = output
        sizes.append(size)
        pair.engines.one.engine.feed(b"".join(pieces))
    assert len(sizes) > 2
    assert max(sizes) <= len(room)
    assert pair.read()[1] == [b"x" * 5000] * 20


def test_an_engine_that_has_failed_takes_no_more(pair: Pair) -> None:
    transport = pair.engines.one.engine._transport
    pair.reading.feed(b"\0\0\0\1 is no frame")
    pair.reading.feed(b"x" * 100_000)
    assert lib.pn_transport_capacity(transport) < 0


@pytest.mark.parametrize(
    ("numbers", "messages"),
    [([1], [b"", b""]), ([1, 2, 3], [b"", b""]), (["one"], [b""]), ([1], ["text"]), ([1], [None])],
)
def test_what_cannot_be_sent_is_refused(pair: Pair, numbers: list[Any], messages: list[Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        pair.begin_to_send(numbers, messages)


@pytest.mark.slow  # ten thousand messages, twice
def test_nothing_is_left_behind_by_ten_thousand_messages(pair: Pair) -> None:
    def rounds(count: int) -> None:
        for _ in range(count):
            sent = pair.send(*[b"x" * 100] * 100)
            deliveries, _, _ = pair.read()
            pair.reading.settle(deliveries, lib.PN_ACCEPTED)
            lib.pn_link_flow(pair.receiver, len(deliveries))
            pair.move()
            assert pair.sending.settle_accepted(sent) == 100
            for side in (pair.engines.one, pair.engines.other):
                side.engine.has_work()

    rounds(50)
    gc.collect()
    before = sys.getallocatedblocks()
    rounds(100)
    gc.collect()
    assert sys.getallocatedblocks() - before < 1000  # of 10,000 messages; the process itself wavers by a hundred
