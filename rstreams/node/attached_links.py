"""The links that are attached to a node: who has them, and how they are listed and ended."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import trio

from rstreams._core.beyond import Question, Sides
from rstreams.culprits import WaitTree
from rstreams.errors import Condition, LinkDetached, ProtocolError
from rstreams.net._proton import LinkDriver
from rstreams.net.links.asking import Asking
from rstreams.net.links.link_info import LinkInfo, Rates, info_of
from rstreams.net.links.link_name import LinkName
from rstreams.net.transport.accounts import Client
from rstreams.node.kept import KeptSubscriber
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber

COUNT_AGAIN_S: Final = 0.1
"""How often the links are counted exactly, at most, in seconds: that takes time if there are many."""

_NodeEnd: TypeAlias = LinkSubscription[bytes] | LinkSubscriber[Any]


@dataclass(frozen=True, slots=True)
class AttachedLink:
    """One link that a client has attached.

    Attributes:
        number: Its number at this node, from 1; no other link gets the same one.
        address: The name of the address; "" for a relay.
        does: What the client does: "publish" or "subscribe".
        client: The client.
        container: The client's container id.
        name: The name of the link.
        rates: The rate of its items.
        driver: Carries the link.
    """

    number: int
    address: str
    does: Literal["publish", "subscribe"]
    client: Client
    container: str
    name: str
    rates: Rates
    driver: LinkDriver

    @property
    def shown(self) -> LinkName:
        """The name of the link that its client can tell, too."""
        return LinkName(self.container, self.address, self.does, self.client.user or "", self.name)

    def info(self, end: _NodeEnd) -> LinkInfo:
        """Return what the node's end tells."""
        return info_of(self.shown, end, self.client.peer, self.rates)


class AttachedLinks:
    """All links that clients have attached and that have not ended."""

    def __init__(self, own: str = "") -> None:
        """Have none; `own` is the container id of the node."""
        self.own = own
        self._asking: WeakKeyDictionary[Client, Asking] = WeakKeyDictionary()
        self._counted_at = -math.inf
        self._numbers = itertools.count(1)
        self._links: WeakKeyDictionary[_NodeEnd, AttachedLink] = WeakKeyDictionary()  # by their numbers

    def add(
        self,
        end: _NodeEnd,
        address: str,
        client: Client,
        name: str,
        driver: LinkDriver,
    ) -> None:
        """Note a link that is about to be attached."""
        does: Literal["publish", "subscribe"] = "publish" if isinstance(end, LinkSubscription) else "subscribe"
        before = self._links.get(end)  # a kept subscription, attached again
        number = next(self._numbers) if before is None else before.number
        rates = Rates() if before is None else before.rates
        self._links[end] = AttachedLink(number, address, does, client, driver.peer_container, name, rates, driver)
        end.beyond = self
        client.account.links.add(end)

    # see `Beyond`

    def sides(self, end: _NodeEnd) -> Sides:
        """Return the names of an end's link."""
        link = self._links.get(end)
        return (
            Sides("a link", self.own, "a client") if link is None else Sides(str(link.shown), self.own, link.container)
        )

    async def ask(self, end: _NodeEnd, question: Question) -> WaitTree:
        """Ask the client of an end about its side of the link."""
        link = self._links.get(end)
        if link is None or not link.driver.lives:
            return WaitTree("peer", "the client", "its connection is lost")
        peer = f"client {link.container!r:.120}"
        if not link.driver.peer_explains:
            return WaitTree("peer", peer, "the peer tells nothing more")
        asking = self._asking.get(link.client)
        if asking is None:
            names = map("{}/explain/{}".format, itertools.repeat(self.own), itertools.count(1))
            asking = Asking(link.driver.attach_beside, names.__next__, lambda: link.container, self.own, trusts=False)
            self._asking[link.client] = asking
        about = replace(question, address="", container=link.container, does=link.does, link=link.name)
        return await asking.ask(about)

    def are(self, most: int) -> bool:
        """Tell whether there are so many; some that have just ended may count for a moment."""
        if len(self._links) < most:
            return False
        now = trio.current_time()
        if now >= self._counted_at + COUNT_AGAIN_S:  # strangers may ask often
            self._counted_at = now
            for end in [end for end in self._links if not end.wants_link]:
                self._links.pop(end, None)
        return len(self._links) >= most

    def __iter__(self) -> Iterator[tuple[_NodeEnd, AttachedLink]]:
        """Return the links in the order in which they were attached, each with this side's end."""
        return self.after(0)

    def after(self, number: int) -> Iterator[tuple[_NodeEnd, AttachedLink]]:
        """Yield the links behind a number, in the same order."""
        for end, link in list(self._links.items()):
            if link.number > number and end.wants_link:
                yield end, link


def end_attached(end: _NodeEnd, condition: Condition | str, description: str) -> None:
    """End a link from this side; messages that the client has not settled go back to their address."""
    name = condition.value if isinstance(condition, Condition) else condition
    if isinstance(end, LinkSubscription):
        end.give_up(ProtocolError(name, description))
    elif isinstance(end, KeptSubscriber) and end.is_away:
        end.give_up(LinkDetached(name, description))
    else:
        end.abort(LinkDetached(name, description))
