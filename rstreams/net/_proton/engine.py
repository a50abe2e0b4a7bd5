"""A connection in the engine: bytes in and out, the clock, and its events turned into frames.

Theory of operation. Bytes go in by `feed` and come out by `output`. In between, `dispatch` turns the engine's events
into frames for the protocol's links. Transfers and dispositions are only noted during events. They are handed over
afterwards, as one frame for a whole run. Other modules keep the parts:

    link_table       the links, by their pointers into the engine
    link_turns       the links that have something to do
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

from rstreams.errors import Condition, SessionEnded, error_for
from rstreams.net._proton.conditions import read_condition, write_condition
from rstreams.net._proton.data import read_map, read_symbols, write_map, write_symbols
from rstreams.net._proton.engine_events import EngineEvents
from rstreams.net._proton.host_connection import GoesAhead, HostConnection
from rstreams.net._proton.incoming_frames import IncomingFrames
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.link_table import LinkTable
from rstreams.net._proton.loops import TOLD_EVENTS, address_of
from rstreams.net._proton.outgoing_frames import BUFFER_BYTES
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.sessions import SESSION_REST_S, Sessions
from rstreams.net._proton.unfinished import Unfinished
from rstreams.net.options.limits import ConnectionLimits
from rstreams.protocol.frames import Detach
from rstreams.protocol.packing import CAPABILITY
from rstreams.protocol.refusal import refuse
from rstreams.protocol.unsettled import Share

MIN_SESSION_BYTES: Final = 8 * 1024
"""The bytes that may wait in a session, however many sessions there are."""

PRODUCT: Final = "rstreams"
"""The product in the properties of a node's `open`: clients know by it that `$statistics` is there."""

ANONYMOUS_RELAY: Final = "ANONYMOUS-RELAY"
"""The capability of a node that takes messages on links without an address and passes each on to its own `to`."""

MIN_IDLE_MS: Final = 100
"""The shortest idle-time-out of a peer that this side accepts, in milliseconds. A heartbeat is due at half of it.

That is ten slices of this side, and twenty heartbeats a second, which cost almost nothing.
"""


