"""A connection in the engine: bytes in and out, the clock, and the turns of its links.

Theory of operation. Bytes go in by `feed` and come out by `turn`. In a turn, the engine's events become frames for the
protocol's links. Transfers and dispositions are only noted during events. They are handed over afterwards, as one frame
for a whole run. Other modules keep the parts:

    engine_events    what the engine tells
    link_table       the links, by their addresses in the engine
    link_turns       the links that have something to do
    link_names       the names of the links, on the wire and in the engine
    sessions         the session that a link goes to
    delayed_calls    the calls that wait for the clock
    incoming_frames  the frames that the engine does not see, or misreads
    outgoing_frames  the flows that the engine does not write
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import cproton
from cproton_ffi import lib

from rstreams.net._proton.conditions import read_text, write_condition
from rstreams.net._proton.data import read_map, read_symbols, write_map, write_symbols
from rstreams.net._proton.engine_events import EngineEvents
from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.incoming_frames import IncomingFrames
from rstreams.net._proton.link_table import LinkTable
from rstreams.net._proton.owner import Owner
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.sessions import Sessions
from rstreams.net._proton.unfinished import Unfinished
from rstreams.net.options.limits import ConnectionLimits
from rstreams.protocol.frames import ANONYMOUS_RELAY, EXPLAINS
from rstreams.protocol.packing import CAPABILITY
from rstreams.protocol.unsettled import Share

PRODUCT: Final = "rstreams"
"""The product in the properties of a node's `open`: clients know by it that `$statistics` is there."""


