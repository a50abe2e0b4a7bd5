"""A stream of RabbitMQ 4.3 as its clients see it, written frame by frame; `tests/interop` has the real ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import trio

from rstreams import Message
from rstreams._codec import Symbol, encode_value
from rstreams._codec.encode import NULL, encode_string
from rstreams.message import encode_item
from tests.net.over_tcp import until
from tests.net.wire import (
    SOURCE,
    U32,
    Frame,
    Peer,
    attach_frame,
    begin_frame,
    close_frame,
    described,
    detach_frame,
    flow_frame,
    frame,
    outcome_of,
    transfer_frame,
)

START_AT: Final = "rabbitmq:stream-offset-spec"
FRAME: Final = 60_000


class PlayedStream:
    """A stream, and the broker that has it. One client reads it, and has one link at a time.

    Attributes:
        messages: The messages by their offsets; a test adds to them, and removes some.
        asked: Where the links began, as their filters said.
        outcomes: What became of the deliveries of the present link, by their numbers.
        most: The most messages that are sent now.
        begins_at: Where the next link begins, whatever it asks for; None: where it asks for.
        url: Where a client connects to.
    """

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.asked: list[Any] = []
        self.outcomes: dict[int, str] = {}
        self.most = U32
        self.begins_at: int | None = None
        self.url = ""
        self._peer: Peer | None = None
        self._link: _Link | None = None

    def fill(self, bodies: Iterable[Any], first: int = 0) -> None:
        """Put messages in the place of all others."""
        self.messages = {first + number: Message(body) for number, body in enumerate(bodies)}

    async def send(self) -> None:
        """Send what is there and wanted."""
        link, peer = self._link, self._peer
        if link is None or peer is None:
            return
        while link.credit and self.most:
            due = [offset for offset in sorted(self.messages) if offset >= link.next]
            if not due:
                break
            self.most -= 1
            link.next = due[0] + 1
            await peer.send(*link.transfers(due[0], self.messages[due[0]], len(self.asked)))

    async def has_client(self) -> None:
        """Wait until a client is connected."""
        await until(lambda: self._peer)

    async def hang_up(self) -> None:
        """Break the connection off."""
        assert self._peer is not None
        peer, self._peer, self._link = self._peer, None, None
        await peer.hang_up()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve a connection."""
        peer = self._peer = Peer(stream)
        try:
            await peer.opens(properties={"product": "RabbitMQ", "version": "4.3.6"})
            while (came := await peer.frame()).name != "close":
                if peer is not self._peer:
                    return  # it came while the test hung up
                await self._answer(peer, came)
            await peer.send(close_frame())
        except (EOFError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _answer(self, peer: Peer, came: Frame) -> None:
        match came.name:
            case "begin":
                await peer.send(begin_frame(came.channel, channel=came.channel))
            case "attach":
                await self._attach(peer, came)
            case "flow" if (link := self._link) is not None and came["handle"] is not None:
                link.credit = (came["delivery-count"] + came["link-credit"] - link.sent) % U32
                await self.send()
                if came["drain"]:
                    await peer.send(link.drained())
            case "disposition":
                for number in range(came["first"], (came["first"] if came["last"] is None else came["last"]) + 1):
                    self.outcomes[number] = outcome_of(came["state"])
            case "detach":
                if self._link is not None and self._link.channel == came.channel:
                    self._link = None
                await peer.send(detach_frame(channel=came.channel))

    async def _attach(self, peer: Peer, attach: Frame) -> None:
        filters = attach["source"].value[7]
        start = filters[START_AT].value
        self.asked.append(start)
        self.outcomes = {}
        words = {"first": 0, "next": max(self.messages, default=-1) + 1}
        settled = attach["snd-settle-mode"] == 1
        begin = words.get(start, start) if self.begins_at is None else self.begins_at
        self._link = _Link(begin, attach.channel, settled=settled)
        told = encode_value({Symbol(name): value for name, value in filters.items()})
        source = described(SOURCE, encode_string("events"), *[NULL] * 5, encode_value(Symbol("copy")), told)
        ends: dict[str, Any] = {"source": source, "settled": settled, "channel": attach.channel}
        await peer.send(attach_frame(attach["name"], "sender", initial_delivery_count=0, **ends))


class _Link:
    """A link to a client: where it is, and what it may send."""

    def __init__(self, start: int, channel: int, *, settled: bool) -> None:
        self.next = start
        self.credit = self.sent = 0
        self.channel = channel
        self._settled = settled

    def transfers(self, offset: int, message: Message, link: int) -> list[bytes]:
        """Return the frames of a message; its annotations are not the same in each link."""
        payload = encode_item(replace(message, annotations={"x-stream-offset": offset, "x-opt-link": link}))
        parts = [payload[at : at + FRAME] for at in range(0, len(payload), FRAME)]
        options: dict[str, Any] = {"channel": self.channel}
        frames = [
            transfer_frame(self.sent, b"", payload=parts[0], settled=self._settled, more=len(parts) > 1, **options)
        ]
        for number, part in enumerate(parts[1:], 2):
            body = described(0x14, b"\x43", NULL, NULL, NULL, NULL, b"\x41" if number < len(parts) else b"\x42")
            frames.append(frame(body, part, **options))
        self.sent += 1
        self.credit -= 1
        return frames

    def drained(self) -> bytes:
        """Give the credit back."""
        self.sent += self.credit
        self.credit = 0
        return flow_frame(delivery_count=self.sent, drain=True, channel=self.channel)


@asynccontextmanager
async def played_stream() -> AsyncIterator[PlayedStream]:
    """Have a broker with a stream."""
    stream = PlayedStream()
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, stream.serve, [listener])
        stream.url = f"amqp://127.0.0.1:{listener.socket.getsockname()[1]}"
        yield stream
        nursery.cancel_scope.cancel()
