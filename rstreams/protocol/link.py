"""One AMQP link: its role, its state, and the check of every frame against the table in `states`.

The link itself decides nothing. It checks the frames of its endpoint and gives them to the driver. It checks the frames
of the driver and gives them to the endpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

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


class ReceivingEndpoint(Endpoint, Protocol):
    """The receiving end of a link."""

    def on_transfer(self, frame: Transfer) -> None:
        """A run of deliveries came."""
        ...


class SendingEndpoint(Endpoint, Protocol):
    """The sending end of a link."""

    def on_disposition(self, frame: Disposition) -> None:
        """A run of deliveries got its outcome."""
        ...


_SEND_EVENTS: dict[type[Frame], LinkEvent] = {
    Flow: LinkEvent.SEND_FLOW,
    Transfer: LinkEvent.SEND_TRANSFER,
    Disposition: LinkEvent.SEND_DISPOSITION,
    Detach: LinkEvent.SEND_DETACH,
}

_RECEIVE_EVENTS: dict[type[Frame], LinkEvent] = {
    Transfer: LinkEvent.RECEIVE_TRANSFER,
    Disposition: LinkEvent.RECEIVE_DISPOSITION,
}

_ONLY_FROM = {Transfer: Role.SENDER, Disposition: Role.RECEIVER}


class Link:
    """One end of a link between two containers; this base ignores the peer's deliveries and outcomes.

    Attributes:
        name: The link's name, unique between the two containers and the role.
        role: The end that this is.
        driver: The driver that carries the link and has its numbers.
        state: The present state of the link; see `states`.
    """

    __slots__ = ("_endpoint", "driver", "name", "role", "state")

    def __init__(self, name: str, role: Role, driver: Driver, endpoint: Endpoint) -> None:
        """Make an unattached link."""
        self.name = name
        self.role = role
        self.state = State.UNATTACHED
        self.driver = driver
        self._endpoint = endpoint

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
            msg = f"link {self.name!r}: a {self.role.value} in state {self.state.name} cannot {event.name}"
            raise LocalProtocolError(Condition.ILLEGAL_STATE.value, msg)
        self.state = after
        self.driver.send(frame)

    def receive(self, frame: Frame) -> None:
        """Act on a frame of the peer.

        Errors: `RemoteProtocolError` if the peer may not send it now; the driver closes the link with the condition.
        """
        endpoint = self._endpoint
        match frame:
            case Flow():
                self._enter(LinkEvent.RECEIVE_FLOW, frame)
                endpoint.on_flow(frame)
            case Attach():
                refused = frame.refuses and self.state is not State.UNATTACHED
                self._enter(LinkEvent.RECEIVE_REFUSAL if refused else LinkEvent.RECEIVE_ATTACH, frame)
                endpoint.on_attach(frame)
            case Detach():
                self._enter(LinkEvent.RECEIVE_DETACH, frame)
                endpoint.on_detach(frame)
            case _:
                self._enter(_RECEIVE_EVENTS[type(frame)], frame)

    def lose(self, lost: Lost) -> None:
        """Tell the endpoint that the link is lost; only the first time, and not after both sides detached."""
        if self.state is not State.DETACHED:
            self.state = State.DETACHED
            self._endpoint.on_lost(lost)

    def work(self) -> None:
        """Let the endpoint do all that has become possible."""
        self._endpoint.work()

    def _enter(self, event: LinkEvent, frame: Frame) -> None:
        after = TRANSITIONS[self.state].get(event)
        if after is None or _ONLY_FROM.get(type(frame)) is self.role:
            msg = f"link {self.name!r}: the peer may not {event.name} to a {self.role.value} in state {self.state.name}"
            raise RemoteProtocolError(Condition.ILLEGAL_STATE.value, msg)
        self.state = after


class ReceivingLink(Link):
    """A link whose deliveries come to this side."""

    __slots__ = ("_receives",)

    def __init__(self, name: str, driver: Driver, endpoint: ReceivingEndpoint) -> None:
        """Make an unattached link."""
        super().__init__(name, Role.RECEIVER, driver, endpoint)
        self._receives = endpoint

    def receive(self, frame: Frame) -> None:
        """Act on a frame of the peer, as `Link` does."""
        if isinstance(frame, Transfer):
            if self.state is not State.ATTACHED:  # an attached link stays so
                self._enter(LinkEvent.RECEIVE_TRANSFER, frame)
            self._receives.on_transfer(frame)
        else:
            super().receive(frame)


class SendingLink(Link):
    """A link whose deliveries go to the peer."""

    __slots__ = ("_sends",)

    def __init__(self, name: str, driver: Driver, endpoint: SendingEndpoint) -> None:
        """Make an unattached link."""
        super().__init__(name, Role.SENDER, driver, endpoint)
        self._sends = endpoint

    def receive(self, frame: Frame) -> None:
        """Act on a frame of the peer, as `Link` does."""
        if isinstance(frame, Disposition):
            self._enter(LinkEvent.RECEIVE_DISPOSITION, frame)
            self._sends.on_disposition(frame)
        else:
            super().receive(frame)
