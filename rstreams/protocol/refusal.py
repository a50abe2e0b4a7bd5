"""The refusal of a link: the reply with a null terminus, and the detach with the reason (AMQP 1.0 section 2.6.3)."""

from __future__ import annotations

from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Detach, Flow, Lost, Role
from rstreams.protocol.link import Link


class Refusal:
    """The endpoint of a link that is refused: it ignores frames that the peer sends before it knows of the refusal."""

    place = str

    def on_attach(self, frame: Attach) -> None:
        """Do nothing: the refusal has been sent."""

    def on_flow(self, frame: Flow) -> None:
        """Do nothing: the credit is for a link that has ended."""

    def on_detach(self, frame: Detach) -> None:
        """Do nothing: the peer has answered."""

    def on_lost(self, frame: Lost) -> None:
        """Do nothing: the peer will not answer."""

    def work(self) -> None:
        """Do nothing: there is nothing to do."""


def refuse(driver: Driver, attach: Attach, condition: str, description: str) -> Link:
    """Refuse the link that the peer attaches; return it, to be carried by its driver until it has ended."""
    role = Role.RECEIVER if attach.role is Role.SENDER else Role.SENDER
    link = Link(attach.name, role, driver, Refusal())
    link.receive(attach)
    link.send(Attach(attach.name, role, None, None, attach.settlement, mixed=attach.mixed))
    link.send(Detach(condition=condition, description=description))
    return link
