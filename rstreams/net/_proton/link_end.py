"""The end of a link, as the connection that carries the link sees it."""

from __future__ import annotations

from typing import Protocol

from rstreams.protocol.driver import Driver, IntakeLimits
from rstreams.protocol.frames import Attach
from rstreams.protocol.link import Endpoint, Link


class LinkEnd(Endpoint, Protocol):
    """An end of a link that makes its link when it gets a driver: `LinkSubscription`, `LinkSubscriber`."""

    def bind(self, name: str, driver: Driver) -> Link:
        """Make the link."""
        ...

    def next_attach(self, frame: Attach) -> Attach:
        """Return this side's attach for its next link, made from the one it began with."""
        ...

    @property
    def intake(self) -> IntakeLimits | None:
        """The bounds of the deliveries that come to this end; None if it sends."""
        ...

    @property
    def wants_link(self) -> bool:
        """Whether the end is to be attached again if its link is lost."""
        ...
