"""Sessions recorded as they go over the wire, changed at random, and said again to one of the two sides."""

from __future__ import annotations

import random
import struct
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import trio
from trio.testing import MockClock

import rstreams
from rstreams import Connection, Message, Node, Stream
from rstreams.errors import LinkDetached
from rstreams.testing.faults import OneWay

USERS: Final = {"alice": "sesame"}
WORDLESS_S: Final = 1.0
"""How long one side may be silent before the other goes on with what it has recorded, in virtual time."""


@dataclass(frozen=True)
class Chunk:
    """Bytes said by one side in one piece.

    Attributes:
        after: How many bytes the other side had said before.
    """

    after: int
    data: bytes


Script = Sequence[Chunk]

Session = Callable[[Connection], Awaitable[object]]


async def _publish(connection: Connection) -> None:
    messages = Stream.range(6).map(lambda number: Message(f"text {number}", id=number, properties={"n": number}))
    await connection.publish("work", messages, pack_items=1)


async def _publish_packs(connection: Connection) -> None:
    await connection.publish("work", Stream.range(9), settlement="effectively_once", pack_items=4, producer_id="fuzz")


async def _consume(connection: Connection) -> None:
    await connection.publish("work", Stream.range(6))
    await connection.stream("work", window=4, pack_items=2).take(6).to_list()


async def _fail(connection: Connection) -> None:
    try:
        await connection.stream("nowhere").to_list()
    except LinkDetached:
        await connection.stream("numbers").to_list()


SESSIONS: Final[dict[str, Session]] = {
    "publish": _publish,
    "publish packs": _publish_packs,
    "consume": _consume,
    "a refusal": _fail,
}


def addresses(node: Node) -> None:
    """Give a node what the sessions use."""
    node.queue("work", capacity=100)
    node.serve("numbers", Stream.range(5))


@cache
def recorded(session: str, way: OneWay, *, password: bool = False) -> Script:
    """Return what one side said in a session, the client ("to_peer") or the node ("to_client")."""
    said: dict[OneWay, list[Chunk]] = {"to_peer": [], "to_client": []}
    count: dict[OneWay, int] = {"to_peer": 0, "to_client": 0}
    other: dict[OneWay, OneWay] = {"to_peer": "to_client", "to_client": "to_peer"}

    async def copy(way: OneWay, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        async for data in source:
            said[way].append(Chunk(count[other[way]], bytes(data)))
            count[way] += len(data)
            await sink.send_all(data)
        await sink.send_eof()

    async def record() -> None:
        async with Node(users=USERS if password else None, pack_items=4, container_id="node") as node:
            addresses(node)
            listener = await node.listen("127.0.0.1:0")

            async def serve(client: trio.SocketStream) -> None:
                async with (
                    await trio.open_tcp_stream("127.0.0.1", listener.port) as peer,
                    trio.open_nursery() as nursery,
                ):
                    nursery.start_soon(copy, "to_peer", client, peer)
                    nursery.start_soon(copy, "to_client", peer, client)

            async with trio.open_nursery() as nursery:
                (door,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
                nursery.start_soon(trio.serve_listeners, serve, [door])
                place = f"{'alice:sesame@' if password else ''}127.0.0.1:{door.socket.getsockname()[1]}"
                async with rstreams.connect(f"amqp://{place}", container_id="fuzz") as connection:
                    await SESSIONS[session](connection)
                nursery.cancel_scope.cancel()

    trio.run(record, clock=MockClock(autojump_threshold=0.001))
    return tuple(said[way])


# what is changed


def pieces_of(data: bytes) -> list[bytes]:
    """Return the headers and frames of what one side said."""
    pieces: list[bytes] = []
    while data:
        size = 8 if data[:4] == b"AMQP" or len(data) < 8 else max(8, int.from_bytes(data[:4], "big"))
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def mutated(script: Script, choose: random.Random, others: Script = ()) -> Script:
    """Return the script with some of it changed: bytes, or whole frames, some of them from another script."""
    changed = [Chunk(chunk.after, chunk.data) for chunk in script]
    foreign = [piece for chunk in others for piece in pieces_of(chunk.data)]
    for _ in range(choose.choice([1, 1, 1, 2, 4, 16])):
        at = choose.randrange(len(changed))
        data = changed[at].data
        if data:
            change = choose.choice(_OF_BYTES if choose.random() < 0.5 else _OF_FRAMES)
            changed[at] = Chunk(changed[at].after, change(data, choose, foreign))
    return changed


def _flip(data: bytes, choose: random.Random, _: Sequence[bytes]) -> bytes:
    at = choose.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << choose.randrange(8))]) + data[at + 1 :]


