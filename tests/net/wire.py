"""An AMQP peer written frame by frame, without an engine: what it says and hears is exactly what is on the wire.

    async with scripted(script) as connection:      # script(peer) runs beside the block
        ...

The connection's bytes go through memory streams, so virtual time works: `await peer.is_silent()` costs nothing.
"""

from __future__ import annotations

import math
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import trio
from trio.testing import memory_stream_pair

from rstreams._codec import Described, Symbol, decode_value, encode_value
from rstreams._codec.decode import read_value
from rstreams._codec.encode import (
    NULL,
    encode_fields,
    encode_map,
    encode_sized,
    encode_string,
    encode_symbol,
    encode_uint,
)
from rstreams.net.connection import Connection
from rstreams.net.explaining import ClientAnswers
from rstreams.net.links.connection_links import Links
from rstreams.net.options.limits import ConnectionLimits
from rstreams.net.transport.pump import Pump
from rstreams.runtime.scope import Scope

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
U32: Final = 2**32
MANY_FRAMES: Final = 2**31 - 1

# AMQP 1.0 section 2.7: the fields of each performative, in order, as far as they are looked at here.
PERFORMATIVES: Final = {
    0x10: ("open", "container-id hostname max-frame-size channel-max idle-time-out - - offered-capabilities"),
    0x11: ("begin", "remote-channel next-outgoing-id incoming-window outgoing-window handle-max"),
    0x12: (
        "attach",
        (
            "name handle role snd-settle-mode rcv-settle-mode source target unsettled - delivery-count "
            "max-message-size offered-capabilities desired-capabilities properties"
        ),
    ),
    0x13: (
        "flow",
        (
            "next-incoming-id incoming-window next-outgoing-id outgoing-window handle delivery-count link-credit - "
            "drain echo"
        ),
    ),
    0x14: ("transfer", "handle delivery-id delivery-tag message-format settled more - state resume aborted"),
    0x15: ("disposition", "role first last settled state"),
    0x16: ("detach", "handle closed error"),
    0x17: ("end", "error"),
    0x18: ("close", "error"),
}

