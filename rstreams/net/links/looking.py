"""The methods of a connection that tell what its links do, and what they wait for."""

from __future__ import annotations

from typing import Any

from rstreams._core.beyond import HOPS, WITHIN_S
from rstreams.culprits import WaitTree
from rstreams.net.links.asking import go_on, question_of
from rstreams.net.links.connection_links import Links
from rstreams.net.links.link_info import LinkInfo
from rstreams.net.links.link_totals import LinkTotals
from rstreams.net.links.sight import Sight
from rstreams.stream import Stream
from rstreams.stream._explain import trees_of


class LookingMethods:
    """The methods of a `Connection` that look at its links, and change nothing."""

    _links: Links

    def explain(self) -> Sight:
        """Return a line for each link, with the reason why it waits: `print(connection.explain())`.

        A sending link may wait for credit, for outcomes, for items or for the peer's attach. A receiving link may wait
        for items, or for the outcomes of the items that fill its window. `Stream.explain` shows one pipeline with its
        stages.

        Context: Any task of the connection's trio run.
        """
        return self._links.explain()

    def links(self) -> list[LinkInfo]:
        """Return the numbers of each link of this side, and how long it was blocked.

        Context: Any task of the connection's trio run.
        """
        return self._links.info()

    def link_totals(self) -> list[LinkTotals]:
        """Return the numbers of all links to each address together; they do not fall when a link ends.

        `rstreams.web.client_metrics_text(connection)` makes metrics of them.

        Context: Any task of the connection's trio run.
        """
        return self._links.totals()

    async def explain_across(
        self, stream: Stream[Any] | None = None, *, within_s: float = WITHIN_S, hops: int = HOPS
    ) -> WaitTree:
        """Return what the links of this connection wait for, also at the other side: `print(await ...)`.

        The tree goes on from link to link as far as there are peers of rstreams that tell: a node tells of its
        addresses, and asks its clients, and these ask their nodes. At a broker it ends with what its management tells.
        `culprit` of the tree is the one end that all others wait for. No message and no password is in it.

        Args:
            stream: A stream that runs, over this connection or others: its runs are looked at; None: all links.
            within_s: How long the answer may take, in seconds. A peer that has not answered by then is named as silent.
            hops: Over how many connections the question goes.

        Errors: `ConfigError` for a number that is not allowed. A peer that refuses, or answers nonsense, is one part of
            the tree that says so.
        Cancels: The questions are given up.
        Context: Any task of the connection's trio run.
        """
        question = question_of("explain_across", None, within_s, hops)
        if stream is None:
            return await go_on(self._links.waits(question), question)
        trees = trees_of(stream, self._links.asked(question))
        return await go_on(WaitTree("stream", "the stream", "" if trees else "it has no run", None, trees), question)
