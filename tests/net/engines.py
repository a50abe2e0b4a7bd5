"""Two engines in memory, and the bytes between them moved by hand: a connection without sockets, tasks or a clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from cproton_ffi import lib

from rstreams.errors import ConnectionLost, PeerClosed, RemoteProtocolError, SessionEnded
from rstreams.net._proton import Engine, LinkDriver, LinkEnd
from rstreams.net.options.limits import ConnectionLimits
from rstreams.net.transport.pump import RUN
from rstreams.protocol.frames import Attach, Lost
from rstreams.protocol.refusal import refuse
from tests.net.wire import Handles, read_frame


class Side:
    """One end of the connection."""

    def __init__(
        self,
        name: str,
        *,
        server: bool,
        max_frame_bytes: int,
        max_message_bytes: int | None = None,
        max_links: int = 2**31 - 1,
        max_sessions: int = 65536,
        goes_ahead: bool = False,
    ) -> None:
        self._goes_ahead = goes_ahead
        self._is_idle = True
        self._sent_ahead = b""
        self.engine = Engine(
            self,
            container_id=name,
            limits=ConnectionLimits(
                max_frame_bytes=max_frame_bytes,
                max_message_bytes=max_message_bytes,
                max_links=max_links,
                max_sessions=max_sessions,
            ),
        )
        if server:
            self.engine.accept()
        else:  # a client without SASL: the server's part of it is not the engine's
            lib.pn_transport_bind(self.engine._transport, self.engine._connection)
            lib.pn_connection_open(self.engine._connection)
        self.opened = False
        self.closed: list[PeerClosed | None] = []
        self.failures: list[tuple[str, str]] = []
        self.answer: Callable[[LinkDriver, Attach], None] = refuse_all

    def output(self) -> bytes:
        """Do what there is to do, and return what is to be said."""
        self.engine.dispatch(RUN, math.inf)
        return bytes(self.engine.output())

    def take_turn(self) -> bool:
        """Let the links read and work; tell whether there is more for them to do."""
        self._is_idle = False
        more = self.engine.dispatch(RUN, math.inf)
        self._is_idle = True
        return more

    def now(self) -> float:
        return 0.0

    def on_wake(self) -> None: ...
    def on_item(self) -> None: ...

    def begin_ahead(self) -> bool:
        return self._goes_ahead and self._is_idle

    def end_ahead(self) -> None:
        self._sent_ahead += bytes(self.engine.output())

    def take_sent_ahead(self) -> bytes:
        """Return what was sent inside of a publisher's signal."""
        sent, self._sent_ahead = self._sent_ahead, b""
        return sent

    def on_open(self) -> None:
        self.opened = True

    def on_attach(self, driver: LinkDriver, frame: Attach) -> None:
        self.answer(driver, frame)

    def on_session_end(self, drivers: Sequence[LinkDriver], error: SessionEnded) -> None:
        for driver in drivers:
            assert driver.link is not None
            driver.link.lose(Lost(error))

    def on_close(self, error: PeerClosed | None) -> None:
        self.closed.append(error)

    def on_failure(self, condition: str, description: str) -> None:
        self.failures.append((condition, description))

    def on_misuse(self, condition: str, description: str) -> None:
        self.failures.append((condition, description))

    def on_broken_session(self, drivers: Sequence[LinkDriver], condition: str, description: str) -> None:
        self.failures.append((condition, description))
        for driver in drivers:
            if driver.link is not None:
                driver.link.lose(Lost(RemoteProtocolError(condition, description)))

    def attach(self, end: LinkEnd, frame: Attach) -> LinkDriver:
        """Attach a link of this side, as the pump does."""
        driver = self.engine.links.new(frame.name, frame.role)
        link = end.bind(frame.name, driver)
        driver.bind(link)
        link.send(frame)
        return driver


def refuse_all(_driver: LinkDriver, frame: Attach) -> None:
    raise AssertionError(frame)


class Said:
    """Reads all that an engine says, and checks the handles in it."""

    def __init__(self) -> None:
        self._rest = b""
        self._handles = Handles()

    def by(self, side: Side) -> bytes:
        """Return what a side says now."""
        data = side.take_sent_ahead() + bytes(side.engine.output())
        self._rest += data
        while len(rest := self._rest) >= 8:
            size = 8 if rest.startswith(b"AMQP") else int.from_bytes(rest[:4])
            if len(rest) < size:
                break
            self._rest = rest[size:]
            came = None if rest.startswith(b"AMQP") else read_frame(rest[:size])
            if came is not None:
                self._handles.check(came)
        return data


class Engines:
    """Both sides, opened."""

    def __init__(self, *, max_frame_bytes: int = 65536, go_ahead: bool = False) -> None:
        self.one = Side("one", server=False, max_frame_bytes=max_frame_bytes, goes_ahead=go_ahead)
        self.other = Side("other", server=True, max_frame_bytes=max_frame_bytes, goes_ahead=go_ahead)
        self._said = {self.one: Said(), self.other: Said()}
        self.run()
        assert self.one.opened
        assert self.other.opened

    def run(self) -> None:
        """Let everything happen that can."""
        moved = True
        while moved:
            moved = False
            for side, peer in ((self.one, self.other), (self.other, self.one)):
                while side.take_turn():
                    moved = True
                while data := self.said_by(side):
                    peer.engine.feed(data)
                    moved = True
                moved = moved or side.engine.has_work()

    def said_by(self, side: Side) -> bytes:
        """Return what a side says now, with its handles checked."""
        return self._said[side].by(side)

    def free(self) -> None:
        """Give the memory of both back."""
        self.one.engine.free()
        self.other.engine.free()


class Alone:
    """One server's engine that is fed by hand, with anything. Its links are attached to nothing."""

    def __init__(self) -> None:
        self.side = Side("alone", server=True, max_frame_bytes=65536)
        self.side.answer = lambda driver, frame: driver.bind(refuse(driver, frame, "amqp:not-found", "nothing is here"))

    def feed(self, data: bytes) -> None:
        engine = self.side.engine
        engine.feed(data)
        while engine.dispatch(RUN, math.inf) or bytes(engine.output()) or engine.has_work():
            pass

    def free(self) -> None:
        self.side.engine.links.lose(ConnectionLost("the end"))
        self.side.engine.free()
