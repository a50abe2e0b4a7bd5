"""The end of a link, as the connection that carries the link sees it."""

from __future__ import annotations

from typing import Protocol

from rstreams.protocol.driver import Driver
from rstreams.protocol.link import Endpoint, Link


class LinkEnd(Endpoint, Protocol):
    """An end of a link that makes its link when it gets a driver: `LinkSubscription`, `LinkSubscriber`."""

    def bind(self, name: str, driver: Driver) -> Link:
        """Make the link."""
        ...

    @property
    def streams(self) -> bool:
        """Whether deliveries are to be handed over in parts, as they come."""
        ...

    @property
    def window_bytes(self) -> int:
        """The most bytes that may be on hand of what is received; 0 for any number."""
        ...

    def room_bytes(self) -> int:
        """Return how many bytes of deliveries the end takes now."""
        ...

    @property
    def wants_link(self) -> bool:
        """Whether the end is to be attached again if its link is lost."""
        ...
