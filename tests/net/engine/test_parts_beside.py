"""Large messages pass beside the engine on both sides, and come as they were sent."""

from __future__ import annotations

import math
import random
from itertools import count, cycle
from typing import Any

import pytest
from cproton_ffi import lib

from rstreams import Stream
from rstreams.abc import Publisher
from rstreams.errors import RemoteProtocolError
from rstreams.message import Message, decode_body, encode_item
from rstreams.net._proton import Engine, LinkDriver, sessions
from rstreams.net._proton.receiving_driver import ReceivingDriver
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.engines import Engines
from tests.protocol.played import never

PATTERN = bytes(range(256))
LARGE_BYTES = 512 * 1024

SESSION_BEGIN = bytes.fromhex("0000001c020000010053 11c00f04 40 43 7000000010 7000000010".replace(" ", ""))
"""A `begin`, which is not a part of a message."""


def message(size: int, seed: int) -> bytes:
    """Return a message in which each byte is at a place of its own."""
    return random.Random(seed).randbytes(1024) + PATTERN * (size // 256)  # noqa: S311


def full(body: bytes) -> Message:
    """Return a message with sections before its body."""
    return Message(body, id="id", subject="subject", annotations={"x-opt-a": 1}, properties={"size": len(body)})


def receive(engine: Engine, data: bytes, *, rooms: bool) -> None:
    """Give an engine bytes as a wire does that writes into its rooms, or as any other wire."""
    came = 0
    for room in engine.rooms() if rooms else ():
        part = data[came : came + len(room)]
        room[: len(part)] = part
        came += len(part)
    left = engine.take_rooms(came, data[came:]) if came else data
    if left:
        engine.feed(left)


def encode_by_itself(item: object) -> bytes:
    """Encode as `encode_item`: a sender does not know that, and encodes items as they come."""
    return encode_item(item)


class Served:
    """Some links on which one engine sends to the other, over bytes that are cut anywhere."""

    def __init__(
        self,
        *publishers: Publisher[Any],
        frame: int = 65536,
        settlement: Settlement = Settlement.AT_LEAST_ONCE,
        encodes_body: bool = False,
    ) -> None:
        self.engines = Engines(max_frame_bytes=frame)
        self.probes: list[ProbeSubscriber[bytes]] = []
        self.senders: dict[str, LinkSubscriber[Any]] = {}
        self.settlement = settlement
        self.lost: list[BaseException | None] = []
        self.engines.other.answer = self._answer
        for name, publisher in zip(map(str, count()), publishers, strict=False):
            self.senders[name] = LinkSubscriber(
                publisher,
                SendingOptions(
                    encode=encode_item if encodes_body else encode_by_itself,
                    settlement=settlement,
                    settle_before_detach=True,
                    expose_errors=True,
                ),
                self.lost.append,
            )
            probe = ProbeSubscriber[bytes]()
            self.probes.append(probe)
            receiver = LinkSubscription(probe, ReceivingOptions(decode=decode_body, window=8), never)
            self.receiving = self.engines.one.attach(receiver, Attach(name, Role.RECEIVER, "a", "", settlement))
        self.engines.run()

    def _answer(self, driver: LinkDriver, frame: Attach) -> None:
        sender = self.senders[frame.name]
        link = sender.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        link.send(Attach(frame.name, Role.SENDER, "a", "", self.settlement))
        sender.start()

    def move(self, rng: random.Random, largest: int = 100_000) -> bool:
        """Move one output each way, in random slices; tell whether there was any."""
        moved = False
        for side, peer in ((self.engines.one, self.engines.other), (self.engines.other, self.engines.one)):
            side.engine.dispatch(64, math.inf)
            data = bytes(side.engine.output())
            moved = moved or bool(data) or side.engine.has_work()
            while data:
                size = rng.randint(1, largest)
                receive(peer.engine, data[:size], rooms=rng.random() < 0.7)
                data = data[size:]
                if rng.random() < 0.5:
                    peer.engine.dispatch(64, math.inf)
        return moved

    @property
    def size(self) -> int:
        """The bytes that have come of the current delivery of the link that was made last."""
        driver = self.receiving
        assert isinstance(driver, ReceivingDriver)
        return driver.arrivals.current()[0] if driver.lives else 0

    @property
    def parts_left(self) -> int:
        return int(self.engines.other.engine._host.loops.part_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("frame", [1024, 4096, 10_000, 65536, 300_000])
@pytest.mark.parametrize("settlement", list(Settlement))
@pytest.mark.parametrize("form", ["encoded", "bodies", "full"])
def test_messages_of_all_sizes_come_as_they_were_sent(
    monkeypatch: pytest.MonkeyPatch, frame: int, settlement: Settlement, form: str
) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 1)
    rng = random.Random(frame)  # noqa: S311
    sizes = cycle([0, LARGE_BYTES, 30_000, 130_000, 65_000, 2 * LARGE_BYTES, 400, 700_000])
    runs = [[message(next(sizes), seed) for seed in range(7)] for _ in range(3)]
    streams = map(Stream.from_iterable, runs)
    publishers: list[Publisher[Any]] = [each.map(full) if form == "full" else each for each in streams]
    served = Served(*publishers, frame=frame, settlement=settlement, encodes_body=form == "bodies")
    for probe in served.probes:
        probe.request(100)
    while served.move(rng):
        pass
    for probe, items in zip(served.probes, runs, strict=True):
        assert [len(item) for item in probe.items] == [len(item) for item in items]
        assert probe.items == items
        assert probe.completed
    assert served.parts_left == 0
    assert served.engines.one.failures == served.engines.other.failures == []


def test_neither_engine_has_the_bytes() -> None:
    source = ManualPublisher[bytes]()
    served = Served(source)
    served.probes[0].request(1)
    served.engines.run()
    source.next(message(4 * LARGE_BYTES, 1))
    pending = 0
    (receiving,) = served.engines.one.engine.links.drivers
    while not served.probes[0].items:
        served.move(random.Random(1))  # noqa: S311
        assert lib.pn_session_outgoing_bytes(served.engines.other.engine.links.drivers[0]._session) <= 16
        current = lib.pn_link_current(receiving.pointer)
        pending = max(pending, lib.pn_delivery_pending(current) if current else 0)
    assert pending == 0


def begun(item: object, at: int) -> tuple[Served, Engine, bytes]:
    """Return links, the receiving engine after the first `at` bytes of an output with a large item, and the rest."""
    source = ManualPublisher[object]()
    served = Served(source)
    engine = served.engines.one.engine
    served.probes[0].request(1)
    served.engines.run()
    source.next(item)
    data = served.engines.other.output()
    assert not engine.rooms()
    engine.feed(data[:at])
    return served, engine, data[at:]


@pytest.mark.parametrize("at", [2_000, 100_000], ids=["first frame", "second frame"])
@pytest.mark.parametrize("item", [message(LARGE_BYTES + 100_000, 1), full(message(LARGE_BYTES + 100_000, 1))])
def test_the_rest_of_a_body_is_written_where_it_belongs(at: int, item: bytes | Message) -> None:
    body = item.body if isinstance(item, Message) else item
    served, engine, rest = begun(item, at)
    rooms = engine.rooms()
    payload, frames = len(rooms[2]), len(rooms) // 2
    assert payload > 65_000
    assert [len(room) for room in rooms[1:]] == [len(rooms[1]), payload] * frames
    assert 0 <= len(rest) - sum(map(len, rooms)) < payload, "only the last frame, which is shorter, has no room"
    receive(engine, rest, rooms=True)
    engine.dispatch(64, math.inf)
    assert served.probes[0].items == [body]


@pytest.mark.parametrize("rooms", [False, True])
@pytest.mark.parametrize("value", [False, True], ids=["bytes", "a list"])
def test_a_further_frame_does_not_begin_a_body(rooms: bool, value: bool) -> None:  # noqa: FBT001 - pytest's
    body = bytearray(message(LARGE_BYTES + 100_000, 1))
    item: Any = [bytes(body)] if value else bytes(body)
    _, _, output = begun(item, 0)
    first = int.from_bytes(output[:4], "big")
    payload = first - output.index(bytes(body[:64]))  # in the first frame
    body[payload : payload + 8] = b"\x00\x53\x75\xb0" + (200_000).to_bytes(4, "big")
    item = [bytes(body)] if value else bytes(body)
    served, engine, rest = begun(item, first)
    receive(engine, rest[:1000], rooms=False)
    receive(engine, rest[1000:], rooms=rooms)
    engine.dispatch(64, math.inf)
    assert served.probes[0].items == [item]


def test_a_section_that_reaches_beyond_the_first_frame_has_no_body_behind_it_there() -> None:
    properties = {"size": bytearray(PATTERN * 300)}
    body = message(LARGE_BYTES + 100_000, 1)

    def item() -> Message:
        return Message(body, properties={name: bytes(value) for name, value in properties.items()})

    encoded = encode_item(item())
    _, _, output = begun(item(), 0)
    first = int.from_bytes(output[:4], "big")
    begin = output.index(encoded[:16])  # of the payload in the first frame
    cut = first - begin
    assert cut < encoded.index(body) < 2 * cut
    section = b"\x00\x53\x75\xb0" + (200_000).to_bytes(4, "big")
    end = begin + encoded.index(body) - len(section)  # of the properties, if there were no frames
    at = cut + end - output.index(encoded[cut : cut + 64], first)  # what is there, in the second frame
    into = at - encoded.index(PATTERN)
    properties["size"][into : into + 8] = section
    served, engine, rest = begun(item(), 1)
    assert rest[end - 1 : end + 7] == section
    receive(engine, rest, rooms=False)
    engine.dispatch(64, math.inf)
    assert served.probes[0].items == [body]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_frames_of_several_links_by_turns_come_into_the_rooms_of_one(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 1)
    rng = random.Random(seed)  # noqa: S311
    runs = [[message(rng.choice((700_000, 2 * LARGE_BYTES)), rng.getrandbits(32)) for _ in range(12)] for _ in range(3)]
    served = Served(*map(Stream.from_iterable, runs))
    for probe in served.probes:
        probe.request(100)
    while served.move(rng, 400_000):
        pass
    assert [probe.items for probe in served.probes] == runs
    assert served.engines.one.failures == []


@pytest.mark.parametrize("at", [66_000, 100_000, 131_000])
def test_frames_that_come_in_place_of_the_rest_are_to_be_read(at: int) -> None:
    served, engine, rest = begun(message(LARGE_BYTES + 100_000, 1), at)
    rooms = engine.rooms()
    frames = SESSION_BEGIN * 100
    came = rest[: len(rooms[0])] + frames
    for room in rooms:
        room[: len(came)] = came[: len(room)]
        came = came[len(room) :]
    assert engine.take_rooms(len(rooms[0]) + len(frames), b"behind") == frames + b"behind"
    assert not served.probes[0].items


def test_a_cancel_in_the_middle_leaves_nothing() -> None:
    source = ManualPublisher[bytes]()
    served = Served(source)
    served.probes[0].request(3)
    served.engines.run()
    source.next(message(12 * LARGE_BYTES, 1), message(12 * LARGE_BYTES, 2))
    rng = random.Random(2)  # noqa: S311
    for _ in range(3):
        served.move(rng)
    served.probes[0].cancel()
    while served.move(rng):
        pass
    assert served.probes[0].items == []
    assert served.engines.one.engine.links.alive == served.engines.other.engine.links.alive == []
    assert served.parts_left == 0
    assert served.engines.one.failures == served.engines.other.failures == []


def test_a_message_that_is_too_large_is_refused_while_it_comes() -> None:
    source = ManualPublisher[bytes]()
    served = Served(source)
    served.receiving._max_message_bytes = LARGE_BYTES  # type: ignore[attr-defined]
    served.probes[0].request(1)
    served.engines.run()
    source.next(message(8 * LARGE_BYTES, 1))
    rng = random.Random(3)  # noqa: S311
    most = 0
    while served.move(rng):
        most = max(most, served.size)
    assert isinstance(served.probes[0].error, RemoteProtocolError)
    assert most <= LARGE_BYTES + 600_000, "what one output has more"
    assert served.size == 0
