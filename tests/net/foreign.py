"""A client of another make at a node: what it says is written frame by frame, as its library would write it."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from rstreams._codec import Symbol, encode_value
from rstreams._codec.encode import NULL, encode_string, encode_uint
from rstreams.net.transport.listener import Listener
from tests.net.wire import (
    AMQP_HEADER,
    FALSE,
    SASL_HEADER,
    SASL_INIT,
    SOURCE,
    TARGET,
    TRUE,
    Frame,
    Peer,
    begin_frame,
    close_frame,
    described,
    flow_frame,
    frame,
    open_frame,
)

UNSETTLED, SETTLED, MIXED = 0, 1, 2
FIRST, SECOND = 0, 1


class Foreign(Peer):
    """The client, behind its begin; the node's open is in `open`.

    Handles are to be given in the order in which links are attached: then the node's are the same.

    Attributes:
        closed: Whether the node has closed the connection.
    """

    closed = False

    async def frame(self) -> Frame:
        """Return the next frame that is not empty."""
        came = await super().frame()
        self.closed = self.closed or came.name == "close"
        return came

    async def begins_here(self) -> None:
        await self.send(SASL_HEADER, SASL_INIT)
        assert await self.take(8) == SASL_HEADER
        for _ in range(2):  # mechanisms, outcome
            size = struct.unpack(">I", await self.take(4))[0]
            await self.take(size - 4)
        await self.send(AMQP_HEADER, open_frame(), begin_frame(None))
        assert await self.take(8) == AMQP_HEADER
        self.open = await self.expect("open")
        await self.expect("begin")

    async def attach(self, name: str, role: str, **fields: Any) -> Frame:  # noqa: ANN401 - those of `attach_of`
        """Attach a link; return the node's answer."""
        await self.send(attach_of(name, role, **fields))
        return await self.due("attach")

    async def due(self, name: str) -> Frame:
        """Return the next frame of that name; flows that come before it are passed over."""
        while (came := await self.frame()).name == "flow" != name:
            pass
        assert came.name == name, f"{name} was due, and not {came}"
        return came

    async def credit(self, *, handle: int = 0) -> int:
        """Wait for a flow of the link with credit, and return that."""
        while not (came := await self.due("flow"))["link-credit"] or came["handle"] != handle:
            pass
        return int(came["link-credit"])

    async def grant(
        self, credit: int, *, handle: int = 0, delivery_count: int = 0, next_incoming: int = 0, drain: bool = False
    ) -> None:
        await self.send(
            flow_frame(
                credit=credit, handle=handle, delivery_count=delivery_count, next_incoming=next_incoming, drain=drain
            )
        )


def attach_of(
    name: str,
    role: str,
    *,
    address: str | None = None,
    null_terminus: bool = False,
    snd: int | None = None,
    rcv: int | None = None,
    dynamic: bool = False,
    distribution: str | None = None,
    coordinator: bool = False,
    handle: int = 0,
    max_message_bytes: int | None = None,
    default_outcome: bytes = NULL,
    kept: tuple[bytes, bytes, bytes] = (NULL, NULL, NULL),
    filters: bytes = NULL,
    properties: bytes = NULL,
) -> bytes:
    """Return an attach, with only what is given in it.

    Args:
        name: The link's name.
        role: "sender" or "receiver".
        address: The address of the node's end; None: it has none.
        null_terminus: Whether the node's end is null as a whole.
        snd: The sender's settle mode.
        rcv: The receiver's settle mode.
        dynamic: Whether the node is to make the address.
        distribution: The source's distribution mode.
        coordinator: Whether the target is a coordinator of transactions.
        handle: The link's handle.
        max_message_bytes: The largest message taken.
        default_outcome: Of the source, encoded.
        kept: Durability, expiry policy and timeout of the node's end, encoded.
        filters: Of the source, encoded.
        properties: Of the link, encoded.
    """
    own = NULL if address is None else encode_string(address)
    made = TRUE if dynamic else NULL
    if role == "receiver":
        mode = NULL if distribution is None else encode_value(Symbol(distribution))
        source = described(SOURCE, own, *kept, made, NULL, mode, filters, default_outcome)
        if null_terminus:
            source = NULL
        target = described(TARGET)
    else:
        source = described(SOURCE)
        target = described(TARGET, own, *kept, made)
        if coordinator:
            target = described(0x30, encode_value(Symbol("amqp:local-transactions")))
        elif null_terminus:
            target = NULL
    return frame(
        described(
            0x12,
            encode_string(name),
            encode_uint(handle),
            TRUE if role == "receiver" else FALSE,
            NULL if snd is None else b"\x50" + bytes([snd]),
            NULL if rcv is None else b"\x50" + bytes([rcv]),
            source,
            target,
            NULL,
            NULL,
            encode_uint(0) if role == "sender" else NULL,
            NULL if max_message_bytes is None else b"\x80" + struct.pack(">Q", max_message_bytes),
            NULL,
            NULL,
            properties,
        )
    )


@asynccontextmanager
async def foreign(listener: Listener) -> AsyncIterator[Foreign]:
    """Connect to a node, and close the connection in order at the end of the block."""
    async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
        client = Foreign(stream)
        with trio.fail_after(60):
            await client.begins_here()
            yield client
            await client.send(close_frame())
            while not client.closed:
                await client.frame()