def _set(data: bytes, choose: random.Random, _: Sequence[bytes]) -> bytes:
    at = choose.randrange(len(data))
    return data[:at] + bytes([choose.choice([0, 1, 0x40, 0x45, 0x7F, 0x80, 0xFF])]) + data[at + 1 :]


def _drop(data: bytes, choose: random.Random, _: Sequence[bytes]) -> bytes:
    at, size = choose.randrange(len(data)), choose.choice([1, 2, 4, 8, 64])
    return data[:at] + data[at + size :]


def _noise(data: bytes, choose: random.Random, _: Sequence[bytes]) -> bytes:
    at = choose.randrange(len(data) + 1)
    return data[:at] + choose.randbytes(choose.choice([1, 4, 16, 200])) + data[at:]


def _repeat(data: bytes, choose: random.Random, _: Sequence[bytes]) -> bytes:
    at, size = choose.randrange(len(data)), choose.choice([1, 8, 64])
    return data[: at + size] + data[at:]


def _number(data: bytes, choose: random.Random, _: Sequence[bytes]) -> bytes:
    at, value = choose.randrange(len(data)), choose.choice([0, 1, 7, 2**16, 2**31 - 1, 2**31, 2**32 - 1])
    return data[:at] + struct.pack(">I", value) + data[at + 4 :]


def _drop_frame(data: bytes, choose: random.Random, _: Sequence[bytes]) -> bytes:
    pieces = pieces_of(data)
    del pieces[choose.randrange(len(pieces))]
    return b"".join(pieces)


def _repeat_frame(data: bytes, choose: random.Random, _: Sequence[bytes]) -> bytes:
    pieces = pieces_of(data)
    again = choose.choice(pieces)
    pieces[choose.randrange(len(pieces)) : 0] = [again] * choose.choice([1, 1, 2, 30])
    return b"".join(pieces)


def _swap_frames(data: bytes, choose: random.Random, _: Sequence[bytes]) -> bytes:
    pieces = pieces_of(data)
    choose.shuffle(pieces)
    return b"".join(pieces)


def _foreign_frame(data: bytes, choose: random.Random, foreign: Sequence[bytes]) -> bytes:
    if not foreign:
        return data
    pieces = pieces_of(data)
    pieces.insert(choose.randrange(len(pieces) + 1), choose.choice(foreign))
    return b"".join(pieces)


def _cut_frame(data: bytes, choose: random.Random, _: Sequence[bytes]) -> bytes:
    """A frame whose size fits, and whose content ends too early, or goes on."""
    pieces = pieces_of(data)
    at = choose.randrange(len(pieces))
    if len(pieces[at]) > 9 and not pieces[at].startswith(b"AMQP"):
        body = pieces[at][4 : choose.randrange(8, len(pieces[at]))] + choose.randbytes(choose.choice([0, 0, 5]))
        pieces[at] = struct.pack(">I", 4 + len(body)) + body
    return b"".join(pieces)


def _change_in_frame(data: bytes, choose: random.Random, foreign: Sequence[bytes]) -> bytes:
    """A frame whose size fits, and some of whose content is another."""
    pieces = pieces_of(data)
    at = choose.randrange(len(pieces))
    if len(pieces[at]) > 12:
        body = choose.choice([_flip, _set, _number])(pieces[at][8:], choose, foreign)[: len(pieces[at]) - 8]
        pieces[at] = pieces[at][:8] + body
    return b"".join(pieces)


Change = Callable[[bytes, random.Random, Sequence[bytes]], bytes]

_OF_BYTES: Final[list[Change]] = [_flip, _set, _drop, _noise, _repeat, _number]
_OF_FRAMES: Final[list[Change]] = [
    _drop_frame,
    _repeat_frame,
    _swap_frames,
    _foreign_frame,
    _cut_frame,
    _change_in_frame,
    _change_in_frame,
    _change_in_frame,
]


# saying it again


async def say(stream: trio.SocketStream, script: Script, *, hangs_up: bool) -> bytes:
    """Say a script, each piece when the other side has said as much as it had then; return what it said.

    Args:
        stream: Leads to the other side.
        script: What to say.
        hangs_up: Whether to end the connection behind it; else the other side must.
    """
    heard = bytearray()
    more = trio.Event()
    over = False

    async def hear() -> None:
        nonlocal more, over
        try:
            async for data in stream:
                heard.extend(data)
                more.set()
                more = trio.Event()
        except trio.BrokenResourceError:
            pass
        over = True
        more.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hear)
        try:
            for chunk in script:
                with trio.move_on_after(WORDLESS_S):
                    while len(heard) < chunk.after and not over:
                        await more.wait()
                await stream.send_all(chunk.data)
            if hangs_up:
                await stream.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the other side had enough
    return bytes(heard)