OUTCOMES: Final = {0x24: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified"}

TRUE, FALSE = b"\x41", b"\x42"
SOURCE, TARGET, ERROR, ACCEPTED = 0x28, 0x29, 0x1D, 0x24


@dataclass
class Frame:
    """A frame that came: its performative's name, its fields by name, and what followed the performative."""

    name: str
    channel: int
    fields: dict[str, Any]
    payload: bytes = b""

    def __getitem__(self, field: str) -> Any:  # noqa: ANN401 - whatever is on the wire
        return self.fields.get(field)


def described(code: int, *fields: bytes) -> bytes:
    """Return a described list, its fields encoded already."""
    return b"\x00\x53" + bytes([code]) + encode_fields(fields)


def terminus(code: int, address: str | bytes | None) -> bytes:
    """Return a source or a target of an address; one that is encoded already is returned as it is."""
    if isinstance(address, bytes):
        return address
    return NULL if address is None else described(code, encode_string(address))


def error(condition: str, description: str = "", info: dict[str, Any] | None = None) -> bytes:
    told = encode_map((encode_symbol(key), encode_value(value)) for key, value in (info or {}).items())
    return described(ERROR, encode_symbol(condition), encode_string(description), told)


def frame(performative: bytes, payload: bytes = b"", *, channel: int = 0, kind: int = 0) -> bytes:
    body = performative + payload
    return struct.pack(">IBBH", 8 + len(body), 2, kind, channel) + body


def open_frame(
    *,
    channel_max: int = 65535,
    idle_ms: int | None = None,
    max_frame: int = 65536,
    properties: dict[str, Any] | None = None,
    offers: str = "",
    host: str | None = None,
) -> bytes:
    short = struct.pack(">BH", 0x60, channel_max)
    asked_for = NULL if host is None else encode_string(host)
    idle = NULL if idle_ms is None else encode_uint(idle_ms)
    offered = encode_value(Symbol(offers) if offers else None)
    said = [NULL, NULL, offered, NULL, encode_value(None if properties is None else _symbols(properties))]
    return frame(described(0x10, encode_string("scripted"), asked_for, encode_uint(max_frame), short, idle, *said))


def begin_frame(remote_channel: int | None, *, channel: int = 0, incoming_window: int = 2**31 - 1) -> bytes:
    remote = NULL if remote_channel is None else struct.pack(">BH", 0x60, remote_channel)
    window = encode_uint(incoming_window)
    return frame(described(0x11, remote, encode_uint(0), window, encode_uint(2**31 - 1)), channel=channel)


def _symbols(properties: dict[str, Any]) -> dict[Symbol, Any]:
    return {Symbol(name): value for name, value in properties.items()}


def _copying(address: str | bytes | None, distribution: str) -> bytes:
    assert isinstance(address, str)
    return described(SOURCE, encode_string(address), *[NULL] * 5, encode_value(Symbol(distribution)))


def attach_frame(
    name: str,
    role: str,
    *,
    source: str | bytes | None = "",
    target: str | bytes | None = "",
    settled: bool = False,
    initial_delivery_count: int | None = None,
    properties: dict[str, Any] | None = None,
    handle: int = 0,
    channel: int = 0,
    distribution: str = "",
) -> bytes:
    count = NULL if initial_delivery_count is None else encode_uint(initial_delivery_count)
    return frame(
        described(
            0x12,
            encode_string(name),
            encode_uint(handle),
            TRUE if role == "receiver" else FALSE,
            b"\x50\x01" if settled else NULL,
            NULL,
            _copying(source, distribution) if distribution else terminus(SOURCE, source),
            terminus(TARGET, target),
            NULL,
            NULL,
            count,
            *([] if properties is None else [NULL, NULL, NULL, encode_value(_symbols(properties))]),
        ),
        channel=channel,
    )


def flow_frame(
    *,
    next_incoming: int = 0,
    next_outgoing: int = 0,
    handle: int = 0,
    delivery_count: int = 0,
    credit: int = 0,
    drain: bool = False,
    channel: int = 0,
) -> bytes:
    window = encode_uint(2**31 - 1)
    return frame(
        described(
            0x13,
            encode_uint(next_incoming),
            window,
            encode_uint(next_outgoing),
            window,
            encode_uint(handle),
            encode_uint(delivery_count),
            encode_uint(credit),
            NULL,
            TRUE if drain else FALSE,
        ),
        channel=channel,
    )


def windowed_flow(
    next_incoming: int | None,
    window: int,
    *,
    count: int | None = None,
    credit: int | None = None,
    drain: bool = False,
) -> bytes:
    """Return a flow of the session, or with `credit` of the link, with a window of the session."""
    handle = None if credit is None else 0
    numbers = [next_incoming, window, 0, MANY_FRAMES, handle, count, credit, None]
    fields = [NULL if number is None else encode_uint(number % U32) for number in numbers]
    return frame(described(0x13, *fields, b"\x41" if drain else b"\x42"))


def transfer_frame(
    number: int,
    body: bytes,
    *,
    settled: bool = False,
    more: bool = False,
    handle: int = 0,
    channel: int = 0,
    payload: bytes | None = None,
) -> bytes:
    """Return the first frame of a delivery: a message of one data section, or else any `payload`."""
    tag = encode_sized(0xA0, 0xB0, struct.pack(">I", number), "tag")
    if payload is None:
        payload = b"\x00\x53\x75" + encode_sized(0xA0, 0xB0, body, "body")
    return frame(
        described(
            0x14,
            encode_uint(handle),
            encode_uint(number),
            tag,
            encode_uint(0),
            TRUE if settled else FALSE,
            TRUE if more else FALSE,
        ),
        payload,
        channel=channel,
    )


def next_frame(*, more: bool = False, aborted: bool = False, handle: int = 0) -> bytes:
    """Return a further frame of the delivery begun last, without anything in it."""
    fields = (encode_uint(handle), *[NULL] * 4, TRUE if more else FALSE, *[NULL] * 3, TRUE if aborted else FALSE)
    return frame(described(0x14, *fields))


def disposition_frame(first: int, last: int, state: bytes, *, settled: bool = True, channel: int = 0) -> bytes:
    """Return the disposition of a receiver."""
    fields = (TRUE, encode_uint(first), encode_uint(last), TRUE if settled else FALSE, state)
    return frame(described(0x15, *fields), channel=channel)


def detach_frame(*, closed: bool = True, why: bytes = NULL, handle: int = 0, channel: int = 0) -> bytes:
    return frame(described(0x16, encode_uint(handle), TRUE if closed else FALSE, why), channel=channel)


def end_frame(why: bytes = NULL, *, channel: int = 0) -> bytes:
    return frame(described(0x17, why), channel=channel)


def close_frame(why: bytes = NULL) -> bytes:
    return frame(described(0x18, why))


ACCEPT: Final = described(ACCEPTED)
EMPTY_FRAME: Final = struct.pack(">IBBH", 8, 2, 0, 0)
SASL_MECHANISMS: Final = frame(described(0x40, encode_symbol("ANONYMOUS")), kind=1)
SASL_OUTCOME: Final = frame(described(0x44, b"\x50\x00"), kind=1)
SASL_INIT: Final = frame(described(0x41, encode_symbol("ANONYMOUS")), kind=1)


def condition_of(value: Any) -> tuple[str, str]:  # noqa: ANN401 - whatever is on the wire
    """Return condition and description of an error field."""
    assert isinstance(value, Described)
    condition, description = [*value.value, None][:2]
    return str(condition), description or ""


def outcome_of(value: Any) -> str:  # noqa: ANN401 - whatever is on the wire
    assert isinstance(value, Described)
    return OUTCOMES[value.descriptor]


def read_frame(data: bytes) -> Frame | None:
    """Return a frame of AMQP; None if it is empty."""
    _, offset, _, channel = struct.unpack(">IBBH", data[:8])
    body = data[4 * offset :]
    if not body:
        return None
    value, at = read_value(body, 0)
    assert isinstance(value, Described)
    name, fields = PERFORMATIVES[value.descriptor]
    return Frame(name, channel, dict(zip(fields.split(), value.value, strict=False)), body[at:])


class Handles:
    """Checks that one side's frames name no link but those that it has attached (2.6.2)."""

    def __init__(self) -> None:
        self._attached: set[tuple[int, int]] = set()  # the channel and the handle of each link

    def check(self, came: Frame) -> None:
        """Check the next frame of this side."""
        name, channel, handle = came.name, came.channel, came["handle"]
        link = (channel, handle)
        if name == "end":
            self._attached = {each for each in self._attached if each[0] != channel}
        elif name == "attach":
            assert link not in self._attached, f"handle {handle} is attached twice"
            self._attached.add(link)
        elif handle is not None:
            assert link in self._attached, f"a {name} names the handle {handle}, which is not attached"
            if name == "detach":
                self._attached.remove(link)


class Peer:
    """The scripted end. What it is told is read frame by frame; heartbeats are counted and passed over.

    Attributes:
        heartbeats: Empty frames that came.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._rest = b""
        self._handles = Handles()
        self.heartbeats = 0
        self.ends_due = 0
        self.open: Frame | None = None

    async def send(self, *frames: bytes) -> None:
        await self._stream.send_all(b"".join(frames))

    async def hang_up(self) -> None:
        await self._stream.aclose()

    async def take(self, size: int) -> bytes:
        while len(self._rest) < size:
            data = await self._stream.receive_some()
            if not data:
                raise EOFError
            self._rest += data
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    async def frame(self) -> Frame:
        """Return the next frame that is not empty."""
        while True:
            head = await self.take(8)
            came = read_frame(head + await self.take(int.from_bytes(head[:4]) - 8))
            if came is not None:
                break
            self.heartbeats += 1
        self._handles.check(came)
        if came.name == "end" and self.ends_due:
            self.ends_due -= 1
            return await self.frame()
        return came

    async def expect(self, name: str) -> Frame:
        """Return the next frame, which must be a `name`."""
        came = await self.frame()
        assert came.name == name, f"{name} was due, and not {came}"
        return came

    async def end(self, frame: bytes) -> None:
        """End a session; the client answers some time before it closes the connection."""
        await self.send(frame)
        self.ends_due += 1

    async def is_silent(self, seconds: float = 1.0) -> None:
        """Check that nothing comes for a while; in virtual time, which is free."""
        with trio.move_on_after(seconds) as waiting:
            came = await self.frame()
        assert waiting.cancelled_caught, f"nothing was due, and not {came}"

    async def sasl(self) -> None:
        """Let an anonymous client in."""
        assert await self.take(8) == SASL_HEADER
        await self.send(SASL_HEADER, SASL_MECHANISMS)
        size, _, _, _ = struct.unpack(">IBBH", await self.take(8))
        init = decode_value(await self.take(size - 8))
        assert init.value[0] == "ANONYMOUS"
        await self.send(SASL_OUTCOME)

    async def opens(self, **options: Any) -> None:  # noqa: ANN401 - those of `open_frame`
        """Open the connection, as the server."""
        await self.sasl()
        assert await self.take(8) == AMQP_HEADER
        await self.send(AMQP_HEADER, open_frame(**options))
        self.open = await self.expect("open")

    async def begins(self) -> Frame:
        """Answer the client's next session."""
        begin = await self.expect("begin")
        await self.send(begin_frame(begin.channel, channel=begin.channel))
        return begin

    async def closes(self) -> None:
        """Answer the client's close, passing over what comes before it."""
        while (await self.frame()).name != "close":
            pass
        assert not self.ends_due, "an end was not answered"
        await self.send(close_frame())


Script = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def scripted(
    script: Script, *, idle_timeout_s: float = 30.0, answer_timeout_s: float = math.inf
) -> AsyncIterator[Connection]:
    """Open a connection whose peer is `script`; at the end of the block it is closed, and the script must end too."""
    ours, theirs = memory_stream_pair()
    ended = trio.Event()

    async def run() -> None:
        await script(Peer(theirs))
        ended.set()

    async with pumped(ours, idle_timeout_s=idle_timeout_s, answer_timeout_s=answer_timeout_s) as (pump, scope):
        scope.nursery.start_soon(run)
        await pump.opened.wait()
        if pump.error is not None:
            raise pump.error
        links = Links(pump, "test")
        links.answer_timeout_s = answer_timeout_s
        yield Connection(links)
        await pump.close()
        with trio.fail_after(60):
            await ended.wait()


@asynccontextmanager
async def pumped(
    stream: trio.abc.Stream, *, idle_timeout_s: float = 30.0, answer_timeout_s: float = math.inf
) -> AsyncIterator[tuple[Pump, Scope]]:
    """Run a client's pump over `stream`, as `connect` does."""
    async with Scope() as scope:
        pump = Pump(
            stream,
            peer="the scripted peer",
            container_id="test",
            hostname="localhost",
            limits=ConnectionLimits(idle_timeout_s, answer_timeout_s=answer_timeout_s),
            on_attach=ClientAnswers(scope.nursery.start_soon).attach,
        )
        pump.engine.connect(None, None)
        scope.nursery.start_soon(pump.run)
        yield pump, scope
