"""Messages that come beside the engine: the loops read what their oracle reads, whatever the peer sends."""

from __future__ import annotations

import gc
import random
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from cproton_ffi import lib

from rstreams._codec.encode import NULL, encode_sized, encode_uint
from rstreams.errors import ConnectionLost
from rstreams.net._proton import LinkDriver, host_connection
from rstreams.net._proton.loops import Loops, new_loops
from rstreams.net._proton.pointers import Pointer
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role, Settlement, Transfer
from rstreams.protocol.link import Link
from rstreams.protocol.states import State
from tests.net.engines import Alone
from tests.net.recorded import Chunk, mutated
from tests.net.wire import (
    AMQP_HEADER,
    FALSE,
    TRUE,
    attach_frame,
    begin_frame,
    close_frame,
    described,
    detach_frame,
    end_frame,
    flow_frame,
    frame,
    next_frame,
    open_frame,
    transfer_frame,
)
from tests.oracles.loops import PythonLoops

OPENING = AMQP_HEADER + open_frame() + begin_frame(None)
DEFAULT, NONE = encode_uint(0), NULL


class Keeping:
    """The receiving end of a link: it grants credit, keeps what comes, and settles none of it."""

    place = str

    def __init__(self, kept: list[object]) -> None:
        self._kept = kept

    def bind(self, name: str, driver: LinkDriver) -> Link:
        return Link(name, Role.RECEIVER, driver, self, self.on_transfer)

    def on_transfer(self, frame: Transfer) -> None:
        self._kept += [(bytes(each), frame.settled, frame.aborted) for each in frame.payloads]

    def on_detach(self, frame: Detach) -> None:
        self._kept.append(frame.condition)

    def on_attach(self, frame: Attach) -> None: ...
    def on_flow(self, frame: Flow) -> None: ...
    def on_disposition(self, frame: Disposition) -> None: ...
    def on_lost(self, frame: Lost) -> None: ...
    def work(self) -> None: ...


class Receiving:
    """A server's engine whose links receive."""

    def __init__(self, made: Callable[[Pointer], Loops]) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(host_connection, "new_loops", made)
            self.alone = Alone()
        self.kept: list[object] = []
        self.drivers: list[LinkDriver] = []
        self.alone.side.answer = self._answer

    def _answer(self, driver: LinkDriver, attach: Attach) -> None:
        if driver.sends:
            raise AssertionError(attach)
        self.drivers.append(driver)
        link = Keeping(self.kept).bind(attach.name, driver)
        driver.bind(link)
        link.receive(attach)
        link.send(Attach(attach.name, Role.RECEIVER, attach.source, attach.target, Settlement.AT_LEAST_ONCE))
        if link.state is State.ATTACHED:
            link.send(Flow(1000))

    def feed(self, data: bytes, step: int = sys.maxsize) -> None:
        while data:
            self.alone.feed(data[:step])
            data = data[step:]

    def unread(self, data: bytes) -> Iterator[int]:
        """Feed without reading; return what the engine has of each delivery."""
        self.alone.side.engine.feed(data)
        (driver,) = self.drivers
        while delivery := lib.pn_link_current(driver.pointer):
            yield lib.pn_delivery_pending(delivery)
            lib.pn_link_advance(driver.pointer)

    @property
    def came(self) -> tuple[object, ...]:
        side = self.alone.side
        return self.kept, side.failures, len(side.closed)


def both(opening: bytes, data: bytes, step: int = sys.maxsize) -> list[object]:
    """Feed the same to both, what follows the opening in pieces; return what came, which is the same."""
    in_c, in_python = Receiving(new_loops), Receiving(PythonLoops)
    for each in (in_c, in_python):
        each.feed(opening)
        each.feed(data, step)
        each.alone.feed(b"")
    assert in_c.came == in_python.came
    kept = in_c.kept
    in_c.alone.free()
    in_python.alone.free()
    return kept


def sized(size: int, number: int) -> bytes:
    """Return a message of `size` bytes."""
    return random.Random(number).randbytes(size)  # noqa: S311


def transfers(sizes: Sequence[int], *, settled: bool = False, first: int = 0) -> bytes:
    numbered = enumerate(sizes, first)
    return b"".join(transfer_frame(at, b"", payload=sized(size, at), settled=settled) for at, size in numbered)


def attached(*, settled: bool = False) -> bytes:
    return OPENING + attach_frame("link", "sender", settled=settled, initial_delivery_count=0)


