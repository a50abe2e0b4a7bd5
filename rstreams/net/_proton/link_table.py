"""The links of one connection: made, found by the engine's pointers, and freed."""

from __future__ import annotations

from typing import Final

import cproton
from cproton_ffi import lib

from rstreams.errors import RStreamsError
from rstreams.net._proton.host_connection import HostConnection
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.link_end import LinkEnd
from rstreams.net._proton.loops import address_of
from rstreams.net._proton.pointers import Pointer
from rstreams.net._proton.receiving_driver import ReceivingDriver
from rstreams.net._proton.sending_driver import SendingDriver
from rstreams.net._proton.sessions import MAX_LINKS, Sessions
from rstreams.protocol.frames import Attach, Lost, Role
from rstreams.protocol.link import Link
from rstreams.protocol.states import State

HEAVY: Final = 4096
"""The most deliveries that are freed at once in the thread of the trio run: that takes some 2 ms."""

MAX_FREE_LINKS: Final = 64
"""The most links that are freed at once in that thread."""


class LinkTable:
    """The links of one connection.

    Attributes:
        at: Returns the driver of the link at an address; None if it has none.

    Context: Only the task that owns the connection.
    """

    def __init__(self, host: HostConnection, sessions: Sessions) -> None:
        """Have none."""
        self._host = host
        self._sessions = sessions
        self._drivers: dict[int, LinkDriver] = {}  # by their addresses
        self.at = self._drivers.get
        self._in_session: dict[Pointer, int] = {}  # how many of them; see `Sessions.one_for_link`

    def __len__(self) -> int:
        """Return how many links there are, those included that have ended and are not freed yet."""
        return len(self._drivers)

    @property
    def drivers(self) -> list[LinkDriver]:
        """The drivers of all links."""
        return list(self._drivers.values())

    @property
    def alive(self) -> list[Link]:
        """The links that their drivers carry."""
        return [driver.link for driver in self._drivers.values() if driver.link is not None]

    def of(self, pointer: Pointer) -> LinkDriver | None:
        """Return the driver of a link of the engine; None if it has none."""
        return self.at(address_of(pointer))

    # how they come

    def attach(self, end: LinkEnd, frame: Attach) -> None:
        """Attach a new link of this side for `end`."""
        paired, intake = frame.properties.get("paired") is True, end.intake
        window_bytes = 0 if intake is None else intake.window_bytes
        driver = self.new(frame.name, frame.role, paired=paired, window_bytes=window_bytes)
        driver.origin = end, frame
        link = end.bind(frame.name, driver)
        driver.bind(link, intake)
        link.send(end.next_attach(frame))

    def new(self, name: str, role: Role, *, paired: bool = False, window_bytes: int = 0) -> LinkDriver:
        """Return the driver of a new link of this side, not yet attached.

        Args:
            name: The name of the link.
            role: Which end this side is.
            paired: Whether it lives in the session of the link that has its name and the other role.
            window_bytes: The bound of the link, in bytes; 0 for none. A link with a bound has a session to itself,
                whose window stops the peer; unless the peer allows no more sessions.
        """
        make = cproton.pn_sender if role is Role.SENDER else cproton.pn_receiver
        session = (self._session_of(name) if paired else None) or self._sessions.one_for_link(
            self._in_session, window_bytes
        )
        own = self._host.names.ask(session, name, sends=role is Role.SENDER)
        driver = self.add(make(session, own))
        if window_bytes > 0 and isinstance(driver, ReceivingDriver) and driver.is_windowed:
            driver.owns_session = True
            self._in_session[session] += MAX_LINKS - 1
        return driver

    def add(self, pointer: Pointer) -> LinkDriver:
        """Return the driver of a new link; it tells the peer of the largest message that this side takes (2.7.3)."""
        limit = self._host.limits.max_message_bytes
        if limit is not None:
            lib.pn_link_set_max_message_size(pointer, limit)
        make = SendingDriver if lib.pn_link_is_sender(pointer) else ReceivingDriver
        driver = make(self._host, pointer)
        self._drivers[driver.address] = driver
        session = lib.pn_link_session(pointer)
        self._in_session[session] = self._in_session.get(session, 0) + 1
        return driver

    def _remove(self, driver: LinkDriver) -> None:
        """Take out a link that is gone."""
        del self._drivers[driver.address]
        session = lib.pn_link_session(driver.pointer)
        self._in_session[session] -= MAX_LINKS if driver.owns_session else 1
        if not self._in_session[session]:
            del self._in_session[session]
        self._host.forget(driver)

    def _session_of(self, name: str) -> Pointer | None:
        for driver in self._drivers.values():
            if driver.link is not None and driver.link.name == name:
                return Pointer(lib.pn_link_session(driver.pointer))
        return None

    # how they go

    def hand_over_all(self) -> None:
        """Hand over everything that has come, because the end of the connection comes next."""
        for driver in self.drivers:
            driver.hand_over_all()

    def lose(self, error: RStreamsError, *, returns: bool = False, most: int | None = None) -> bool:
        """Tell links that the connection is gone, and whether it returns; tell whether there are more of them.

        Args:
            error: The error that ended it.
            returns: Whether there will be another one.
            most: How many links to tell; None: all.
        """
        links = [link for link in self.alive if link.state is not State.DETACHED]
        for link in links[:most]:
            link.lose(Lost(error, returns))
        return most is not None and len(links) > most

    def remove_session(self, session: Pointer) -> list[LinkDriver]:
        """Return the drivers of the links in a session that the peer has ended; none of them has turns any more."""
        dead = [driver for driver in self.drivers if lib.pn_link_session(driver.pointer) == session]
        for driver in dead:
            driver.hand_over_all()
        for driver in dead:
            self._remove(driver)
        return dead

    def free_ended(self) -> None:
        """Free the links that have ended on both sides, and whose last frame has gone."""
        turns = self._host.turns
        for ended in turns.take_ended():
            driver = self.of(ended.pointer)
            if driver is None or driver is not ended or _is_alive_there(driver):
                continue
            if driver.settle_some(HEAVY):
                turns.end_later(driver)
                continue
            self._remove(driver)
            driver.let_go()
            lib.pn_link_free(driver.pointer)

    @property
    def are_heavy(self) -> bool:
        """Whether it takes long to give the engine's memory for them back."""
        unsettled = sum(int(lib.pn_link_unsettled(driver.pointer)) for driver in self.drivers)
        return unsettled + HEAVY // MAX_FREE_LINKS * len(self._drivers) > HEAVY

    def let_go(self) -> None:
        """Forget all links, and the connection."""
        for driver in self._drivers.values():
            driver.let_go()
        self._drivers.clear()
        self._in_session.clear()
        del self._host


def _is_alive_there(driver: LinkDriver) -> bool:
    """Tell whether the peer has not ended the link yet; the driver throws away further deliveries of the peer.

    For the engine, a link that the peer has detached and not closed goes on. With this side's detach it is over.
    """
    is_active = bool(lib.pn_link_state(driver.pointer) & lib.PN_REMOTE_ACTIVE)
    return not driver.heard_detach and (is_active or driver.unanswered)
