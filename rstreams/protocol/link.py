"""One AMQP link: its role, its state, and the check of every frame against the table in `states`.

The link itself decides nothing. It checks the frames of its endpoint and gives them to the driver. It checks the frames
of the driver and gives them to the endpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rstreams.errors import Condition, LocalProtocolError, RemoteProtocolError
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import (
    Attach,
    Detach,
    Disposition,
    Flow,
    Frame,
    Lost,
    Role,
    Transfer,
)
from rstreams.protocol.states import TRANSITIONS, LinkEvent, State


class Endpoint(Protocol):
    """The calls that a link makes to both kinds of end."""

    @property
    def place(self) -> Callable[[], str]:
        """Returns the peer and its link as text, for messages; empty if the end does not know."""
        ...

    def on_attach(self, frame: Attach) -> None:
        """The peer attached, or answered our attach; if `frame.refuses`, its detach is on the way."""
        ...

    def on_flow(self, frame: Flow) -> None:
        """The peer sent a `Flow` about credit."""
        ...

    def on_detach(self, frame: Detach) -> None:
        """The peer detached."""
        ...

    def on_lost(self, frame: Lost) -> None:
        """The session or connection of the link is lost."""
        ...

    def work(self) -> None:
        """Do all that has become possible: called after a wake-up and after every run of received frames."""
        ...


_SEND_EVENTS: dict[type[Frame], LinkEvent] = {
    Flow: LinkEvent.SEND_FLOW,
    Transfer: LinkEvent.SEND_TRANSFER,
    Disposition: LinkEvent.SEND_DISPOSITION,
    Detach: LinkEvent.SEND_DETACH,
}

_RECEIVE_EVENTS: dict[type[Frame], LinkEvent] = {
    Flow: LinkEvent.RECEIVE_FLOW,
    Detach: LinkEvent.RECEIVE_DETACH,
    Transfer: LinkEvent.RECEIVE_TRANSFER,
    Disposition: LinkEvent.RECEIVE_DISPOSITION,
}

_WHEN: dict[State, str] = {
    State.UNATTACHED: "before the link was attached",
    State.ATTACH_SENT: "before the attach was answered",
    State.ATTACH_RECEIVED: "before the attach was answered",
    State.ATTACHED: "while the link was attached",
    State.REFUSED: "on a link that was refused",
    State.REFUSING: "on a link that was refused",
    State.DETACH_SENT: "behind the detach",
    State.DETACH_RECEIVED: "behind the detach",
    State.DETACHED: "on a link that has ended",
}

_ONLY_FROM = {Transfer: Role.SENDER, Disposition: Role.RECEIVER}


class Link:
    """One end of a link between two containers.

    Attributes:
        name: The link's name, unique between the two containers and the role.
        role: The end that this is.
        driver: The driver that carries the link and has its numbers.
        state: The present state of the link; see `states`.
        work: Lets the endpoint do all that has become possible.
    """

    __slots__ = ("_endpoint", "_on_deliveries", "driver", "name", "role", "state", "work")

    def __init__(
        self,
        name: str,
        role: Role,
        driver: Driver,
        endpoint: Endpoint,
        on_deliveries: Callable[[Any], None] | None = None,
    ) -> None:
        """Make an unattached link.

        Args:
            name: See the attribute.
            role: See the attribute.
            driver: See the attribute.
            endpoint: Hears the frames of the peer.
            on_deliveries: Hears of deliveries: a receiver the transfers, a sender the dispositions; None: ignores them.
        """
        self.name = name
        self.role = role
        self.state = State.UNATTACHED
        self.driver = driver
        self.work = endpoint.work
        self._endpoint = endpoint
        self._on_deliveries = on_deliveries

    @property
    def place(self) -> str:
        """The peer and its link as text, for messages; empty if they are not known."""
        return self._endpoint.place()

    def send(self, frame: Frame) -> None:
        """Send `frame`, if the state allows it.

        Errors: `LocalProtocolError` if it does not; then nothing is sent.
        """
        if isinstance(frame, Attach):
            refuses = frame.refuses and self.state is State.ATTACH_RECEIVED
            event = LinkEvent.SEND_REFUSAL if refuses else LinkEvent.SEND_ATTACH
        else:
            event = _SEND_EVENTS[type(frame)]
        after = TRANSITIONS[self.state].get(event)
        if after is None or _ONLY_FROM.get(type(frame), self.role) is not self.role:
            msg = f"link {self.name!r}: this side cannot send {self._why_not(frame, self.role)}"
            raise LocalProtocolError(Condition.ILLEGAL_STATE.value, msg)
        self.state = after
        self.driver.send(frame)

    def receive(self, frame: Frame) -> None:
        """Act on a frame of the peer.

        Errors: `RemoteProtocolError` if the peer may not send it now; the driver closes the link with the condition.
        """
        if isinstance(frame, Attach):
            refused = frame.refuses and self.state is not State.UNATTACHED
            event = LinkEvent.RECEIVE_REFUSAL if refused else LinkEvent.RECEIVE_ATTACH
        else:
            event = _RECEIVE_EVENTS[type(frame)]
        after = TRANSITIONS[self.state].get(event)
        if after is None or _ONLY_FROM.get(type(frame)) is self.role:
            other = Role.SENDER if self.role is Role.RECEIVER else Role.RECEIVER
            msg = f"link {self.name!r}: the peer sent {self._why_not(frame, other)}"
            raise RemoteProtocolError(Condition.ILLEGAL_STATE.value, msg)
        self.state = after
        match frame:
            case Flow():
                self._endpoint.on_flow(frame)
            case Attach():
                self._endpoint.on_attach(frame)
            case Detach():
                self._endpoint.on_detach(frame)
            case _:
                if self._on_deliveries is not None:
                    self._on_deliveries(frame)

    def _why_not(self, frame: Frame, role: Role) -> str:
        """Return which frame it is, and why the side with this role may not send it."""
        what = f"a {type(frame).__name__.lower()}".replace("a attach", "an attach")
        if _ONLY_FROM.get(type(frame), role) is not role:
            return f"{what}, although it is the {role.value} of the link"
        return f"{what} {_WHEN[self.state]}"

    def lose(self, lost: Lost) -> None:
        """Tell the endpoint that the link is lost; only the first time, and not after both sides detached."""
        if self.state is not State.DETACHED:
            self.state = State.DETACHED
            self._endpoint.on_lost(lost)
