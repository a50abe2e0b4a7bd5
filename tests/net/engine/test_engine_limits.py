"""What an engine takes of a peer: sizes of messages and frames, links and sessions, and what comes after the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from cproton_ffi import lib

from rstreams._codec.encode import NULL, encode_uint
from rstreams.errors import RemoteProtocolError
from rstreams.net._proton import LinkDriver
from rstreams.net._proton.receiving_driver import MAX_LATE
from rstreams.protocol.frames import Attach, Role
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ProbeSubscriber
from tests.net.engines import Side
from tests.net.wire import (
    AMQP_HEADER,
    TRUE,
    attach_frame,
    begin_frame,
    described,
    detach_frame,
    frame,
    open_frame,
    transfer_frame,
)

CHUNK = b"x" * 60_000
LIMITED = b"amqp:resource-limit-exceeded"


class Taking:
    """A server's engine whose peer has attached a link and sends on it."""

    def __init__(self, *, max_message_bytes: int | None = None, attached: bool = True) -> None:
        self.probe = ProbeSubscriber[int](100)
        self.side = Side("node", server=True, max_frame_bytes=65536, max_message_bytes=max_message_bytes)
        self.side.answer = self._take
        self.said = self.hears(AMQP_HEADER + open_frame() + begin_frame(None))
        if attached:
            self.said = self.hears(attach_frame("link", "sender", target="a", initial_delivery_count=0))

    def _take(self, driver: LinkDriver, attach: Attach) -> None:
        end = LinkSubscription(self.probe, ReceivingOptions(decode=len, window=256), _never)
        link = end.bind(attach.name, driver)
        driver.bind(link)
        link.receive(attach)
        link.send(Attach(attach.name, Role.RECEIVER, attach.source, attach.target, attach.settlement))
        end.start()

    def hears(self, said: bytes) -> bytes:
        """Return the answer."""
        self.side.engine.feed(said)
        return self.side.output() + self.side.output()

    @property
    def kept_bytes(self) -> int:
        """What the engine keeps of messages nobody has read, in bytes."""
        (driver,) = self.side.engine.links._drivers.values()
        current = lib.pn_link_current(driver.pointer)
        return int(lib.pn_delivery_pending(current)) if current else 0


def _never(error: BaseException) -> None:
    raise AssertionError(error)


def message(number: int, size: int) -> bytes:
    return transfer_frame(number, b"", payload=b"m" * size)


def first_of(number: int) -> bytes:
    return transfer_frame(number, b"", more=True, payload=CHUNK)


def one_more() -> bytes:
    return frame(described(0x14, encode_uint(0), *[NULL] * 4, TRUE), CHUNK)


