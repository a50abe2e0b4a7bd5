"""The sessions of a connection: the session of each link, the window of each session, and the reuse of channels.

Theory of operation. The links of this side are spread over a few sessions:

- A new link gets a session of its own until there are `MAX_SESSIONS`, or until the peer allows no more. After that it
  shares the session with the fewest links.
- A link that bounds its bytes gets a session to itself as long as one is free, because a session's window stops
  all links in it.

The sessions that the peer begins are only counted: each takes a channel. The `end` of the peer is answered at once,
except to a server that is RabbitMQ: there it is answered later, as long as other channels are free, so that no new
session gets the same channel at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cproton_ffi import lib

from rstreams.net._proton.outgoing_frames import BUFFER_BYTES, OutgoingFrames
from rstreams.net._proton.pointers import Pointer

MAX_LINKS: Final = 2**32
"""More links than a session can have."""

MAX_SESSIONS: Final = 32
"""Sessions a connection spreads its links over, if the peer allows as many."""

SESSION_REST_S: Final = 0.1
"""How long a session that RabbitMQ ended keeps its channel, in seconds.

RabbitMQ 4.0.5 sometimes does not answer a `begin` that comes on the channel right behind the answer to its `end`.
"""


class Sessions:
    """The sessions of one connection.

    Attributes:
        peers: How many sessions the peer has begun that have not ended.
        rests: Whether the peer needs time before a channel is used again.
        closed: Sessions to be freed when their `end` has been written.

    Context: Only the task that owns the connection.
    Spec: AMQP 1.0 sections 2.5 and 2.5.6 (session flow control).
    """

    def __init__(self, connection: Pointer, transport: Pointer, outgoing: OutgoingFrames, max_frame_bytes: int) -> None:
        """Have no sessions yet; `max_frame_bytes` is the largest frame this side takes."""
        self._connection = connection
        self._transport = transport
        self._outgoing = outgoing
        self._max_frame_bytes = max_frame_bytes
        self._ours: list[Pointer] = []
        self.peers = 0
        self._given_up: list[Pointer] = []  # this side has ended them, and the peer has not yet
        self._resting: list[Pointer] = []  # the peer has ended them, and this side has not yet
        self.closed: list[Pointer] = []
        self.rests = False

    def __len__(self) -> int:
        """Return how many sessions this side has begun that have not ended."""
        return len(self._ours)

    @property
    def _channels(self) -> int:
        """How many more sessions the peer lets this side open."""
        most = int(lib.pn_transport_remote_channel_max(self._transport)) + 1
        return most - len(self._ours) - self.peers - len(self._given_up) - len(self._resting)

    @property
    def _has_channel(self) -> bool:
        """Whether the engine has a channel for one more session; without one it would never write anything again."""
        used = len(self._ours) + self.peers + len(self._given_up) + len(self._resting) + len(self.closed)
        return used <= int(lib.pn_transport_get_channel_max(self._transport))

    def _free_channels(self) -> int:
        """If all channels are taken, free those of ended sessions; return the bytes of output kept for that."""
        if self._has_channel:
            return 0
        kept = self._outgoing.keep()  # a channel is free when its `end` has been written
        self.free_closed()
        return kept

    def one_for_link(self, links: Mapping[Pointer, int], window_bytes: int = 0) -> Pointer:
        """Return the session for one more link: a new one while the peer allows it, otherwise the least used.

        A session with a window is not shared as long as there is another session. A window is set only for a session
        that has no link.

        Args:
            links: How many links each session has; `MAX_LINKS` and more: one of them is to be alone.
            window_bytes: The bound of the link, in bytes; 0 for none.
        """
        self._free_channels()
        load = {session: links.get(session, 0) for session in self._ours}
        limit = min(MAX_SESSIONS, len(self._ours) + self._channels)
        idle = [each for each, links in load.items() if not links and not lib.pn_session_incoming_bytes(each)]
        if window_bytes and idle:
            session = idle[0]
        elif len(self._ours) < limit or not self._ours:
            session = Pointer(lib.pn_session(self._connection))
            lib.pn_session_open(session)
            self._ours.append(session)
            load[session] = 0
        else:
            session = min(self._ours, key=load.__getitem__)
        if load[session] == 0:
            self._set_window(session, window_bytes)
        return session

    def accept(self, session: Pointer, window_bytes: int) -> str | None:
        """Answer the `begin` of the peer, or return the reason why it cannot be answered.

        Args:
            session: The session that the peer has begun.
            window_bytes: The bound of the links that come in it, in bytes; 0 for none.
        """
        if self._free_channels() > BUFFER_BYTES:
            return "it goes on beginning sessions, and does not read the answers"
        if not self._has_channel:
            return "it began a session, and no channel is left to answer it on"
        self.peers += 1
        self._set_window(session, window_bytes)
        lib.pn_session_open(session)
        return None

    def _set_window(self, session: Pointer, window_bytes: int) -> None:
        """Set the window of a session: an eighth of the bound, and two frames at least; with 0 there is none.

        The window holds the bytes that come before this side reads them. It is set only where no transfer can be on its
        way, because a peer that has not heard of a smaller window would break it. It is not set where the engine still
        counts bytes of a link that ended in the middle of a message, because they would fill the window for ever.

        The peer is told before the session has a link. Otherwise the engine writes the window into a flow of the new
        link. The peer may not have attached that link yet, and takes a delivery count that is not its own for credit.
        """
        if lib.pn_session_incoming_bytes(session):
            window_bytes = 0
        capacity = max(window_bytes // 8, 2 * self._max_frame_bytes) if window_bytes else 0
        if capacity:
            self._outgoing.mend_flows()
        if int(lib.pn_session_get_incoming_capacity(session)) != capacity:
            lib.pn_session_set_incoming_capacity(session, capacity)
            self._outgoing.keep()

    # how they end

    def remove(self, session: Pointer) -> None:
        """Use a session no more, because the peer has ended it."""
        if session in self._given_up:
            self._given_up.remove(session)
        elif session in self._ours:
            self._ours.remove(session)
        else:
            self.peers -= 1

    def give_up(self, session: Pointer) -> None:
        """End a session from this side, and use it no more; its channel is free when the peer has ended it, too."""
        self.remove(session)
        self._given_up.append(session)
        lib.pn_session_close(session)

    def rest(self, session: Pointer) -> bool:
        """Answer the `end` of a removed session, or keep its channel for a while.

        Returns:
            Whether the channel is kept, and `close_first` is to follow after `SESSION_REST_S`.
        """
        self._resting.append(session)
        if self.rests and self._channels > 0:
            return True
        self.close_first()
        return False

    def close_first(self) -> None:
        """Answer the first `end` that has not been answered."""
        if self._resting:
            session = self._resting.pop(0)
            lib.pn_session_close(session)
            self.closed.append(session)

    def close_all(self) -> None:
        """Answer each `end` that has not been answered."""
        while self._resting:
            self.close_first()

    def free_closed(self) -> None:
        """Free the sessions whose `end` has been written."""
        if self.closed:
            closed, self.closed = self.closed, []
            for session in closed:
                lib.pn_session_free(session)
