"""The sessions of a connection: which one a link goes to, what each lets in, and when a channel is used again.

Theory of operation. Links of this side are spread over a few sessions, each new one getting a session of its own until
there are `MAX_SESSIONS` or the peer allows no more; from then on it shares the one with the fewest links. A link that
bounds its bytes gets one to itself while that can be had, for a session's window stops all links in it. The sessions
the peer begins are only counted: each takes a channel, too. The `end` of the peer is answered at once. Only RabbitMQ as
the server waits for it, as long as other channels are free, so that no new session gets the channel at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cproton_ffi import lib

from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.outgoing_frames import BUFFER_BYTES, OutgoingFrames
from rstreams.net._proton.pointers import Pointer

MAX_LINKS: Final = 2**32
"""More than a session can have."""

MAX_SESSIONS: Final = 32
"""Sessions a connection spreads its links over, if the peer allows as many."""

SESSION_REST_S: Final = 0.1
"""How long a session that RabbitMQ ended keeps its channel, in seconds: whoever subscribes again at once gets another.

RabbitMQ 4.0.5 has sometimes not answered a `begin` that came on the channel right behind the answer to its `end`.
"""


class Sessions:
    """The sessions of one connection.

    Attributes:
        peers: How many the peer has begun, and nobody has ended.

    Context: Only the task that owns the connection.
    Spec: AMQP 1.0 sections 2.5 and 2.5.6 (session flow control).
    """

    def __init__(self, connection: Pointer, transport: Pointer, outgoing: OutgoingFrames, max_frame_bytes: int) -> None:
        """Have none yet; `max_frame_bytes` is the largest frame this side takes."""
        self._connection = connection
        self._transport = transport
        self._outgoing = outgoing
        self._max_frame_bytes = max_frame_bytes
        self._ours: list[Pointer] = []
        self.peers = 0  # opened by the peer; each takes a channel, too
        self._resting: list[Pointer] = []  # those the peer has ended, and this side not yet
        self._closed: list[Pointer] = []  # to be freed when that has been written
        self.rests = False  # whether the peer is one that needs time before a channel is used again

    def __len__(self) -> int:
        """Return how many this side has opened, and nobody has ended."""
        return len(self._ours)

    @property
    def _channels(self) -> int:
        """How many more sessions the peer lets this side open."""
        most = int(lib.pn_transport_remote_channel_max(self._transport)) + 1
        return most - len(self._ours) - self.peers - len(self._resting)

    @property
    def _has_channel(self) -> bool:
        """Whether the engine has a channel for one more; if it had none, it would say nothing more for ever."""
        used = len(self._ours) + self.peers + len(self._resting) + len(self._closed)
        return used <= int(lib.pn_transport_get_channel_max(self._transport))

    def _free_channels(self) -> int:
        """See that those of sessions that have ended are free, if all are taken; return the bytes kept for that."""
        if self._has_channel:
            return 0
        kept = self._outgoing.keep()  # they are free when the ends have been written
        self.free_closed()
        return kept

    def one_for_link(self, drivers: Iterable[LinkDriver], window_bytes: int = 0) -> Pointer:
        """Return the session for one more link: a new one while the peer allows it, else the least used.

        One with a window is not shared as long as there is another one, and set only where there is no link yet.

        Args:
            drivers: Those of all links alive.
            window_bytes: The bound of the link, in bytes; 0 for none.
        """
        self._free_channels()
        load = dict.fromkeys(self._ours, 0)
        for driver in drivers:
            session = lib.pn_link_session(driver.pointer)
            if session in load:  # else it is the peer's
                load[session] += MAX_LINKS if driver.owns_session else 1
        limit = min(MAX_SESSIONS, len(self._ours) + self._channels)
        idle = [each for each, links in load.items() if not links and not lib.pn_session_incoming_bytes(each)]
        if window_bytes and idle:
            session = idle[0]
        elif len(self._ours) < limit or not self._ours:
            session = Pointer(lib.pn_session(self._connection))
            self._set_window(session, window_bytes)
            lib.pn_session_open(session)
            self._ours.append(session)
            return session
        else:
            session = min(self._ours, key=load.__getitem__)
        if load[session] == 0:
            self._set_window(session, window_bytes)
        return session

    def accept(self, session: Pointer, window_bytes: int) -> str | None:
        """Answer the `begin` of the peer, or return why it cannot be answered.

        Args:
            session: The one that the peer has begun.
            window_bytes: The bound of the links that come in it, 0 for none.
        """
        if self._free_channels() > BUFFER_BYTES:
            return "it goes on beginning sessions, and does not read what it is answered"
        if not self._has_channel:
            return "it began a session, and no channel is left to answer it on"
        self.peers += 1
        self._set_window(session, window_bytes)
        lib.pn_session_open(session)
        return None

    def _set_window(self, session: Pointer, window_bytes: int) -> None:
        """Let a session take in an eighth of the bound before this side reads it, and two frames at least; 0: all.

        Only where no transfer can be on its way: who has not heard of a smaller window yet would break it. And not
        where the engine still counts bytes of a link that has ended in the middle of a message: they would stay in it.
        """
        if lib.pn_session_incoming_bytes(session):
            window_bytes = 0
        capacity = max(window_bytes // 8, 2 * self._max_frame_bytes) if window_bytes else 0
        if int(lib.pn_session_get_incoming_capacity(session)) != capacity:
            lib.pn_session_set_incoming_capacity(session, capacity)

    # how they end

    def remove(self, session: Pointer) -> None:
        """The peer has ended it: no link goes there any more."""
        if session in self._ours:
            self._ours.remove(session)
        else:
            self.peers -= 1

    def rest(self, session: Pointer) -> bool:
        """Keep the channel of one that has been removed; tell whether `close_first` is to follow in `SESSION_REST_S`.

        Otherwise its `end` has been answered now: the peer needs no rest, or the next session needs the channel.
        """
        self._resting.append(session)
        if self.rests and self._channels > 0:
            return True
        self.close_first()
        return False

    def close_first(self) -> None:
        """Answer the `end` that came first of those not answered yet."""
        if self._resting:
            session = self._resting.pop(0)
            lib.pn_session_close(session)
            self._closed.append(session)

    def close_all(self) -> None:
        """Answer each `end` not answered yet."""
        while self._resting:
            self.close_first()

    def free_closed(self) -> None:
        """Free those whose `end` has been written."""
        closed, self._closed = self._closed, []
        for session in closed:
            lib.pn_session_free(session)
