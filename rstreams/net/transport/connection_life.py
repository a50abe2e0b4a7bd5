"""What a connection is at present, and how it ends: the events of the engine, and what its links hear of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import trio

from rstreams._events.table import SESSION_CUT_OFF
from rstreams.errors import (
    AuthenticationFailed,
    Condition,
    ConnectFailed,
    ConnectionLost,
    IdleTimeout,
    PeerClosed,
    RemoteProtocolError,
    RStreamsError,
    SessionEnded,
)
from rstreams.net._proton import Engine, LinkDriver, LinkEnd
from rstreams.net.transport.carrier import ConnectionStatus
from rstreams.protocol.frames import Attach, Lost
from rstreams.protocol.states import State

LOST_AT_ONCE: Final = 64
"""The most links that hear at once that their connection has ended; further links hear it a slice at a time."""


class ConnectionLife:
    """The base of `Pump`: the connection's state, its links that wait for an attach, and its end.

    Attributes:
        peer: The host and port of the peer, for messages; never a password.
        user: The user whose name this side has given to the peer; "" for none.
        peer_capabilities: The capabilities that the peer's `open` offers.
        peer_container: The peer's own name, from its `open`.
        peer_properties: The properties of the peer's `open`, such as its product and version.
        opened: Set when the peer has opened the connection, or when it has ended.
        ended: Set when it has ended: all its links have ended, and the stream is closed.
        error: Why it ended; None while it lives, and if it was closed from this side.
        engine: The connection in the engine.
        returns: Whether another connection is opened when this one is lost, so that its links wait.
        waiting: The ends that wait for another connection, or for another attempt on this one, with their attaches.
    """

    engine: Engine

    def __init__(self, peer: str, idle_timeout_s: float, on_attach: Callable[[LinkDriver, Attach], None]) -> None:
        """Begin; see `Pump`."""
        self.peer = peer
        self.user = ""
        self.peer_capabilities: Sequence[str] = ()
        self.peer_properties: Mapping[str, Any] = {}
        self.peer_container = ""
        self.opened = trio.Event()
        self.ended = trio.Event()
        self.error: RStreamsError | None = None
        self.returns = False
        self.keeps_links = False
        self.waiting: list[tuple[LinkEnd, Attach]] = []
        self.on_attach = on_attach  # the peer attaches a link: it binds one to its driver, or refuses it
        self._idle_timeout_s = idle_timeout_s
        self._attaching: list[tuple[LinkEnd, Attach]] = []
        self._open = False
        self._closing = False  # this side sends close, or has sent it
        self._over = False  # nothing more will come
        self._cut_off = False  # bytes that come are not read any more

    @abstractmethod
    def on_wake(self) -> None:
        """Have turns taken soon."""

    @property
    def status(self) -> ConnectionStatus:
        """The state of the connection."""
        return ConnectionStatus("closed" if self._over or self._closing else "connected", self.peer, self.error)

    def attach(self, end: LinkEnd, frame: Attach) -> None:
        """Attach a new link for `end` in the pump's next turn; if the connection has ended, it hears `Lost` at once."""
        if self._over or self._closing:
            self._tell_lost(self._lost(self.error or self._end), [(end, frame)])
        else:
            self._attaching.append((end, frame))
            self.on_wake()

    def attach_later(self, end: LinkEnd, frame: Attach, error: RStreamsError) -> None:  # noqa: ARG002 - a carrier's
        """Tell `end` the error at once: only a `KeptConnection` attaches again."""
        end.on_lost(Lost(error))

    # events of the engine

    def on_open(self) -> None:
        """The peer has opened the connection."""
        self._open = True
        self.peer_capabilities = self.engine.peer_capabilities
        self.peer_properties = self.engine.peer_properties
        self.peer_container = self.engine.peer_container
        self.opened.set()

    def on_session_end(self, drivers: Sequence[LinkDriver], error: SessionEnded) -> None:
        """The peer ended a session; if it did that to refuse one link, the other links in it are attached again."""
        error.place = self.peer
        links = [(driver.link, driver.origin) for driver in drivers if driver.link is not None]
        for_another = any(link.state is State.ATTACH_SENT for link, _ in links) and not self._closing
        for link, origin in links:
            returns = for_another and origin is not None and link.state is State.ATTACHED
            link.lose(Lost(error, returns))
            if returns and origin is not None and origin[0].wants_link:
                self.attach(*origin)

    def on_close(self, error: PeerClosed | None) -> None:
        """The peer has closed the connection: answer, and end every link."""
        self._over = True
        if error is not None:
            error.place = self.peer
        if not self._closing:
            self._fail(error or ConnectionLost(f"{self.peer} closed the connection"))
            self.engine.close()

    def on_failure(self, condition: str, description: str) -> None:
        """The engine gave up on the connection: tell the links, with an error that says what it means."""
        self._over = True
        silence = silence_of(self.peer, self._idle_timeout_s)
        if condition == Condition.UNAUTHORIZED_ACCESS:
            self._fail(_refusal(self.peer, description, self.engine.sasl_outcome))
        else:
            self._fail(_failure(self.peer, condition, description, was_open=self._open, silence=silence))

    def on_misuse(self, condition: str, description: str) -> None:
        """The peer broke the protocol: close the connection without waiting for an answer."""
        self._cut(RemoteProtocolError(condition, f"{self.peer} was cut off: {description}"), condition, description)

    def on_broken_session(self, drivers: Sequence[LinkDriver], condition: str, description: str) -> None:
        """The peer broke the protocol in a session: every link in it ends."""
        error = RemoteProtocolError(condition, f"{self.peer} was cut off from a session: {description}")
        SESSION_CUT_OFF.tell(self.peer.rpartition(":")[0], why=error, peer=self.peer)
        for driver in drivers:
            if driver.link is not None:
                driver.link.lose(Lost(error))

    def _cut(self, error: RStreamsError, condition: str, description: str) -> None:
        if not self._over:
            self._over = self._cut_off = True
            self._fail(error)
            self.engine.close(condition, description)

    @property
    def _end(self) -> RStreamsError:
        """The error of a connection that ended without an error: closed from this side, or the peer hung up."""
        return _end_of(self.peer, was_open=self._open, from_here=self._closing or not self._over)

    def _fail(self, error: RStreamsError) -> None:
        """End the connection: its links hear of it, and `run` ends when the last frames have been sent."""
        if not self._closing:
            self.error = self.error or error
        lost = self._lost(self.error or error)
        origins = [driver.origin for driver in self.engine.links.drivers if driver.lives and driver.origin is not None]
        self.engine.links.lose(lost.error, returns=lost.returns, most=None if lost.returns else LOST_AT_ONCE)
        self._keep_waiting(lost, origins)
        attaching, self._attaching = self._attaching, []
        self._tell_lost(lost, attaching)
        self.opened.set()
        self.on_wake()

    def _tell_lost(self, lost: Lost, ends: Sequence[tuple[LinkEnd, Attach]]) -> None:
        """Tell ends that have no link yet that the connection is lost."""
        for end, _ in ends:
            end.on_lost(Lost(lost.error, lost.returns))
        self._keep_waiting(lost, ends)

    def _keep_waiting(self, lost: Lost, ends: Sequence[tuple[LinkEnd, Attach]]) -> None:
        if lost.returns:
            self.waiting += [(end, frame) for end, frame in ends if end.wants_link]

    def _lost(self, error: RStreamsError) -> Lost:
        return Lost(error, returns=self.returns and not self._closing)


