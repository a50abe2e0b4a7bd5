"""The common base of the two ends of a link: their present link, and hints of their owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rstreams.errors import PeerClosed
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Frame
from rstreams.protocol.link import Link
from rstreams.protocol.packing import offer
from rstreams.protocol.states import State


class End:
    """An end of a link. It outlives a lost link, and goes on with the next one.

    Attributes:
        place: Returns the peer and its link as text, for messages. The text is empty unless the owner of the end sets
            it.
        attach_later: Attaches the end again later, for the reason that the peer gave; None: its connection does not
            return.
    """

    def __init__(self, pack_items: int) -> None:
        """Start without a link; a delivery may carry `pack_items` items if the peer knows packs."""
        self.place: Callable[[], str] = str
        self.attach_later: Callable[[PeerClosed], None] | None = None
        self._pack_items = pack_items
        self._link: Link | None = None

    def properties(self) -> dict[str, Any]:
        """Return the properties about packs in this side's attach."""
        return offer(self._pack_items)

    def next_attach(self, frame: Attach) -> Attach:
        """Return this side's attach for its next link, made from the one it began with."""
        return frame

    @property
    def state(self) -> State:
        """The state of the link that the end has now."""
        return State.UNATTACHED if self._link is None else self._link.state

    @property
    def _driver(self) -> Driver:
        assert self._link is not None, "bind comes first"
        return self._link.driver

    def _send(self, frame: Frame) -> None:
        assert self._link is not None, "bind comes first"
        self._link.send(frame)
