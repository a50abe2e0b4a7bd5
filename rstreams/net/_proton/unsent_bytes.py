"""The bytes that wait in the engine until their session takes them, without those that are never sent.

Theory of operation. The engine counts the bytes of all deliveries that it has not sent yet, for each session. When a
link ends it does not send the rest of the link's deliveries, but still counts their bytes. Deliveries that are not
settled are aborted for this reason (`SentDeliveries.take_back`). Settled ones cannot be aborted, and the engine does
not tell how many bytes they have. Therefore the bytes are counted when nothing else waits in the session:

    bytes never sent = all bytes that the engine counts - bytes of messages that are being sent in parts

Until then the bytes that are never sent take up room of their session. This lasts as long as another of its links has
deliveries in the engine for which the peer has withdrawn the credit. Messages beside the engine are always counted
exactly.
"""

from __future__ import annotations

from collections.abc import Callable

from cproton_ffi import lib

from rstreams.net._proton.pointers import Pointer


class UnsentBytes:
    """The bytes that wait in the sessions of one connection.

    Context: Only the task that owns the connection.
    """

    __slots__ = ("_beside", "_never_sent", "_sending", "_uncounted")

    def __init__(self, beside: Callable[[Pointer], int]) -> None:
        """Have no links; `beside` returns how many bytes wait beside the engine in a session."""
        self._beside = beside
        self._sending: dict[Pointer, set[Pointer]] = {}  # the links of each session on which this side sends
        self._uncounted: set[Pointer] = set()  # sessions in which a link has ended since the last count
        self._never_sent: dict[Pointer, int] = {}

    def of(self, session: Pointer) -> int:
        """Return how many bytes wait in a session."""
        waiting = int(lib.pn_session_outgoing_bytes(session))
        if waiting and session in self._uncounted:
            self._count(session, waiting)
        return waiting - self._never_sent.get(session, 0) + self._beside(session)

    def _count(self, session: Pointer, waiting: int) -> None:
        links = self._sending.get(session, ())
        if not any(lib.pn_link_queued(link) for link in links):
            begun = [current for link in links if (current := lib.pn_link_current(link))]
            self._never_sent[session] = waiting - sum(map(lib.pn_delivery_pending, begun))
            self._uncounted.remove(session)

    def add(self, link: Pointer, session: Pointer) -> None:
        """Count with a link."""
        self._sending.setdefault(session, set()).add(link)

    def remove(self, link: Pointer, session: Pointer) -> None:
        """Count without a link, which is about to be freed; its bytes that wait are never sent."""
        self._sending[session].remove(link)
        if lib.pn_session_outgoing_bytes(session):
            self._uncounted.add(session)

    def forget(self, session: Pointer) -> None:
        """Forget a session, which has ended."""
        self._sending.pop(session, None)
        self._never_sent.pop(session, None)
        self._uncounted.discard(session)
