"""What messages and links ask for and do not get at an address: the log is told of each wish once.

The message is taken nevertheless. A look at its first section shows that most messages ask for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from rstreams._codec.asking import Wish, asked_by, asked_by_link, may_ask
from rstreams._codec.forwarding import DELIVERY_ANNOTATIONS, without_delivery_annotations
from rstreams._codec.sections import PROPERTIES
from rstreams._events.table import WISH_IGNORED

SHOWN: Final[Mapping[Wish, str]] = {
    Wish.DURABLE: "that messages are durable",
    Wish.PRIORITY: "the priority of messages",
    Wish.LIFETIME: "the time to live of messages",
    Wish.GROUP: "the group-id of messages",
    Wish.DELAY: "the delay or the schedule of messages",
    Wish.COPIES: "the further addresses of messages (x-cc)",
    Wish.TURN: "the priority of a consumer",
}
"""What the log says that an address ignores."""

AS_THEY_COME: Final[Mapping[Wish, str]] = {
    Wish.PRIORITY: "they are delivered in the order in which they come",
    Wish.DELAY: "they are delivered as soon as they can be",
    Wish.COPIES: "they go to this address alone",
}
"""What all addresses ignore that pass messages on as they come, and the reason of each."""

IN_MEMORY: Final = "they are in memory, and end with the node"


class Ignores(Protocol):
    """The address, as `Wishes` uses it; see `rstreams.node.Address`."""

    name: str
    kind: str

    @property
    def ignores(self) -> Mapping[Wish, str]:
        """What messages may ask for and do not get here, with the reason of each."""
        ...


class Wishes:
    """The wishes that an address ignores.

    Args:
        address: The address.

    Attributes:
        untold: The wishes that the log has not been told of, as a number.
    """

    __slots__ = ("_address", "untold")

    def __init__(self, address: Ignores) -> None:
        self._address = address
        self.untold = int(sum(address.ignores))

    def taking(self, origin: str) -> Callable[[bytes], bytes]:
        """Return the function through which the messages of a link come: they lose their delivery annotations.

        Args:
            origin: The peer and the link.
        """
        if not self.untold:
            return without_delivery_annotations

        def take(encoded: bytes, last: int = PROPERTIES, notes: int = DELIVERY_ANNOTATIONS) -> bytes:
            try:
                first = encoded[2]
            except IndexError:
                return encoded  # not a message
            if first > last:  # its first section comes after the properties
                return encoded
            if self.untold and may_ask(encoded, self.untold):
                self._tell(asked_by(encoded), origin)
            return encoded if first > notes else without_delivery_annotations(encoded)

        return take

    def look(self, encoded: bytes, origin: str) -> None:
        """Tell of what a message that comes another way asks for in vain."""
        if self.untold and may_ask(encoded, self.untold):
            self._tell(asked_by(encoded), origin)

    def look_at_link(self, properties: Mapping[str, Any], origin: str) -> None:
        """Tell of what the properties of a consumer's link ask for in vain."""
        self._tell(asked_by_link(properties), origin)

    def _tell(self, asked: Wish, origin: str) -> None:
        address = self._address
        for wish in Wish(asked & self.untold):
            self.untold &= ~wish
            kind, name, why = address.kind, address.name, address.ignores[wish]
            WISH_IGNORED.tell(f"{SHOWN[wish]} {name}", kind=kind, address=name, wish=SHOWN[wish], why=why, peer=origin)
