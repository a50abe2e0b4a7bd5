"""What carries links to a peer: one connection, or one that is opened again whenever it is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rstreams.errors import PeerClosed, RStreamsError
from rstreams.net._proton import LinkEnd
from rstreams.protocol.frames import Attach


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """What has just happened to a connection.

    Attributes:
        state: "connected": it is open. "lost": it was lost, or an attempt to open it, for the first time or again,
            failed. "closed": it has ended for good.
        peer: Where it leads or led, or is to lead first: host and port.
        error: Why it was lost or closed, of an attempt with several urls for each; None if it was closed from this
            side, or is open.
        attempt: Which attempt since the loss this was; 0 for the loss itself and for the first connection. After a
            connection that did not last the count goes on.
        delay_s: Seconds until the next attempt, if it was lost.
    """

    state: Literal["connected", "lost", "closed"]
    peer: str
    error: RStreamsError | None = None
    attempt: int = 0
    delay_s: float | None = None


class Carrier(Protocol):
    """Attaches links; each end hears `Lost` when what carries it is gone, and is attached again if that returns."""

    @property
    def peer(self) -> str:
        """Where it leads, for messages: host and port, never a password."""
        ...

    @property
    def peer_properties(self) -> Mapping[str, Any]:
        """What the peer says of itself in its `open`; of the last one, if the connection is lost."""
        ...

    @property
    def returns(self) -> bool:
        """Whether a connection that is lost is opened again."""
        ...

    @property
    def status(self) -> ConnectionStatus:
        """What has happened to the connection last."""
        ...

    async def close(self) -> None:
        """Close the connection in order; what is attached hears `Lost`."""
        ...

    def attach(self, end: LinkEnd, frame: Attach) -> None:
        """Attach a new link for `end`, soon; an end that cannot be attached any more hears `Lost` at once."""
        ...

    def attach_later(self, end: LinkEnd, frame: Attach, error: PeerClosed) -> None:
        """Attach a new link for `end`, whose peer has said `error`: after a while, or when the connection is new."""
        ...
