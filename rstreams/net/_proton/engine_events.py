"""The events of a connection in the engine, turned into frames for its links and calls of its owner."""

from __future__ import annotations

from typing import Final

from cproton_ffi import lib

from rstreams.errors import Condition, SessionEnded, error_for
from rstreams.net._proton.conditions import read_condition, write_condition
from rstreams.net._proton.data import read_map, read_symbols
from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.link_table import LinkTable
from rstreams.net._proton.loops import TOLD_EVENTS, address_of
from rstreams.net._proton.outgoing_frames import BUFFER_BYTES
from rstreams.net._proton.owner import Owner
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.sessions import SESSION_REST_S, Sessions
from rstreams.protocol.frames import EXPLAINS, Detach
from rstreams.protocol.packing import CAPABILITY
from rstreams.protocol.refusal import refuse

MIN_SESSION_BYTES: Final = 8 * 1024
"""The bytes that may wait in a session, however many sessions there are."""

MIN_IDLE_MS: Final = 100
"""The shortest idle-time-out of a peer that this side accepts, in milliseconds. A heartbeat is due at half of it.

That is ten slices of this side, and twenty heartbeats a second, which cost almost nothing.
"""


class EngineEvents:
    """The events of one connection.

    Attributes:
        links: The links of the connection.
        sessions: Its sessions.
        turned: Sessions whose window was closed or opened again since the last turn.
        connects: Whether this side is the client.

    Context: Only the task that owns the connection.
    """

    def __init__(self, owner: Owner, host: HostConnection, sessions: Sessions, links: LinkTable) -> None:
        """Have none."""
        self.links = links
        self.sessions = sessions
        self.turned: set[Pointer] = set()
        self.connects = False
        self._owner = owner
        self._host = host
        self._turns = host.turns
        self._connection = host.connection
        self.collector = lib.pn_collector()
        lib.pn_connection_collect(self._connection, self.collector)
        self._address = address_of(self.collector)
        self._take = host.loops.note_events
        self._refused = 0  # links above the limit

    def note(self, *, acts: bool = True) -> bool:
        """Note deliveries and flow for the links' turns, and act at once on all other events.

        With `acts=False` the first other event stays, and those behind it; tell whether there is one.
        """
        driver_at = self.links.at
        while True:
            for link, deliveries, flow in self._take(self._address):
                driver = driver_at(link)
                if driver is not None and (deliveries or driver.flow_is_news()):
                    self._turns.note(driver)
                    driver.deliveries_noted += deliveries
                    driver.flow_noted = driver.flow_noted or flow
            event = lib.pn_collector_peek(self.collector)
            if not event or not acts:
                return bool(event)
            _HANDLERS[lib.pn_event_type(event)](self, event)
            lib.pn_collector_pop(self.collector)

    def note_window(self, session: Pointer, window: int) -> None:
        """Note the window of a session; if it is closed now, or open again, the ends that send in it are to look."""
        if self._host.shut.note(session, window):
            self.turned.add(session)

    def wake_turned(self) -> None:
        """Wake the ends that send in sessions whose window was closed, or opened again."""
        turned, self.turned = self.turned, set()
        for driver in self.links.drivers:
            if driver.sends and lib.pn_link_session(driver.pointer) in turned:
                driver.wake()

    def refuse_peer(self, condition: str, description: str) -> None:
        """Have the connection closed because of a frame, after everything before the frame has been handed over."""
        self.note()
        if lib.pn_connection_state(self._connection) & lib.PN_REMOTE_UNINIT:
            # A close would wait for the peer's open. The engine sends its own close at once.
            transport = self._host.transport
            write_condition(lib.pn_transport_condition(transport), condition, description, {}, 0)
            lib.pn_transport_close_tail(transport)
            return
        self.links.hand_over_all()
        self._owner.on_misuse(condition, description)

    def break_session(self, session: Pointer, condition: str, description: str) -> None:
        """End a session because of a frame, after everything before the frame has been handed over (2.8.17)."""
        self.note()
        dead = self.links.remove_session(session)
        self._host.forget_session(session)
        where = lib.pn_session_condition(session)
        write_condition(where, condition, description, {}, self._host.peer_frame_bytes)
        self.sessions.give_up(session)
        self._share_out()
        self._owner.on_broken_session(dead, condition, description)
        for driver in dead:
            driver.let_go()

    # the connection

    def _on_connection_open(self, _event: Pointer) -> None:
        capabilities = read_symbols(lib.pn_connection_remote_offered_capabilities(self._connection))
        self._host.peer_packs = CAPABILITY in capabilities
        self._host.peer_explains = EXPLAINS in capabilities
        idle_ms = int(lib.pn_transport_get_remote_idle_timeout(self._host.transport))
        if 0 < idle_ms < MIN_IDLE_MS:
            text = f"its idle-time-out of {idle_ms} ms is shorter than {MIN_IDLE_MS} ms, the shortest accepted here"
            self._owner.on_misuse(Condition.NOT_ALLOWED.value, text)
            return
        if self.connects:
            product = str(read_map(lib.pn_connection_remote_properties(self._connection)).get("product", ""))
            self.sessions.rests = product.lower() == "rabbitmq"
        self._owner.on_open()

    def _on_connection_close(self, _event: Pointer) -> None:
        self.links.hand_over_all()
        condition = read_condition(lib.pn_connection_remote_condition(self._connection))
        self._owner.on_close(None if condition is None else error_for(*condition, scope="connection"))

    def _on_transport_error(self, _event: Pointer) -> None:
        self.links.hand_over_all()
        condition = read_condition(lib.pn_transport_condition(self._host.transport))
        name, description, _ = condition or (Condition.CONNECTION_FRAMING_ERROR.value, "", {})
        self._owner.on_failure(name, description)

    # sessions

    def _on_session_open(self, event: Pointer) -> None:
        session = lib.pn_event_session(event)
        if not lib.pn_session_state(session) & lib.PN_LOCAL_UNINIT:
            return
        why_not = self.sessions.accept(session, self._host.limits.window_bytes or 0)
        if why_not is not None:
            self._owner.on_misuse(Condition.RESOURCE_LIMIT_EXCEEDED.value, why_not)
        else:
            self._share_out()

    def _share_out(self) -> None:
        """Let all sessions together keep four times as much as one alone: a peer may begin many and read nothing."""
        most = 4 * BUFFER_BYTES // max(1, self.sessions.peers)
        self._host.session_bytes = min(BUFFER_BYTES, max(most, MIN_SESSION_BYTES))

    def _on_session_close(self, event: Pointer) -> None:
        host, session = self._host, lib.pn_event_session(event)
        condition = read_condition(lib.pn_session_remote_condition(session))
        if condition is None:
            error = SessionEnded(Condition.SESSION_ERRANT_LINK.value, "the peer ended the session")
        else:
            error = SessionEnded(*condition)
        self.sessions.remove(session)
        self._share_out()
        dead = self.links.remove_session(session)
        host.forget_session(session)
        self._owner.on_session_end(dead, error)
        for driver in dead:
            driver.let_go()
        if self.sessions.rest(session):
            host.calls.add(SESSION_REST_S, self.sessions.close_first)

    # links

    def _on_link_open(self, event: Pointer) -> None:
        pointer = lib.pn_event_link(event)
        driver = self.links.of(pointer)
        if driver is not None:
            driver.receive(driver.remote_attach())
            return
        driver = self.links.add(pointer)
        if len(self.links) > self._host.limits.max_links:
            self._refuse_link(driver)
        else:
            self._owner.on_attach(driver, driver.remote_attach())

    def _refuse_link(self, driver: LinkDriver) -> None:
        """Refuse a link above the limit; a peer that attaches more is cut off, because each refusal takes memory."""
        self._refused += 1
        most = self._host.limits.max_links
        text = f"this connection has its {most} links, and takes no more"
        if self._refused > most:
            self._owner.on_misuse(Condition.RESOURCE_LIMIT_EXCEEDED.value, text)
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


_HANDLERS: Final = {
    lib.PN_CONNECTION_REMOTE_OPEN: EngineEvents._on_connection_open,
    lib.PN_CONNECTION_REMOTE_CLOSE: EngineEvents._on_connection_close,
    lib.PN_TRANSPORT_ERROR: EngineEvents._on_transport_error,
    lib.PN_SESSION_REMOTE_OPEN: EngineEvents._on_session_open,
    lib.PN_SESSION_REMOTE_CLOSE: EngineEvents._on_session_close,
    lib.PN_LINK_REMOTE_OPEN: EngineEvents._on_link_open,
    lib.PN_LINK_REMOTE_CLOSE: EngineEvents._on_link_detach,
    lib.PN_LINK_REMOTE_DETACH: EngineEvents._on_link_detach,
}
assert _HANDLERS.keys() == set(TOLD_EVENTS)
