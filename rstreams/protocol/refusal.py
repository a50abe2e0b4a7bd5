"""Refusing a link: the reply with a null terminus, and the detach that says why (AMQP 1.0 section 2.6.3)."""

from __future__ import annotations

from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role, Transfer
from rstreams.protocol.link import Link


class Refusal:
    """The endpoint of a link that is refused: whatever the peer sends before it knows falls to the floor."""

    place = str

    def on_attach(self, frame: Attach) -> None:
        """Nothing to do: the refusal has been sent."""

    def on_flow(self, frame: Flow) -> None:
        """Credit for a link that is no more."""

    def on_transfer(self, frame: Transfer) -> None:
        """Cannot come: no credit was granted."""

    def on_disposition(self, frame: Disposition) -> None:
        """Cannot come: nothing was sent."""

    def on_detach(self, frame: Detach) -> None:
        """The peer's half of the end."""

    def on_lost(self, frame: Lost) -> None:
        """The peer's half of the end, the hard way."""

    def work(self) -> None:
        """Nothing is waiting."""


def refuse(driver: Driver, attach: Attach, condition: str, description: str) -> Link:
    """Refuse the link the peer is attaching; return it, for its driver to carry to its end."""
    role = Role.RECEIVER if attach.role is Role.SENDER else Role.SENDER
    link = Link(attach.name, role, driver, Refusal())
    link.receive(attach)
    link.send(Attach(attach.name, role, None, None, attach.settlement, mixed=attach.mixed))
    link.send(Detach(condition=condition, description=description))
    return link
