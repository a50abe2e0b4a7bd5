"""Without memory for an object a loop in C raises `MemoryError`; what it gave or took before stays right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from cproton_ffi import lib

from rstreams.message import encode_item
from rstreams.net._proton.loops import address_of
from tests.net.engine.test_loops import ENOUGH, Pair, read_nothing

_testcapi = pytest.importorskip("_testcapi", reason="this Python was built without the module for its own tests")

T = TypeVar("T")

OBJECTS = range(40)
"""More objects than one call makes here."""


def without(object_number: int, call: Callable[[], T]) -> T | None:
    """Call a function without memory for one of the objects that it makes; return None for `MemoryError`."""
    _testcapi.set_nomemory(object_number, object_number + 1)
    try:
        return call()
    except MemoryError:
        return None
    finally:
        _testcapi.remove_mem_hooks()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.engines.free()


def send_in_parts(pair: Pair, message: bytes) -> None:
    link, at = address_of(pair.sender), 0
    pair.sending.begin(link, 1)
    while at >= 0:
        at = pair.sending.send_part(link, message, at, False, False, False, 4000, 10_000)  # noqa: FBT003 - C's


@pytest.mark.parametrize("number", OBJECTS)
def test_what_is_read_is_whole(pair: Pair, number: int) -> None:
    sent = [b"small", b"x" * 40_000]
    pair.send(sent[0])
    send_in_parts(pair, sent[1])
    pair.move()
    came = without(number, pair.read)
    while came is not None and came[1]:
        assert came[1] == sent[: len(came[1])]
        del sent[: len(came[1])]
        try:
            came = pair.read()
        except MemoryError:
            break


def test_there_are_no_rooms_for_a_body_whose_memory_is_gone(pair: Pair) -> None:
    size = 5 * 1024 * 1024  # above 4 MiB the memory of a body grows while it comes
    link, at, encoded = address_of(pair.sender), 0, encode_item(bytes(size))
    pair.sending.begin(link, 1)
    while at < 4 * 1024 * 1024 - 100_000:
        at = pair.sending.send_part(link, encoded, at, False, False, False, 60_000, 60_000)  # noqa: FBT003 - C's
        pair.move()
    pair.sending.send_part(link, encoded, at, False, False, False, 60_000, 200_000)  # noqa: FBT003 - C's
    data = bytes(pair.engines.other.engine.output())
    assert without(0, lambda: pair.reading.take(data, 0, 65536)) is None
    assert pair.reading.rooms() == []


@pytest.mark.parametrize("number", OBJECTS)
def test_the_engine_has_no_delivery_that_was_not_told(pair: Pair, number: int) -> None:
    before = int(lib.pn_link_queued(pair.sender))
    sent = without(number, lambda: pair.begin_to_send([1000], [b"one"]))
    assert int(lib.pn_link_queued(pair.sender)) - before == (0 if sent is None else 1)


@pytest.mark.parametrize("number", OBJECTS)
def test_messages_whose_link_is_gone_stay_in_the_output(pair: Pair, number: int) -> None:
    sent = [b"one" * 100, b"two" * 100]
    pair.begin_to_send(range(2), sent)
    lib.pn_transport_pending(pair.engines.other.engine._transport)
    pair.sending.forget(address_of(pair.sender))
    room = memoryview(bytearray(100_000))
    taken = without(number, lambda: pair.sending.output(room, ENOUGH, 0, read_nothing))
    if taken is None:
        taken = pair.sending.output(room, ENOUGH, 0, read_nothing)
    pair.engines.one.engine.feed(b"".join(taken[0]))
    assert pair.read()[1] in (sent, [])
