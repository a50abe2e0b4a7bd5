"""Lists of what is under way at a node: its connections and links, a page for each request.

An answer has at most `MOST` of them, and `next`: the number to ask for those behind it, 0 if there are no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, Final

from rstreams.errors import ConfigError
from rstreams.net.management import ConnectionInfo
from rstreams.net.transport.accounts import Client
from rstreams.node.access import Access
from rstreams.node.attached_links import AttachedLinks
from rstreams.node.statistics_address import STATISTICS

MOST: Final = 128
"""The most links or connections in one answer: some 60 kB, which take some milliseconds."""

Query = Mapping[str, Sequence[str]]


class Traffic:
    """Answers what connections and links there are.

    Args:
        links: The links of the node.
        connections: Returns its open connections.
        access: Decides what clients may see.
    """

    def __init__(
        self, links: AttachedLinks, connections: Callable[[], Sequence[ConnectionInfo]], access: Access
    ) -> None:
        self._links = links
        self._connections = connections
        self._access = access

    def connections(self, client: Client, query: Query) -> dict[str, Any]:
        """Return a page of the connections.

        Errors: `ProtocolError` for a client that may not subscribe to `$statistics`; `ConfigError` for a bad query.
        """
        self._access.require(client, "subscribe", STATISTICS)
        after = _number(query, "after", 0)
        found = (each for each in self._connections() if each.number > after)
        return _page(((each.number, asdict(each)) for each in found), query)

    def links(self, client: Client, query: Query) -> dict[str, Any]:
        """Return a page of the links; a client that may not subscribe to `$statistics` gets those that it manages.

        Errors: `ConfigError` for a bad query.
        """
        sees_all = self._access.may(client, "subscribe", STATISTICS)
        addresses, containers = query.get("address"), query.get("container")
        found = (
            (end, link)
            for end, link in self._links.after(_number(query, "after", 0))
            if addresses is None or link.address in addresses
            if containers is None or link.container in containers
            if sees_all or self._access.may(client, "manage", link.address)
        )
        return _page(((link.number, link.info(end).as_dict()) for end, link in found), query)


def _page(found: Iterator[tuple[int, dict[str, Any]]], query: Query) -> dict[str, Any]:
    most = min(MOST, _number(query, "most", MOST))
    page = list(islice(found, most))
    more = len(page) == most and next(found, None) is not None
    return {"found": [each for _, each in page], "next": page[-1][0] if more else 0}


def _number(query: Query, name: str, default: int) -> int:
    """Return a number of a query.

    Errors: `ConfigError` for another value.
    """
    text = query.get(name, (str(default),))[-1]
    least = 1 if name == "most" else 0
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) >= least):
        msg = f"{name}={text!r:.80}: it must be a whole number, {least} or more"
        raise ConfigError(msg)
    return int(text)
