"""The address at which a node tells what it waits for, and who keeps it waiting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import trio

from rstreams._core.beyond import Question
from rstreams._core.sight import Asked
from rstreams.culprits import WaitTree
from rstreams.net.links.asking import EXPLAIN, asked_by, go_on
from rstreams.net.links.explain_link import Starts, Trees
from rstreams.net.transport.accounts import Client
from rstreams.node.access import Access, Action
from rstreams.node.address import Address, LinkRequest, NodeServices, Supply
from rstreams.node.attached_links import AttachedLinks
from rstreams.node.statistics_address import STATISTICS

MOST_ANSWERS: Final = 16
"""The most questions that a node answers at a time; the others wait, each within its own time."""

MOST_ADDRESSES: Final = 32
"""The most addresses that are told in one tree, if the question is about no address."""


class NodeWaits:
    """What a node waits for.

    Args:
        name: The container id of the node.
        addresses: Its addresses by name.
        links: The links of its clients.
    """

    def __init__(self, name: str, addresses: Mapping[str, Address], links: AttachedLinks) -> None:
        self._name = name
        self._addresses = addresses
        self._links = links
        self._places = trio.CapacityLimiter(MOST_ANSWERS)

    async def answer(self, question: Question) -> WaitTree:
        """Return what the node waits for, also at the other sides of its links."""
        with trio.move_on_after(question.within_s):
            async with self._places:
                return await go_on(self.here(question), question)
        return replace(self.here(question), state="it has not heard in time what its clients wait for")

    def here(self, question: Question) -> WaitTree:
        """Return the same, as far as the node knows by itself."""
        asked = asked_by(question, self._name)
        state, parts = "", self._parts(question, asked)
        if not parts and (question.link or question.address):
            state = "it has no such link" if question.link else f"it has no address {question.address!r:.80}"
        return WaitTree("node", f"node {self._name!r:.120}", state, None, tuple(parts))

    def _parts(self, question: Question, asked: Asked) -> list[WaitTree]:
        if question.link:
            wanted = question.container, question.does, question.link
            found = (end for end, link in self._links if (link.container, link.does, link.name) == wanted)
            return [end.part(question.want, asked) for end in found][:1]
        if question.address:
            address = self._addresses.get(question.address)
            return [] if address is None else [address.waits(None, asked)]
        standings = (address.standing(asked) for address in self._addresses.values() if address.explain())
        trees = [each.waits(None, asked) for each in standings if not each.is_brief]
        waiting = [tree for tree in trees if tree.waits_for or tree.blame is not None]
        return waiting[:MOST_ADDRESSES]


class ExplainAddress(Address):
    """Tells a client what the node waits for; the permission is that for `$statistics`.

    The question is in the properties of the client's attach. Each item that is requested is a new answer.

    Args:
        waits: Answers.
    """

    kind = "served stream"
    _start: Starts
    metered = False  # it tells also a user who is at the limit that it is so

    def __init__(self, waits: NodeWaits) -> None:
        self.name = EXPLAIN
        self._waits = waits

    def check_access(self, access: Access, client: Client, action: Action) -> None:
        """Let in clients that may see the statistics, which tell the same names."""
        access.require(client, action, STATISTICS)

    def supply(self, link: LinkRequest) -> Supply:
        """Return the answers to the question of a link."""
        return Supply(Trees(link.attach, self._waits.answer, self._start))

    def begin(self, services: NodeServices) -> None:
        """Answer in tasks of the node's scope."""
        self._start = services.start_soon

    def explain(self) -> str:
        """Return an empty line: the other addresses tell their states."""
        return ""