_TROUBLE: Final = {
    2: ("sys", "it has an error of its own"),
    3: ("sys-perm", "it has an error of its own, which somebody must mend there"),
    4: ("sys-temp", "it has passing trouble, try again later"),
}


def _failure(peer: str, condition: str, description: str, *, was_open: bool, silence: IdleTimeout) -> RStreamsError:
    """Return the error for a connection that the engine has given up.

    Args:
        peer: The host and port of the peer.
        condition: The engine's condition.
        description: The engine's text.
        was_open: Whether the peer had opened the connection.
        silence: The error for a peer that was silent for too long.
    """
    if condition == Condition.RESOURCE_LIMIT_EXCEEDED:
        return silence
    if was_open and "connection aborted" in description:
        return ConnectionLost(f"{peer} hung up")
    if was_open:
        return RemoteProtocolError(condition, f"{peer} was cut off: {description}")
    return ConnectFailed(f"{peer} does not speak AMQP 1.0, or hung up ({description})")


def _refusal(peer: str, description: str, outcome: int) -> RStreamsError:
    """Return the error for a peer with which SASL has failed.

    Args:
        peer: The host and port of the peer.
        description: The engine's text, with the mechanism.
        outcome: The code that the peer has sent; -1 for none.

    Spec: AMQP 5.3.3.6. Only "auth" is about the credentials; "sys-temp" is likely to pass, and is tried again as other
        failures to connect.
    """
    trouble = _TROUBLE.get(outcome)
    if trouble is None or "[mech=none]" in description:  # the engine's own code: the peer has not been asked
        return AuthenticationFailed(f"{peer} refused the credentials ({description})")
    name, what = trouble
    text = f"{peer} cannot check the credentials: {what} (SASL outcome {name}, {outcome})"
    return ConnectFailed(text) if name == "sys-temp" else AuthenticationFailed(text)


def _end_of(peer: str, *, was_open: bool, from_here: bool) -> RStreamsError:
    """Return the error of a connection that ended without an error: closed from this side, or the peer hung up."""
    if from_here:
        return ConnectionLost(f"the connection to {peer} was closed from this side")
    if was_open:
        return ConnectionLost(f"{peer} hung up")
    return ConnectFailed(f"{peer} hung up before the connection was open")


def silence_of(peer: str, idle_timeout_s: float) -> IdleTimeout:
    """Return the error for a peer of which nothing has come for longer than the idle time-out."""
    text = f"{peer} was silent for longer than idle_timeout_s={idle_timeout_s:g}"
    return IdleTimeout(f"{text}; or this program's event loop stood still, as it does while a function in it blocks")