class Engine:
    """One connection in the engine. It belongs to the pump, and nothing else touches it.

    Attributes:
        links: The links of the connection.

    Context: Only the task that owns the connection.
    """

    def __init__(
        self,
        events: EngineEvents,
        *,
        container_id: str,
        hostname: str | None = None,
        limits: ConnectionLimits,
        unfinished: Unfinished | None = None,
        share: Share | None = None,
        output: bytearray | None = None,
        on_wake: Callable[[], None],
        on_item: Callable[[], None] | None = None,
        ahead: GoesAhead | None = None,
    ) -> None:
        """Make an unopened connection.

        Args:
            events: Hears the connection's own events.
            container_id: This side's name for the peer.
            hostname: The host asked for, in `open` (client only).
            limits: The limits of the connection.
            unfinished: Counts messages that have not come whole; None: they are not counted.
            share: The sending links' part of the memory of their node; None: there is no such bound.
            output: The room where `output` puts bytes; others may use it in between. None: a room of its own.
            on_wake: Called when a link has something to do.
            on_item: Called in its place if a publisher is sending an item; None: `on_wake` is called for that, too.
            ahead: Lets a link send one item inside of that signal, without a turn; None: no link does.
        """
        self._events = events
        self._collector = lib.pn_collector()
        self._connection = lib.pn_connection()
        self._transport = lib.pn_transport()
        # The engine's own trace, which a variable may begin, would show passwords, and placeholders for messages.
        lib.pn_transport_trace(self._transport, lib.PN_TRACE_OFF)
        lib.pn_connection_collect(self._connection, self._collector)
        cproton.pn_connection_set_container(self._connection, container_id)
        if hostname is not None:
            cproton.pn_connection_set_hostname(self._connection, hostname)
        write_symbols(lib.pn_connection_offered_capabilities(self._connection), (CAPABILITY,))
        write_symbols(lib.pn_connection_desired_capabilities(self._connection), (CAPABILITY,))
        lib.pn_transport_set_idle_timeout(self._transport, int(limits.idle_timeout_s * 1000))
        lib.pn_transport_set_max_frame(self._transport, limits.max_frame_bytes)
        lib.pn_transport_set_channel_max(self._transport, limits.max_sessions - 1)
        self._limits = limits
        self._links_refused = 0
        self._host = HostConnection(
            self._connection,
            self._transport,
            limits,
            output=output,
            unfinished=unfinished,
            share=share,
            on_wake=on_wake,
            on_item=on_item or on_wake,
            on_misuse=events.on_misuse,
            ahead=ahead,
        )
        self._collector_address = address_of(self._collector)
        self._note_events = self._host.loops.note_events
        self._turns = self._host.turns
        self._outgoing = self._host.outgoing
        self._incoming = IncomingFrames(self, self._host, self._collector)
        self._sessions = Sessions(self._connection, self._transport, self._outgoing, limits.max_frame_bytes)
        self.links = LinkTable(self._host, self._sessions)
        self._turned: set[Pointer] = set()  # sessions whose window was closed or opened again since the last turn
        self._connects = False
        self._freed = False

    # opening and closing

    def connect(self, user: str | None, password: str | None, mechanisms: Sequence[str] = ()) -> None:
        """Start as the client: SASL, then open.

        Args:
            user: The user of PLAIN.
            password: The password of PLAIN.
            mechanisms: Those this side may use; by default PLAIN with a user, and else ANONYMOUS.
        """
        self._connects = True
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
        write_symbols(offered, (CAPABILITY, ANONYMOUS_RELAY))
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
            self._turns.clear()
            self._host.calls.clear()
            self._outgoing.clear()
            del self._events, self._host, self._turns, self._incoming
            return partial(_free, self._transport, self._collector, self._connection)
        return _do_nothing

    # bytes and time

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

    def rooms(self) -> Sequence[memoryview]:
        """Return where the next bytes may be written; they are valid until the next call of this object."""
        return self._incoming.rooms()

    def take_rooms(self, came: int, data: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
        """Take bytes that have been written into the rooms; return what is to be fed of them and `data` behind them."""
        left = self._incoming.take_rooms(came)
        return b"".join((left, data)) if left else data

    def output(self) -> memoryview:
        """Return the bytes for the peer in one piece; they are valid until the next call."""
        pieces = self.output_pieces()
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def output_pieces(self) -> Sequence[memoryview]:
        """Return the bytes for the peer; the pieces that are not read-only are valid until the next call."""
        output = self._outgoing.take()
        if self._turns.ended:
            self.links.free_ended()
        if self._sessions.closed and not self._outgoing.is_full:
            self._sessions.free_closed()
        if output:
            self._host.outputs += 1
            self._turns.wake_waiting()
        return output

    @property
    def output_is_full(self) -> bool:
        """Whether there may be more output at once."""
        return self._outgoing.is_full

    @property
    def output_waits(self) -> bool:
        """Whether the network does not take the last output."""
        return self._host.output_waits

    def pause_output(self) -> None:
        """Let no link send, because the network does not take the last output."""
        self._host.output_waits = True

    def resume_output(self) -> None:
        """Let links send again, because the network has taken the last output."""
        self._host.output_waits = False
        self._turns.wake_waiting()

    def limit_parts(self, most: int) -> None:
        """Put at most `most` bytes of large messages into an output from now on."""
        self._host.parts_bytes = most

    def has_work(self) -> bool:
        """Note the events since `dispatch`, and tell whether there is something for it to do."""
        self.note_events()
        turns = self._turns
        return bool(turns.noted or turns.dirty or self._turned or self._outgoing.kept)

    def work_ahead(self, most: int, slice_s: float) -> None:
        """Let the links work that want to, as `dispatch` does.

        This may be called inside of a publisher's signal. Therefore it acts on no event and makes no delayed call.
        """
        self._turns.give(most, slice_s)

    def needs_turn(self) -> bool:
        """Tell whether there is something to do after `work_ahead`, without acting on an event."""
        events, turns = self._note_links(), self._turns
        return (
            bool(events or turns.noted or turns.dirty or self._turned or self._host.calls.has_new)
            or bool(self._outgoing.kept)
            or self.output_is_full
        )

    def tick(self, now_s: float) -> float:
        """Do the work that is due: heartbeats, time-outs, calls; return when to call again."""
        # For the engine 0 means "no deadline yet", therefore its clock begins at 1. A deadline in floating point may be
        # a little later than the moment itself, and must count as reached.
        deadline = lib.pn_transport_tick(self._transport, int(now_s * 1000 + 0.001) + 1)
        return min((deadline - 1) / 1000 if deadline else math.inf, self._host.calls.make_due(now_s))

    @property
    def peer_properties(self) -> Mapping[str, Any]:
        """The properties of the peer's `open`."""
        return read_map(lib.pn_connection_remote_properties(self._connection))

    # events

    def dispatch(self, most: int, slice_s: float) -> bool:
        """Turn the engine's events into frames for the links, and let the links work that want to.

        Args:
            most: The most deliveries handed to one link before the next has its turn.
            slice_s: How long links may read, and then how long they may work, in seconds.

        Returns:
            Whether there is more to do at once.
        """
        self.note_events()
        if self._turned:
            self._wake_turned()
        self._incoming.note_turn()
        return self._turns.give(most, slice_s)

    def note_events(self) -> None:
        """Note deliveries and flow for the links' turns; act at once on all other events."""
        while event := self._note_links():
            _HANDLERS[lib.pn_event_type(event)](self, event)
            lib.pn_collector_pop(self._collector)

    def _note_links(self) -> Pointer | None:
        """Note deliveries and flow, up to the first other event; return that event."""
        for link, deliveries, flow in self._note_events(self._collector_address):
            driver = self.links.at(link)
            if driver is not None and (deliveries or driver.flow_is_news()):
                self._turns.note(driver)
                driver.deliveries_noted += deliveries
                driver.flow_noted = driver.flow_noted or flow
        return lib.pn_collector_peek(self._collector) or None

    def _on_connection_open(self, _event: Pointer) -> None:
        self._host.peer_packs = CAPABILITY in read_symbols(
            lib.pn_connection_remote_offered_capabilities(self._connection)
        )
        idle_ms = int(lib.pn_transport_get_remote_idle_timeout(self._transport))
        if 0 < idle_ms < MIN_IDLE_MS:
            text = f"its idle-time-out of {idle_ms} ms is shorter than {MIN_IDLE_MS} ms, the shortest accepted here"
            self._events.on_misuse(Condition.NOT_ALLOWED.value, text)
            return
        product = str(self.peer_properties.get("product", "")) if self._connects else ""
        self._sessions.rests = product.lower() == "rabbitmq"
        self._events.on_open()

    def refuse_peer(self, condition: str, description: str) -> None:
        """Have the connection closed because of a frame, after everything before the frame has been handed over."""
        self.note_events()
        if lib.pn_connection_state(self._connection) & lib.PN_REMOTE_UNINIT:
            # A close would wait for the peer's open. The engine sends its own close at once.
            write_condition(lib.pn_transport_condition(self._transport), condition, description, {}, 0)
            lib.pn_transport_close_tail(self._transport)
            return
        self.links.hand_over_all()
        self._events.on_broken_frame(condition, description)

    def on_window(self, session: Pointer) -> None:
        """Have the next turn wake the ends that send in a session: its window was closed, or opened again."""
        self._turned.add(session)

    def _wake_turned(self) -> None:
        turned, self._turned = self._turned, set()
        for driver in self.links.drivers:
            if driver.sends and lib.pn_link_session(driver.pointer) in turned:
                driver.wake()

    def driver_at(self, pointer: Pointer) -> LinkDriver | None:
        """Return the driver of a link of the engine; None if it has none."""
        return self.links.of(pointer)

    def _on_connection_close(self, _event: Pointer) -> None:
        self.links.hand_over_all()
        condition = read_condition(lib.pn_connection_remote_condition(self._connection))
        self._events.on_close(None if condition is None else error_for(*condition, scope="connection"))

    def _on_transport_error(self, _event: Pointer) -> None:
        self.links.hand_over_all()
        condition = read_condition(lib.pn_transport_condition(self._transport))
        name, description, _ = condition or (Condition.CONNECTION_FRAMING_ERROR.value, "", {})
        self._events.on_failure(name, description)

    def _on_session_open(self, event: Pointer) -> None:
        session = lib.pn_event_session(event)
        if not lib.pn_session_state(session) & lib.PN_LOCAL_UNINIT:
            return
        why_not = self._sessions.accept(session, self._limits.window_bytes or 0)
        if why_not is not None:
            self._events.on_misuse(Condition.RESOURCE_LIMIT_EXCEEDED.value, why_not)
        else:
            self._share_out()

    def _share_out(self) -> None:
        """Let all sessions together keep four times as much as one alone: a peer may begin many and read nothing."""
        most = 4 * BUFFER_BYTES // max(1, self._sessions.peers)
        self._host.session_bytes = min(BUFFER_BYTES, max(most, MIN_SESSION_BYTES))

    def _on_session_close(self, event: Pointer) -> None:
        session = lib.pn_event_session(event)
        condition = read_condition(lib.pn_session_remote_condition(session))
        if condition is None:
            error = SessionEnded(Condition.SESSION_ERRANT_LINK.value, "the peer ended the session")
        else:
            error = SessionEnded(*condition)
        self._sessions.remove(session)
        self._share_out()
        self._outgoing.forget_session(session)
        dead = self.links.remove_session(session)
        self._turns.forget_session(session)
        self._events.on_session_end(dead, error)
        for driver in dead:
            driver.let_go()
        self._host.shut.discard(session)
        if self._sessions.rest(session):
            self._host.calls.add(SESSION_REST_S, self._sessions.close_first)

    def _on_link_open(self, event: Pointer) -> None:
        pointer = lib.pn_event_link(event)
        driver = self.links.of(pointer)
        if driver is None:
            driver = self.links.add(pointer)
            if len(self.links) > self._limits.max_links:
                self._refuse_link(driver)
            else:
                self._events.on_attach(driver, driver.remote_attach())
        else:
            driver.receive(driver.remote_attach())

    def _refuse_link(self, driver: LinkDriver) -> None:
        """Refuse a link above the limit; a peer that attaches more is cut off, because each refusal takes memory."""
        self._links_refused += 1
        text = f"this connection has its {self._limits.max_links} links, and takes no more"
        if self._links_refused > self._limits.max_links:
            self._events.on_misuse(Condition.RESOURCE_LIMIT_EXCEEDED.value, text)
        else:
            driver.bind(refuse(driver, driver.remote_attach(), Condition.RESOURCE_LIMIT_EXCEEDED.value, text))

    def _on_link_detach(self, event: Pointer) -> None:
        pointer = lib.pn_event_link(event)
        driver = self.links.of(pointer)
        if driver is None:
            return
        driver.hand_over_all()
        condition = read_condition(lib.pn_link_remote_condition(pointer))
        closed = lib.pn_event_type(event) == lib.PN_LINK_REMOTE_CLOSE
        driver.receive(Detach(closed) if condition is None else Detach(closed, *condition))


def _free(transport: Pointer, collector: Pointer, connection: Pointer) -> None:
    lib.pn_transport_unbind(transport)
    lib.pn_collector_release(collector)
    lib.pn_decref(transport)
    lib.pn_decref(connection)
    lib.pn_collector_free(collector)


def _do_nothing() -> None:
    pass


_HANDLERS: Final = {
    lib.PN_CONNECTION_REMOTE_OPEN: Engine._on_connection_open,
    lib.PN_CONNECTION_REMOTE_CLOSE: Engine._on_connection_close,
    lib.PN_TRANSPORT_ERROR: Engine._on_transport_error,
    lib.PN_SESSION_REMOTE_OPEN: Engine._on_session_open,
    lib.PN_SESSION_REMOTE_CLOSE: Engine._on_session_close,
    lib.PN_LINK_REMOTE_OPEN: Engine._on_link_open,
    lib.PN_LINK_REMOTE_CLOSE: Engine._on_link_detach,
    lib.PN_LINK_REMOTE_DETACH: Engine._on_link_detach,
}
assert _HANDLERS.keys() == set(TOLD_EVENTS)
