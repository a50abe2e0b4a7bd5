"""What the two ends of a link have in common: the link that they live on now, and hints of their owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rstreams.errors import PeerClosed
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Frame
from rstreams.protocol.link import Link
from rstreams.protocol.packing import offer
from rstreams.protocol.states import State


class End:
    """An end of a link. It outlives a link that is lost, and goes on with the next one.

    Attributes:
        place: Says which peer and which link of it, for messages. It says nothing unless the owner of the end sets it.
        attach_later: Has the end attached again later, for the reason that the peer gave; None: its connection does not
            return.
    """

    def __init__(self, pack_items: int) -> None:
        """Have no link; a delivery may carry `pack_items` items if the peer knows packs."""
        self.place: Callable[[], str] = str
        self.attach_later: Callable[[PeerClosed], None] | None = None
        self._pack_items = pack_items
        self._link: Link | None = None

    def properties(self) -> dict[str, Any]:
        """Return what this side's attach says of packs."""
        return offer(self._pack_items)

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