class Engine:
    """One connection in the engine. It belongs to the pump, and nothing else touches it.

    Attributes:
        links: The links of the connection.
        turns: Their turns.
        rooms: Returns where the next bytes may be written; they are valid until the next call of this object.

    Context: Only the task that owns the connection.
    """

    def __init__(
        self,
        owner: Owner,
        *,
        container_id: str,
        hostname: str | None = None,
        limits: ConnectionLimits,
        unfinished: Unfinished | None = None,
        share: Share | None = None,
        output: bytearray | None = None,
    ) -> None:
        """Make an unopened connection.

        Args:
            owner: Hears the connection's own events.
            container_id: This side's name for the peer.
            hostname: The host asked for, in `open` (client only).
            limits: The limits of the connection.
            unfinished: Counts messages that have not come whole; None: they are not counted.
            share: The sending links' part of the memory of their node; None: there is no such bound.
            output: The room where output is put; others may use it in between. None: a room of its own.
        """
        self._connection = connection = lib.pn_connection()
        self._transport = transport = lib.pn_transport()
        # The engine's own trace, which a variable may begin, would show passwords, and placeholders for messages.
        lib.pn_transport_trace(transport, lib.PN_TRACE_OFF)
        cproton.pn_connection_set_container(connection, container_id)
        if hostname is not None:
            cproton.pn_connection_set_hostname(connection, hostname)
        write_symbols(lib.pn_connection_offered_capabilities(connection), (CAPABILITY, EXPLAINS))
        write_symbols(lib.pn_connection_desired_capabilities(connection), (CAPABILITY,))
        lib.pn_transport_set_idle_timeout(transport, int(limits.idle_timeout_s * 1000))
        lib.pn_transport_set_max_frame(transport, limits.max_frame_bytes)
        lib.pn_transport_set_channel_max(transport, limits.max_sessions - 1)
        self._host = host = HostConnection(
            connection, transport, owner, limits, output=output, unfinished=unfinished, share=share
        )
        self.turns = host.turns
        self._outgoing = host.outgoing
        self._sessions = Sessions(connection, transport, host.outgoing, limits.max_frame_bytes)
        self.links = LinkTable(host, self._sessions)
        self._events = EngineEvents(owner, host, self._sessions, self.links)
        self._incoming = IncomingFrames(self._events, host)
        self.rooms: Callable[[], Sequence[memoryview]] = host.loops.rooms
        # The engine counts the time to a heartbeat from the tick that finds new output, and not from the output itself.
        self._note_output: Callable[[int], int] = partial(lib.pn_transport_tick, transport)
        self._freed = False

    # opening and closing

    def connect(self, user: str | None, password: str | None, mechanisms: Sequence[str] = ()) -> None:
        """Start as the client: SASL, then open.

        Args:
            user: The user of PLAIN.
            password: The password of PLAIN.
            mechanisms: Those this side may use; by default PLAIN with a user, and else ANONYMOUS.
        """
        self._events.connects = True
        allowed = mechanisms or (("ANONYMOUS",) if user is None else ("PLAIN",))
        sasl = lib.pn_sasl(self._transport)
        cproton.pn_sasl_allowed_mechs(sasl, " ".join(allowed))
        if user is not None:
            cproton.pn_connection_set_user(self._connection, user)
        if "PLAIN" in allowed:
            lib.pn_sasl_set_allow_insecure_mechs(sasl, 1)  # `opening` has checked that; the engine sees no TLS
            cproton.pn_connection_set_password(self._connection, password or "")
        lib.pn_transport_bind(self._transport, self._connection)
        lib.pn_connection_open(self._connection)

    def accept(self) -> None:
        """Start as the server; SASL is over (`security`), the peer's AMQP header comes next."""
        offered = lib.pn_connection_offered_capabilities(self._connection)
        lib.pn_data_clear(offered)
        write_symbols(offered, (CAPABILITY, EXPLAINS, ANONYMOUS_RELAY))
        write_map(lib.pn_connection_properties(self._connection), {"product": PRODUCT})
        lib.pn_transport_set_server(self._transport)
        lib.pn_transport_bind(self._transport, self._connection)
        lib.pn_connection_open(self._connection)

    def close(self, condition: str | None = None, description: str = "") -> None:
        """Close the connection, with an error or without."""
        if condition is not None:
            where = lib.pn_connection_condition(self._connection)
            write_condition(where, condition, description, {}, self._host.peer_frame_bytes)
        self._sessions.close_all()
        lib.pn_connection_close(self._connection)

    @property
    def sasl_outcome(self) -> int:
        """The code of the peer's sasl-outcome (5.3.3.6); -1 before it has come."""
        return int(lib.pn_sasl_outcome(lib.pn_sasl(self._transport)))

    @property
    def peer_capabilities(self) -> Sequence[str]:
        """The capabilities that the peer's `open` offers."""
        return read_symbols(lib.pn_connection_remote_offered_capabilities(self._connection))

    @property
    def peer_container(self) -> str:
        """The peer's name for itself, from its `open`."""
        return self._host.peer_container

    @property
    def open_sessions(self) -> int:
        """How many sessions there are."""
        return len(self._sessions) + self._sessions.peers

    @property
    def host_asked_for(self) -> str:
        """The host that the peer's `open` asks for."""
        return read_text(lib.pn_connection_remote_hostname(self._connection))

    @property
    def peer_properties(self) -> Mapping[str, Any]:
        """The properties of the peer's `open`."""
        return read_map(lib.pn_connection_remote_properties(self._connection))

    @property
    def is_heavy(self) -> bool:
        """Whether it takes long to give the engine's memory back."""
        return self.links.are_heavy

    def free(self) -> None:
        """Give the engine's memory back; every link of it must have been lost before."""
        self.let_go()()

    def let_go(self) -> Callable[[], None]:
        """Forget all links and the owner; return a function that gives the engine's memory back, in any thread.

        The function does nothing if this was called before. Because everything is forgotten, no memory waits for the
        garbage collector, and an end that waits for the next connection keeps only its driver alive.
        """
        if not self._freed:
            self._freed = True
            self.links.let_go()
            self._host.calls.clear()
            self._outgoing.clear()
            collector = self._events.collector
            del self._events, self._host, self.turns, self._incoming, self._note_output
            return partial(_free, self._transport, collector, self._connection)
        return _do_nothing

    # bytes

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes of the peer; empty at the end of its stream."""
        if not data:
            self._incoming.end()
            lib.pn_transport_pending(self._transport)  # reads what came before, because a refusal in it counts
            lib.pn_transport_close_tail(self._transport)
            return
        fed = 0
        while fed < len(data):
            fed += self._incoming.feed(memoryview(data)[fed:])

    def feed_some(self, data: bytes | bytearray | memoryview, slow_frames: int) -> int:
        """Take bytes as `feed` does, but stop after so many frames that begin or end links and sessions.

        Returns:
            How many bytes were taken. The rest is to be given again, after a turn of the links.
        """
        if data:
            return self._incoming.feed(data, slow_frames, waits=True)
        self.feed(data)
        return 0

    def take_rooms(self, came: int, data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
        """Take bytes that have been written into the rooms; return what is to be fed of them and `data` behind them."""
        left: bytes = self._host.loops.take_rooms(came)
        return b"".join((left, data)) if left else data

    def output(self) -> memoryview:
        """Return the bytes for the peer in one piece; they are valid until the next call."""
        pieces = self.output_pieces()
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def output_pieces(self) -> Sequence[memoryview]:
        """Return the bytes for the peer; the pieces that are not read-only are valid until the next call."""
        output = self._outgoing.take()
        if self.turns.ended:
            self.links.free_ended()
        if self._sessions.closed and not self._outgoing.is_full:
            self._sessions.free_closed()
        has_room = self.turns.waiting and not self._outgoing.is_full and self._host.note_held_parts()
        if output:
            self._host.outputs += 1
        if output or has_room:
            self.turns.wake_waiting()
        return output

    def pause_output(self) -> None:
        """Let no link send, because the network does not take the last output."""
        self._host.output_waits = True

    def resume_output(self) -> None:
        """Let links send again, because the network has taken the last output."""
        self._host.output_waits = False
        self.turns.wake_waiting()

    def limit_parts(self, most: int) -> None:
        """Put at most `most` bytes of large messages into an output from now on."""
        self._outgoing.large_bytes = most

    # turns

    def turn(self, most: int, slice_s: float, now_s: float) -> tuple[Sequence[memoryview], float, bool]:
        """Let the links read and work, and do what is due.

        Args:
            most: The most deliveries handed to one link before the next has its turn.
            slice_s: How long links may read, and then how long they may work, in seconds.
            now_s: The time.

        Returns:
            The bytes for the peer, when the clock is due, and whether there is more to do at once.
        """
        self.turns.at_s = now_s
        more = self.dispatch(most, slice_s)
        due = self.tick(now_s)
        output = self.output_pieces()
        if output:
            self._note_output(int(now_s * 1000) + 1)
        return output, due, more or self._outgoing.is_full or self.has_work()

    def dispatch(self, most: int, slice_s: float) -> bool:
        """Turn the engine's events into frames for the links, and let the links work that want to; see `turn`.

        Returns:
            Whether there is more to do at once.
        """
        events, incoming = self._events, self._incoming
        events.note()
        if events.turned:
            events.wake_turned()
        incoming.is_full, incoming.since_turn = False, 0
        return self.turns.give(most, slice_s)

    def has_work(self, *, acts: bool = True) -> bool:
        """Note the events since `dispatch`, and tell whether there is something for it to do.

        With `acts=False` events are not acted on, but deliveries and flow are noted.
        """
        events, turns = self._events, self.turns
        left = events.note(acts=acts)
        return bool(left or turns.noted or turns.dirty or events.turned or self._outgoing.kept)

    def work_ahead(self, most: int, slice_s: float) -> None:
        """Let the links work that want to, as `dispatch` does.

        This may be called inside of a publisher's signal. Therefore it acts on no event and makes no delayed call.
        """
        self.turns.give(most, slice_s)

    def take_ahead(self, now_s: float) -> tuple[Sequence[memoryview], bool]:
        """Return the bytes for the peer, inside of a publisher's signal, and whether a turn is to follow."""
        output = self.output_pieces()
        if output:
            self._note_output(int(now_s * 1000) + 1)
        return output, self.has_work(acts=False) or self._host.calls.due == -math.inf or self._outgoing.is_full

    def tick(self, now_s: float) -> float:
        """Do the work that is due: heartbeats, time-outs, calls; return when to call again."""
        # For the engine 0 means "no deadline yet", therefore its clock begins at 1. A deadline in floating point may be
        # a little later than the moment itself, and must count as reached.
        deadline = lib.pn_transport_tick(self._transport, int(now_s * 1000 + 0.001) + 1)
        calls = self._host.calls
        if calls.due <= now_s:
            calls.make_due(now_s)
        return min((deadline - 1) / 1000 if deadline else math.inf, calls.due)


def _free(transport: Pointer, collector: Pointer, connection: Pointer) -> None:
    lib.pn_transport_unbind(transport)
    lib.pn_collector_release(collector)
    lib.pn_decref(transport)
    lib.pn_decref(connection)
    lib.pn_collector_free(collector)


def _do_nothing() -> None:
    pass