SIZES = (0, 1, 15, 16, 17, 100, 127, 128, 129, 1000, 60_000, 7, 5000, 16)


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 3, 7, 127, 128, 129, 1000, 8192, 10**9])
@pytest.mark.parametrize("settled", [False, True])
def test_messages_come_as_they_were_sent_however_the_bytes_are_cut(step: int, *, settled: bool) -> None:
    sizes = SIZES if step > 1 else [size for size in SIZES if size < 10_000]
    kept = both(attached(settled=settled), transfers(sizes, settled=settled), step)
    assert kept == [(sized(size, at), settled, False) for at, size in enumerate(sizes)]


def test_the_engine_has_no_bytes_of_messages() -> None:
    receiving = Receiving(new_loops)
    receiving.feed(attached())
    assert list(receiving.unread(transfers((127, 128, 5000, 60_000)))) == [0, 0, 0, 0]


def test_the_engine_has_all_bytes_of_a_session_with_a_window() -> None:
    receiving = Receiving(new_loops)
    engine = receiving.alone.side.engine
    engine._host.limits = replace(engine._host.limits, window_bytes=1_000_000)
    receiving.feed(attached())
    assert list(receiving.unread(transfers((5000,)))) == [5000]


def transfer(*fields: bytes, size: int = 500) -> bytes:
    return frame(described(0x14, *fields), sized(size, size))


TAG, LONG_TAG = (encode_sized(0xA0, 0xB0, tag, "tag") for tag in (b"tag", b"a tag of thirty-two bytes, no less"[:32]))
WIDE = struct.pack(">BI", 0x70, 0)
STATE = described(0x24)

UNUSUAL = {
    "without a tag": [transfer(DEFAULT, DEFAULT, NONE)],
    "a long tag": [transfer(DEFAULT, DEFAULT, LONG_TAG, DEFAULT, FALSE)],
    "a tag of any size": [transfer(DEFAULT, DEFAULT, b"\xb0\x00\x00\x00\x03tag")],
    "a tag beyond what is looked at": [transfer(DEFAULT, DEFAULT, encode_sized(0xA0, 0xB0, bytes(120), "tag"))],
    "wide numbers": [transfer(WIDE, WIDE, TAG, WIDE)],
    "only what must be": [transfer(DEFAULT, DEFAULT, TAG)],
    "all fields": [
        transfer(DEFAULT, DEFAULT, TAG, DEFAULT, FALSE, FALSE, b"\x50\x00", NONE, FALSE, FALSE, TRUE),
        transfer(DEFAULT, encode_uint(1), TAG, DEFAULT, TRUE, FALSE, NONE, NONE, NONE, NONE, FALSE),
    ],
    "wide booleans": [transfer(DEFAULT, DEFAULT, TAG, DEFAULT, b"\x56\x01", b"\x56\x00")],
    "a state": [transfer(DEFAULT, DEFAULT, TAG, DEFAULT, FALSE, FALSE, NONE, STATE)],
    "resumed": [transfer(DEFAULT, DEFAULT, TAG, DEFAULT, FALSE, FALSE, NONE, NONE, TRUE)],
    "aborted at once": [transfer(DEFAULT, DEFAULT, TAG, DEFAULT, FALSE, FALSE, NONE, NONE, NONE, TRUE)],
    "another format": [transfer(DEFAULT, DEFAULT, TAG, encode_uint(7)), transfer(DEFAULT, encode_uint(1), TAG)],
    "a wide list": [
        frame(b"\x00\x53\x14\xd0" + struct.pack(">II", 4 + 3 + 5, 4) + DEFAULT * 2 + TAG + DEFAULT, bytes(500))
    ],
    "a wide descriptor": [frame(b"\x00\x80" + bytes(7) + b"\x14\xc0\x06\x03" + DEFAULT * 2 + b"\xa0\x00", bytes(500))],
    "an extended header": [
        b"\x00\x00\x02\x16\x03\x00\x00\x00" + bytes(4) + described(0x14, DEFAULT, DEFAULT, b"\xa0\x01a") + bytes(511)
    ],
    "no list": [frame(b"\x00\x53\x14\x45", bytes(500))],
    "no handle": [frame(described(0x14, NONE, DEFAULT, TAG), bytes(500))],
    "a handle that is not there": [transfer(encode_uint(9), DEFAULT, TAG)],
    "a number out of order": [transfer(DEFAULT, encode_uint(5), TAG)],
    "a list beyond its frame": [frame(b"\x00\x53\x14\xc0\xff\x04" + DEFAULT * 2 + TAG + DEFAULT, bytes(130))],
    "a list without an end": [frame(b"\x00\x53\x14\xd0\xff\xff\xff\xff\x00\x00\x00\x04" + DEFAULT * 2, bytes(500))],
    "more fields than there are": [frame(b"\x00\x53\x14\xc0\x03\x09" + DEFAULT * 2, bytes(500))],
    "heartbeats": [b"\x00\x00\x00\x08\x02\x00\x00\x00" * 3, transfer(DEFAULT, DEFAULT, TAG)],
}


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 100, 10**9])
@pytest.mark.parametrize("written", UNUSUAL)
def test_a_transfer_may_be_written_in_any_way(written: str, step: int) -> None:
    both(attached(), b"".join(UNUSUAL[written]) + transfers((300, 400), first=1), step)


