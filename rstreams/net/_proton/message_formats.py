"""Messages in another format than AMQP's own: refused, because they cannot be read or passed on.

The engine writes 0 as the format of every message that it sends. A message with another format would leave in the wrong
one.

Spec: AMQP 1.0 section 2.7.5 (message-format), 3.2.16.
"""

from __future__ import annotations

from cproton_ffi import lib

from rstreams.errors import Condition
from rstreams.net._proton.outcomes import write_outcome
from rstreams.net._proton.parts import take_part
from rstreams.net._proton.pointers import Pointer
from rstreams.protocol.delivery import Outcome

CONDITION = Condition.NOT_IMPLEMENTED.value


class MessageFormats:
    """The deliveries of one link that have come in such a format, and are not refused yet."""

    def __init__(self) -> None:
        """Have none."""
        self._unknown: dict[Pointer, int] = {}

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return bool(self._unknown)

    def note(self, delivery: Pointer, message_format: int) -> None:
        """Note a delivery that has begun in such a format."""
        self._unknown[delivery] = message_format

    def has(self, delivery: Pointer) -> bool:
        """Tell whether a delivery is one of them."""
        return delivery in self._unknown

    def refuse(self, delivery: Pointer, frame_bytes: int, *, lives: bool) -> str | None:
        """Refuse the link's current delivery when it has come whole; until then, throw away its parts.

        It is not refused before: the engine would count its further bytes as unread, and a window would stay closed.

        Args:
            delivery: A delivery for which `has` returns True.
            frame_bytes: The largest frame the peer takes; 0 for any.
            lives: Whether an outcome is still due: it is, unless this side has ended the link (2.6.6).

        Returns:
            The text to end the link with, if the sender has settled the delivery and therefore gets no outcome; else
            None.
        """
        aborted = bool(lib.pn_delivery_aborted(delivery))
        if lib.pn_delivery_partial(delivery) and not aborted:
            take_part(lib.pn_delivery_link(delivery))
            return None
        text = f"the message-format 0x{self._unknown.pop(delivery):08x} is not known here; only 0 is known"
        lives = lives and not aborted
        settled = bool(lib.pn_delivery_settled(delivery))
        if lives and not settled:
            write_outcome(lib.pn_delivery_local(delivery), Outcome("rejected", CONDITION, text), frame_bytes)
            lib.pn_delivery_update(delivery, lib.PN_REJECTED)
        lib.pn_delivery_settle(delivery)  # this also advances
        return text if lives and settled else None
