"""Message routers, qpid-dispatch and skupper-router, written after their documentation."""

from __future__ import annotations

from rstreams.net.dialects.base import Dialect, PeerDescription, Place, kind_of


class Router(Dialect):
    """A router keeps no messages: a sender has credit only while there is a receiver, and an address is only a name.

    Whether an address goes to one receiver or to all is the router's configuration.
    """

    name = "router"
    credit_needs_consumer = True

    def matches(self, peer: PeerDescription) -> bool:
        """Return whether it is a qpid-dispatch or skupper router."""
        return peer.product in {"qpid-dispatch-router", "skupper-router"}

    def source(self, address: str) -> Place:
        """Return the name alone."""
        return Place(kind_of(address)[1])

    def target(self, address: str) -> Place:
        """Return the name alone."""
        return Place(kind_of(address)[1])