@pytest.fixture
def taking() -> Iterator[Callable[..., Taking]]:
    made: list[Taking] = []

    def make(**options: int | bool) -> Taking:
        made.append(Taking(**options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.side.engine.free()


# messages


@pytest.mark.parametrize("limit", [100, 4095, 4096, 5000])
def test_a_message_of_the_largest_size_is_taken_and_one_byte_more_is_not(
    taking: Callable[..., Taking], limit: int
) -> None:
    node = taking(max_message_bytes=limit)
    node.hears(message(0, 1) + message(1, limit) + message(2, limit - 1))
    assert node.probe.items == [1, limit, limit - 1]
    answer = node.hears(message(3, 2) + message(4, limit + 1) + message(5, 3))
    assert node.probe.items == [1, limit, limit - 1, 2], "what came before it is kept, and nothing behind it"
    assert isinstance(node.probe.error, RemoteProtocolError)
    assert f"max_message_bytes={limit}" in str(node.probe.error)
    assert answer.count(b"amqp:link:message-size-exceeded") == 2, "once with the outcome, once with the detach"


def test_the_limit_stands_in_the_attach(taking: Callable[..., Taking]) -> None:
    assert b"\x80" + (1_234_567).to_bytes(8, "big") in taking(max_message_bytes=1_234_567).said
    assert b"\x80" + (1_234_567).to_bytes(8, "big") not in taking().said


def test_without_a_limit_any_size_is_taken(taking: Callable[..., Taking]) -> None:
    node = taking()
    node.hears(message(0, 60_000) + message(1, 5))
    assert node.probe.items == [60_000, 5]


def test_a_message_that_never_ends_is_not_kept_beyond_the_limit(taking: Callable[..., Taking]) -> None:
    node = taking(max_message_bytes=100_000)
    assert b"message-size-exceeded" not in node.hears(first_of(0))
    assert node.kept_bytes == 0, "the part of a message that has not come whole is beside the engine"
    assert b"amqp:link:message-size-exceeded" in node.hears(one_more())
    for _ in range(100):
        node.hears(one_more())
        assert node.kept_bytes == 0
    assert not node.side.failures, "the connection lives"
    assert isinstance(node.probe.error, RemoteProtocolError)


def test_a_large_message_within_the_limit_comes_whole(taking: Callable[..., Taking]) -> None:
    node = taking(max_message_bytes=180_000)
    node.hears(first_of(0) + one_more())
    node.hears(frame(described(0x14, encode_uint(0)), CHUNK))
    assert node.probe.items == [180_000]
    assert node.probe.error is None


# after the end of a link


SETTLED_WITHOUT_OUTCOME = b"\x41"
"""The end of a disposition that settles, and says nothing behind that (2.7.6)."""


def test_who_goes_on_sending_on_an_ended_link_is_read_over_and_in_the_end_cut_off(
    taking: Callable[..., Taking],
) -> None:
    node = taking(max_message_bytes=10)
    node.hears(message(0, 11))
    for number in range(1, MAX_LATE + 1):
        said = node.hears(message(number, 9))
        assert not said or said.endswith(SETTLED_WITHOUT_OUTCOME), "no outcome after the end"
    assert node.kept_bytes == 0
    assert not node.side.failures
    node.hears(message(MAX_LATE + 1, 9))
    ((condition, text),) = node.side.failures
    assert condition == "amqp:session:errant-link"
    assert "without credit" in text


def test_an_ended_link_is_forgotten_when_its_peer_has_ended_it_too(taking: Callable[..., Taking]) -> None:
    node = taking(max_message_bytes=10)
    node.hears(message(0, 11) + message(1, 1))
    assert len(node.side.engine.links.alive) == 1
    node.hears(detach_frame())
    assert not node.side.engine.links.alive
    node.hears(attach_frame("again", "sender", target="a", initial_delivery_count=0))
    assert len(node.side.engine.links.alive) == 1


# links, sessions, frames


def test_links_beyond_the_limit_are_refused_and_whoever_goes_on_is_cut_off() -> None:
    side = Side("node", server=True, max_frame_bytes=65536, max_links=3)
    attached: list[str] = []
    side.answer = lambda _, attach: attached.append(attach.name)

    def hears(said: bytes) -> bytes:
        side.engine.feed(said)
        return side.output()

    def attach(number: int) -> bytes:
        return attach_frame(f"link {number}", "sender", target="a", handle=number, initial_delivery_count=0)

    hears(AMQP_HEADER + open_frame() + begin_frame(None))
    for number in range(3):
        assert LIMITED not in hears(attach(number))
    assert LIMITED in hears(attach(3))
    hears(detach_frame(handle=3))
    for number in range(3, 5):
        assert LIMITED in hears(attach(number))
    assert attached == ["link 0", "link 1", "link 2"]
    assert not side.failures
    hears(attach(5))
    assert side.failures == [("amqp:resource-limit-exceeded", "this connection has its 3 links, and takes no more")]
    side.engine.free()


def test_sessions_beyond_the_limit_end_the_connection_and_the_peer_was_told_of_it() -> None:
    side = Side("node", server=True, max_frame_bytes=65536, max_sessions=2)
    side.engine.feed(AMQP_HEADER + open_frame() + begin_frame(None) + begin_frame(None, channel=1))
    assert b"\x60\x00\x01" in side.output(), "2.7.1: channel-max is the highest number of a channel"
    assert not side.failures
    side.engine.feed(begin_frame(None, channel=2))
    assert b"amqp:connection:framing-error" in side.output()
    assert len(side.failures) == 1
    side.engine.free()


def test_a_frame_beyond_the_limit_ends_the_connection() -> None:
    side = Side("node", server=True, max_frame_bytes=512)
    side.engine.feed(AMQP_HEADER + open_frame())
    side.output()
    side.engine.feed(b"\x00\x00\x02\x01\x02\x00\x00\x00" + bytes(505))
    assert b"amqp:connection:framing-error" in side.output()
    assert len(side.failures) == 1
    side.engine.free()
