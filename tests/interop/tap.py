"""A tap on a connection: passes all bytes on and keeps the frames, to count what was granted and what was sent."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

import trio

from rstreams._codec import Described
from rstreams._codec.decode import read_value
from tests.net.wire import PERFORMATIVES, U32, Frame

Side = Literal["ours", "theirs"]


@dataclass
class CreditTrace:
    """One link's credit, as it went over the wire (AMQP 1.0 section 2.6.7).

    Attributes:
        granted: The most deliveries ever allowed, in all.
        sent: Deliveries begun.
        overdrawn: Deliveries begun without credit for them.
        early: Whether credit was granted before the sender's attach had come.
        drained: Answers to a drain.
    """

    granted: int = 0
    sent: int = 0
    overdrawn: int = 0
    early: bool = False
    drained: int = 0


@dataclass
class Tap:
    """The frames of every connection made through `url`, in the order they came.

    Attributes:
        url: Where to connect instead.
        frames: Who said it, and the frame.
    """

    url: str
    frames: list[tuple[Side, Frame]] = field(default_factory=list)

    def named(self, name: str, side: Side) -> list[Frame]:
        """Return the frames of one performative that one side sent."""
        return [frame for who, frame in self.frames if who == side and frame.name == name]

    def attach(self, address: str | None, *, receives: bool) -> Frame:
        """Return our last attach to an address, or to one that the peer makes, as its receiver or its sender."""
        key = "source" if receives else "target"
        return next(
            frame
            for frame in reversed(self.named("attach", "ours"))
            if frame["role"] is receives and isinstance(frame[key], Described) and frame[key].value[:1] == [address]
        )

    def credit(self, address: str | None, *, receives: bool = True) -> CreditTrace:
        """Follow the credit of our last link to an address, or to one that the peer makes."""
        ours = self.attach(address, receives=receives)
        theirs = next(
            frame
            for frame in self.named("attach", "theirs")
            if frame["name"] == ours["name"] and frame["role"] is not receives
        )
        sender, receiver = (theirs, ours) if receives else (ours, theirs)
        sending: Side = "theirs" if receives else "ours"
        first = sender["delivery-count"] or 0
        trace, allowed, within = CreditTrace(), 0, False
        attached = False
        for who, frame in self.frames:
            attached = attached or frame is sender
            if who == sending and frame.channel == sender.channel and frame["handle"] == sender["handle"]:
                if frame.name == "transfer":
                    if not within:
                        trace.sent += 1
                        trace.overdrawn += trace.sent > allowed
                    within = bool(frame["more"])
                elif frame.name == "flow" and frame["drain"]:
                    trace.drained += 1
            elif who != sending and frame.channel == receiver.channel and frame.name == "flow":
                if frame["handle"] != receiver["handle"]:
                    continue
                trace.early = trace.early or not attached
                count = first if frame["delivery-count"] is None else frame["delivery-count"]
                allowed = (count - first + frame["link-credit"]) % U32
                trace.granted = max(trace.granted, allowed)
        return trace


@asynccontextmanager
async def tapped(url: str) -> AsyncIterator[Tap]:
    """Listen on a free port for connections to `url`."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 5672
    tap = Tap(url)

    async def serve(client: trio.SocketStream) -> None:
        server = await trio.open_tcp_stream(host, port)
        async with client, server, trio.open_nursery() as both:
            both.start_soon(_copy, client, server, _Reader(tap, "ours"))
            both.start_soon(_copy, server, client, _Reader(tap, "theirs"))

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        place = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        user = parts.netloc.rpartition("@")[0]
        tap.url = f"amqp://{user}@{place}" if user else f"amqp://{place}"
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield tap
        nursery.cancel_scope.cancel()


async def _copy(source: trio.SocketStream, sink: trio.SocketStream, reader: _Reader) -> None:
    try:
        async for data in source:
            reader.feed(bytes(data))
            await sink.send_all(data)
        await sink.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await trio.aclose_forcefully(sink)
        await trio.aclose_forcefully(source)


class _Reader:
    """Finds the frames of one direction."""

    def __init__(self, tap: Tap, side: Side) -> None:
        self._tap = tap
        self._side: Side = side
        self._rest = b""

    def feed(self, data: bytes) -> None:
        self._rest += data
        while len(self._rest) >= 8:
            if self._rest.startswith(b"AMQP"):
                self._rest = self._rest[8:]
                continue
            size, offset, kind, channel = struct.unpack(">IBBH", self._rest[:8])
            if len(self._rest) < size:
                return
            body, self._rest = self._rest[4 * offset : size], self._rest[size:]
            if kind == 0 and body:
                value, at = read_value(body, 0)
                assert isinstance(value, Described)
                name, fields = PERFORMATIVES[value.descriptor]
                frame = Frame(name, channel, dict(zip(fields.split(), value.value, strict=False)), body[at:])
                self._tap.frames.append((self._side, frame))
