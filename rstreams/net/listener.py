"""The listening side: connections accepted, authenticated, and pumped until they end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from rstreams.errors import RStreamsError, TransportError
from rstreams.net._proton import LinkDriver
from rstreams.net._pump import Pump
from rstreams.net.address import PeerAddress, parse_place
from rstreams.net.security import authenticate
from rstreams.protocol.frames import Attach
from rstreams.runtime.scope import open_nursery

logger = logging.getLogger("rstreams.net")

HANDSHAKE_TIMEOUT_S: Final = 10.0
"""How long a client may take to say who it is, in seconds."""

HANG_UP_TIMEOUT_S: Final = 1.0
"""How long a refused client may take to hang up in its turn, in seconds."""

Attaching = Callable[[LinkDriver, Attach], None]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What a listener gives each of its connections.

    Attributes:
        container_id: The node's name for its peers.
        users: Passwords by user; None lets everyone in.
        idle_timeout_s: Seconds of silence after which a peer counts as dead.
        max_frame_bytes: The largest frame taken.
    """

    container_id: str
    users: Mapping[str, str] | None
    idle_timeout_s: float
    max_frame_bytes: int


class Listener:
    """A place where a node listens.

    Attributes:
        host: The address it listens at.
        port: The port, also where port 0 let the system choose.
    """

    def __init__(self, place: PeerAddress, listeners: Sequence[trio.SocketListener]) -> None:
        """Wrap listening sockets."""
        self.host = place.host
        self.port = int(listeners[0].socket.getsockname()[1])
        self._listeners = listeners
        self._accepting = trio.CancelScope()
        self._connections: set[Pump] = set()

    @property
    def url(self) -> str:
        """What a client connects to."""
        return f"amqp://{PeerAddress(self.host, self.port)}"

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    async def run(self, options: ConnectionOptions, on_attach: Attaching) -> None:
        """Accept and pump connections until closed; one that fails is logged and no other hears of it."""
        handler = partial(self._serve, options, on_attach)
        async with open_nursery() as connections:
            with self._accepting:
                await trio.serve_listeners(handler, list(self._listeners), handler_nursery=connections)

    async def close(self, condition: str, description: str) -> None:
        """Stop listening and close every connection in order, telling the peers why."""
        self._accepting.cancel()
        async with trio.open_nursery() as nursery:
            for pump in list(self._connections):
                nursery.start_soon(pump.close, condition, description)

    async def _serve(self, options: ConnectionOptions, on_attach: Attaching, stream: trio.SocketStream) -> None:
        peer = _peer_of(stream)
        try:
            await self._serve_peer(options, on_attach, stream, peer)
        except Exception:  # a fault of ours that one peer has found must not end the others' connections
            logger.exception("the connection from %s failed", peer)
            await trio.aclose_forcefully(stream)

    async def _serve_peer(
        self, options: ConnectionOptions, on_attach: Attaching, stream: trio.SocketStream, peer: str
    ) -> None:
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT_S):
                user, first = await authenticate(stream, options.users)
        except (RStreamsError, trio.TooSlowError, trio.BrokenResourceError) as error:
            why = str(error) or "it took too long to say who it is"
            logger.warning("refused a connection from %s: %s", peer, why)
            await _hang_up(stream)
            return
        pump = Pump(
            stream,
            peer=peer if user is None else f"{user}@{peer}",
            container_id=options.container_id,
            idle_timeout_s=options.idle_timeout_s,
            max_frame_bytes=options.max_frame_bytes,
            on_attach=on_attach,
        )
        pump.engine.accept()
        pump.engine.feed(first)
        self._connections.add(pump)
        try:
            await pump.run()
        finally:
            self._connections.discard(pump)
        if pump.error is not None:
            logger.info("%s", pump.error)


async def open_listener(place: str) -> Listener:
    """Listen at `host:port`; nothing is accepted before `run`.

    Errors: `ConfigError` for a malformed place; `TransportError` if it cannot be listened at.
    """
    address = parse_place(place)
    try:
        listeners = await trio.open_tcp_listeners(address.port, host=address.host)
    except OSError as error:
        msg = f"cannot listen on {address}: {error.strerror or error}"
        raise TransportError(msg) from error
    return Listener(address, listeners)


async def _hang_up(stream: trio.SocketStream) -> None:
    """Close a connection so that the client gets what it was sent last.

    A socket closed with something unread in it is reset, and a client that sends ahead would never see why.
    """
    try:
        with trio.move_on_after(HANG_UP_TIMEOUT_S):
            await stream.send_eof()
            while await stream.receive_some(4096):
                pass
    except trio.BrokenResourceError:
        pass  # the client was quicker
    finally:
        await trio.aclose_forcefully(stream)


def _peer_of(stream: trio.SocketStream) -> str:
    try:
        host, port = stream.socket.getpeername()[:2]
    except OSError:
        return "a client that has gone"
    return str(PeerAddress(host, port))
