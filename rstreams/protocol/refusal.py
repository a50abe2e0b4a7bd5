"""Links that this side ends on its own: a refused one, and one whose end goes on with another link.

Spec: AMQP 1.0 sections 2.6.1 (stolen links) and 2.6.3 (refusals).
"""

from __future__ import annotations

from typing import Protocol

from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Attach, Detach, Flow, Lost, Role
from rstreams.protocol.link import Link
from rstreams.protocol.states import State


class LinkCarrier(Driver, Protocol):
    """A driver that can be given another link."""

    def bind(self, link: Link) -> None:
        """Carry `link`."""
        ...


class Refusal:
    """The endpoint of a link that this side has ended: it ignores frames that the peer has sent before it knows."""

    place = str

    def on_attach(self, frame: Attach) -> None:
        """Do nothing: the detach has been sent."""

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


def end_link(link: Link, driver: LinkCarrier, goodbye: Detach) -> None:
    """Detach `link` without its end, which is going on with another link; its driver has a link without an end then."""
    dead = Link(link.name, link.role, driver, Refusal())
    dead.state = link.state
    if dead.state is State.ATTACH_RECEIVED:
        dead.send(Attach(link.name, link.role, None, None))
    if dead.state in {State.ATTACHED, State.REFUSING}:
        dead.send(goodbye)
    driver.bind(dead)
    driver.wake()
