"""What carries links to a peer: one connection, or one that is opened again whenever it is lost."""

from __future__ import annotations

from typing import Protocol

from rstreams.net._pump import LinkEnd
from rstreams.protocol.frames import Attach


class Carrier(Protocol):
    """Attaches links; each end hears `Lost` when what carries it is gone, and is attached again if that returns."""

    @property
    def peer(self) -> str:
        """Where it leads, for messages: host and port, never a password."""
        ...

    @property
    def returns(self) -> bool:
        """Whether a connection that is lost is opened again."""
        ...

    def attach(self, end: LinkEnd, frame: Attach) -> None:
        """Attach a new link for `end`, soon; an end that cannot be attached any more hears `Lost` at once."""
        ...