def test_deliveries_of_several_transfers_come_whole() -> None:
    data = b""
    for number, sizes in enumerate([(500, 500), (10, 500, 10), (500,), (0, 500), (300, 0, 0, 300), (400,)]):
        for at, size in enumerate(sizes):
            more, payload = at + 1 < len(sizes), sized(size, at)
            if at:
                fields = (DEFAULT, NONE, NONE, NONE, FALSE, TRUE if more else FALSE)
                data += frame(described(0x14, *fields), payload)
            else:
                data += transfer_frame(number, b"", payload=payload, more=more)
    whole = [
        b"".join(sized(size, at) for at, size in enumerate(sizes)) for sizes in [(500, 500), (10, 500, 10), (500,)]
    ]
    kept = both(attached(), data)
    assert [each[0] for each in kept[:3]] == whole  # type: ignore[index]
    assert len(kept) == 6


def test_a_delivery_that_is_aborted_is_none_and_the_next_one_comes() -> None:
    begun = transfer_frame(0, b"", payload=sized(500, 1), more=True) + next_frame(aborted=True)
    assert both(attached(), begun + transfers((500,), first=1)) == [(sized(500, 1), False, False)]


def test_each_link_gets_its_messages_and_a_handle_may_be_used_again() -> None:
    opening = OPENING + begin_frame(None, channel=3)
    for handle, channel in ((0, 0), (7, 0), (0, 3)):
        opening += attach_frame(
            f"{handle} {channel}", "sender", handle=handle, channel=channel, initial_delivery_count=0
        )
    data = transfer_frame(0, b"", payload=sized(200, 0), handle=7) + transfer_frame(1, b"", payload=sized(300, 1))
    data += transfer_frame(0, b"", payload=sized(400, 2), channel=3) + detach_frame(handle=7)
    data += attach_frame("again", "sender", handle=7, initial_delivery_count=0)
    data += transfer_frame(2, b"", payload=sized(500, 3)) + end_frame(channel=3)
    kept = [each[0] for each in both(opening, data) if isinstance(each, tuple)]
    assert sorted(kept, key=len) == [sized(size, at) for at, size in enumerate((200, 300, 400, 500))]


@pytest.mark.parametrize("cut", [1, 5, 20, 40, 300, 499])
def test_the_end_in_the_middle_of_a_message_is_told(cut: int) -> None:
    assert both(attached(), transfers((200, 500))[:-cut]) == [(sized(200, 0), False, False)]


def test_nothing_behind_a_close_comes() -> None:
    assert both(attached(), transfers((200,)) + close_frame() + transfers((300,), first=1)) in (
        [(sized(200, 0), False, False)],
        [],
    )


@pytest.mark.slow
def test_messages_are_let_go_when_they_are_read_with_their_link_and_with_their_connection() -> None:
    def take_read() -> None:
        receiving = Receiving(new_loops)
        receiving.feed(attached() + transfers([600] * 900))
        receiving.kept.clear()
        lost(receiving)

    def end_unread() -> None:
        receiving = Receiving(new_loops)
        receiving.feed(attached())
        receiving.alone.side.engine.feed(transfers([600] * 900))
        receiving.alone.feed(flow_frame())
        lost(receiving)

    def cut_off() -> None:
        receiving = Receiving(new_loops)
        receiving.feed(attached())
        receiving.alone.side.engine.feed(transfers([600] * 901)[:-100])
        lost(receiving)

    for use in (take_read, end_unread, cut_off):
        use()
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(3):
            use()
        gc.collect()
        assert sys.getallocatedblocks() - before < 900, use.__name__


def lost(receiving: Receiving) -> None:
    for driver in receiving.drivers:
        assert driver.link is not None
        driver.link.lose(Lost(ConnectionLost("the end")))
    receiving.alone.free()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_changed_bytes_do_the_same_to_both(seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311
    link = attached() + attach_frame("other", "sender", handle=1, initial_delivery_count=0)
    for _ in range(25):
        sizes = [choose.choice((0, 20, 127, 128, 300, 2000)) for _ in range(choose.randrange(1, 12))]
        data = transfers(sizes) + choose.choice([b"", detach_frame(), end_frame(), close_frame()])
        (changed,) = mutated([Chunk(0, data)], choose, [Chunk(0, link + transfers((200,)) + next_frame(more=True))])
        both(link, changed.data, choose.choice((1, 30, 200, 5000)))
