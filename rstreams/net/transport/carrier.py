"""The carrier of links to a peer: one connection, or one that is opened again whenever it is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rstreams.errors import AnswerTimeout, PeerClosed, RStreamsError
from rstreams.net._proton import LinkEnd
from rstreams.protocol.frames import Attach


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """The state of a connection, when it changes.

    Attributes:
        state: "connected": it is open. "lost": it was lost, or an attempt to open it failed, also the first attempt.
            "closed": it has ended for good.
        peer: The host and port of the peer; after a loss, of the last peer; before the first connection, of the first
            one to try.
        error: Why it was lost or closed; after an attempt with several urls, the reason for each. None if it was closed
            from this side, or is open.
        attempt: The number of the attempt since the loss; 0 for the loss itself and for the first connection. After a
            connection that did not last the count goes on.
        delay_s: Seconds until the next attempt, if it was lost.
    """

    state: Literal["connected", "lost", "closed"]
    peer: str
    error: RStreamsError | None = None
    attempt: int = 0
    delay_s: float | None = None


class Carrier(Protocol):
    """Attaches links; each end hears `Lost` when the connection is lost, and is attached again if it returns."""

    @property
    def peer(self) -> str:
        """The host and port of the peer, for messages; never a password."""
        ...

    @property
    def peer_capabilities(self) -> Sequence[str]:
        """The capabilities that the peer's `open` offers; that of the last one, if the connection is lost."""
        ...

    @property
    def peer_properties(self) -> Mapping[str, Any]:
        """The properties of the peer's `open`; of the last one, if the connection is lost."""
        ...

    @property
    def user(self) -> str:
        """The user whose name this side has given to the peer, or to the last one; "" for none."""
        ...

    @property
    def returns(self) -> bool:
        """Whether a connection that is lost is opened again."""
        ...

    @property
    def keeps_links(self) -> bool:
        """Whether a link that the peer detaches is attached again."""
        ...

    @property
    def status(self) -> ConnectionStatus:
        """The last change of the connection."""
        ...

    async def close(self) -> None:
        """Close the connection in order; attached ends hear `Lost`."""
        ...

    def attach(self, end: LinkEnd, frame: Attach) -> None:
        """Attach a new link for `end` soon; if that is not possible any more, `end` hears `Lost` at once."""
        ...

    def attach_later(self, end: LinkEnd, frame: Attach, error: PeerClosed | AnswerTimeout) -> None:
        """Attach a new link for `end` after a while, or on a new connection: the peer has ended it, or is silent."""
        ...
