"""What an engine tells the owner of its connection, and asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rstreams.errors import PeerClosed, SessionEnded
from rstreams.net._proton.host_connection import LinksOwner
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.protocol.frames import Attach


class Owner(LinksOwner, Protocol):
    """The owner of a connection; it hears the events that concern the connection as a whole."""

    def on_open(self) -> None:
        """The peer opened the connection."""
        ...

    def on_attach(self, driver: LinkDriver, frame: Attach, /) -> None:
        """The peer attached a link of its own: bind a link to `driver`, or refuse it."""
        ...

    def on_session_end(self, drivers: Sequence[LinkDriver], error: SessionEnded) -> None:
        """The peer ended the session of these drivers; they are dead, and their links have not heard of it yet."""
        ...

    def on_broken_session(self, drivers: Sequence[LinkDriver], condition: str, description: str) -> None:
        """A frame of the peer breaks the protocol in a session, which has been ended with the condition.

        The drivers are dead, and their links have not heard of it yet.
        """
        ...

    def on_close(self, error: PeerClosed | None) -> None:
        """The peer closed the connection, with an error or without."""
        ...

    def on_failure(self, condition: str, description: str) -> None:
        """The engine gave up on the connection: bytes came that are not AMQP or break its rules, or none came."""
        ...
