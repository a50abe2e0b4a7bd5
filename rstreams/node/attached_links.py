"""The links that are attached to a node: who has them, and how they are listed and ended."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import trio

from rstreams._core.beyond import Question, Sides
from rstreams._core.spell import SpellSum
from rstreams.culprits import WaitTree
from rstreams.errors import Condition, LinkDetached, ProtocolError
from rstreams.net._proton import LinkDriver
from rstreams.net.links.asking import Asking
from rstreams.net.links.link_info import ItemRates, LinkInfo, info_of, spell_of
from rstreams.net.links.link_name import LinkName
from rstreams.net.transport.accounts import Client
from rstreams.node.kept import KeptSubscriber
from rstreams.node.statistics import LinksStatistics
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber

COUNT_AGAIN_S: Final = 0.1
"""How often the links are counted exactly, at most, in seconds: that takes time if there are many."""

NodeEnd: TypeAlias = LinkSubscription[bytes] | LinkSubscriber[Any]


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
    rates: ItemRates
    driver: LinkDriver

    @property
    def shown(self) -> LinkName:
        """The name of the link that its client can tell, too."""
        return LinkName(self.container, self.address, self.does, self.client.user or "", self.name)

    def names(self) -> tuple[str, ...]:
        """Return what names it, in the order of `web.metric_tables.LINK`."""
        shown = self.shown
        return shown.container, shown.address, shown.user, shown.number, shown.does

    def info(self, end: NodeEnd) -> LinkInfo:
        """Return what the node's end tells."""
        return info_of(self.shown, end, self.client.peer, self.rates)


class AttachedLinks:
    """All links that clients have attached and that have not ended."""

    def __init__(self, addresses: Container[str], own: str = "") -> None:
        """Have none.

        Args:
            addresses: The addresses of the node: time is counted for each of them, and for all others together.
            own: The container id of the node.
        """
        self._addresses = addresses
        self.own = own
        self._asking: WeakKeyDictionary[Client, Asking] = WeakKeyDictionary()
        self._counted_at = -math.inf
        self._blocked: dict[tuple[str, str], SpellSum] = {}  # by the address, and by what the client does there
        self._numbers = itertools.count(1)
        self._links: WeakKeyDictionary[NodeEnd, AttachedLink] = WeakKeyDictionary()  # by their numbers

    def add(
        self,
        end: NodeEnd,
        address: str,
        client: Client,
        name: str,
        driver: LinkDriver,
    ) -> None:
        """Note a link that is about to be attached."""
        does: Literal["publish", "subscribe"] = "publish" if isinstance(end, LinkSubscription) else "subscribe"
        before = self._links.get(end)  # a kept subscription, attached again
        number = next(self._numbers) if before is None else before.number
        rates = ItemRates() if before is None else before.rates
        self._links[end] = AttachedLink(number, address, does, client, driver.peer_container, name, rates, driver)
        end.beyond = self
        counted = address if address in self._addresses else ""
        spell_of(end).sum = self._blocked.setdefault((counted, does), SpellSum())
        client.account.links.add(end)

    # see `Beyond`

    def sides(self, end: NodeEnd) -> Sides:
        """Return the names of an end's link."""
        link = self._links.get(end)
        return (
            Sides("a link", self.own, "a client") if link is None else Sides(str(link.shown), self.own, link.container)
        )

    async def ask(self, end: NodeEnd, question: Question) -> WaitTree:
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

    # numbers

    def blocked(self) -> dict[str, LinksStatistics]:
        """Return how long the links of each address were blocked, those included that have ended.

        "" stands for the relay, and for the addresses that were made for replies.
        """
        for gone in [key for key in self._blocked if key[0] and key[0] not in self._addresses]:
            del self._blocked[gone]
        names, none = sorted({name for name, _ in self._blocked}), SpellSum()
        found = {name: [self._blocked.get((name, does), none) for does in ("publish", "subscribe")] for name in names}
        return {
            name: LinksStatistics(sent.present, sent.total_s, received.present, received.total_s)
            for name, (sent, received) in found.items()
        }

    def numbers(self) -> Iterator[tuple[int, Callable[[], tuple[str, ...]], float, int, int, float]]:
        """Yield of each link its number, its names, and the numbers of `web.metric_tables.LINK` in their order."""
        for end, link in self:
            if isinstance(end, LinkSubscriber):
                end.look_at_window()
                yield link.number, link.names, end.blocked.total_s, end.credit, end.unsettled, end.oldest_s
            else:
                yield link.number, link.names, end.full.total_s, end.credit, end.in_hand, 0.0

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

    def __iter__(self) -> Iterator[tuple[NodeEnd, AttachedLink]]:
        """Return the links in the order in which they were attached, each with this side's end."""
        return self.after(0)

    def after(self, number: int) -> Iterator[tuple[NodeEnd, AttachedLink]]:
        """Yield the links behind a number, in the same order."""
        links = self._links
        for each in links.keyrefs():  # they are there: the garbage collector would look at ten thousand new tuples
            end = each()
            if end is not None and end.wants_link and (link := links.get(end)) is not None and link.number > number:
                yield end, link


def end_attached(end: NodeEnd, condition: Condition | str, description: str) -> None:
    """End a link from this side; messages that the client has not settled go back to their address."""
    name = condition.value if isinstance(condition, Condition) else condition
    if isinstance(end, LinkSubscription):
        end.give_up(ProtocolError(name, description))
    elif isinstance(end, KeptSubscriber) and end.is_away:
        end.give_up(LinkDetached(name, description))
    else:
        end.abort(LinkDetached(name, description))
