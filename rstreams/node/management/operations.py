"""What a client can ask of a node: the requests of `$management`, and their answers.

A request looks like one of HTTP: a method, a path, a map. The shape is that of RabbitMQ 4, whose client can declare,
look at, purge and delete queues here. The rest is this library's own:

    GET     /addresses                  the addresses, each with its kind and its counters
    GET     /<kind>                     those of one kind: queues, multicasts, served, ...
    GET     /<kind>/<name>              one of them
    PUT     /<kind>/<name>              declare one; the body has the options
    DELETE  /<kind>/<name>              remove one; its links end
    DELETE  /queues/<name>/messages     purge: delete the messages that are ready
    POST    /queues/<name>/dead-letters move dead letters back; the body may have `to` and `most`
    DELETE  /logs/<name>/groups/<name>  forget a consumer group that has no members
    GET     /multicasts/<name>/subscriptions
                                        the named subscriptions of a multicast
    DELETE  /multicasts/<name>/subscriptions
                                        end one; the body has its `container`, `name` and `user`
    GET     /connections                the connections of clients, in pages; see `traffic`
    GET     /links                      the links with their numbers, in pages; ?address=, ?container=
    GET     /subscriptions              the links that clients have attached; ?address=<name> for those of one address
    DELETE  /subscriptions/<number>     end one

A client is told of addresses that it may manage, and of no others. A request that changes what is in the node's store
is answered when the store has written it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs, unquote

import trio

from rstreams._events.table import MANAGEMENT_CHANGED, MANAGEMENT_NOT_SAFE
from rstreams.errors import Condition, ConfigError, ProtocolError, StoreError
from rstreams.net.links.draining import wait_until
from rstreams.net.management import ConnectionInfo
from rstreams.net.transport.accounts import Client
from rstreams.node.access import Access
from rstreams.node.address import Address
from rstreams.node.attached_links import AttachedLink, AttachedLinks, end_attached
from rstreams.node.emptying import Emptied, move_back
from rstreams.node.gone_consumers import GoneConsumers
from rstreams.node.kinds import KINDS, REFERS, AddressKind
from rstreams.node.management.declarations import body_of, options_in
from rstreams.node.management.traffic import Traffic
from rstreams.node.written import ANSWER_WITHIN_S

OK, CREATED, NO_CONTENT = 200, 201, 204
BAD_REQUEST, FORBIDDEN, NOT_FOUND, NOT_ALLOWED, CONFLICT, FAILED = 400, 403, 404, 405, 409, 500

Answer = tuple[int, Any]
"""The status, as in HTTP, and the body."""


class Refused(Exception):
    """A request that is not carried out."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Asked(NamedTuple):
    """A request: who asks, the map in its body, and the query in its path."""

    client: Client
    body: Mapping[str, Any]
    query: Mapping[str, list[str]]


def _fits(word: str, part: str) -> bool:
    """Tell whether a part of a path fits the word of a pattern."""
    return part in KINDS if word == "<kind>" else word in {part, "<name>"}


class Managed(Protocol):
    """A node, as far as it is managed."""

    def connections(self) -> Sequence[ConnectionInfo]:
        """Return the open connections of its clients."""
        ...

    def remove(self, name: str) -> None:
        """Remove an address."""
        ...


class Operations:
    """Carries out requests.

    Args:
        node: The node; its methods make addresses.
        addresses: Its addresses by name.
        links: The links of its clients.
        access: Decides what clients may do.
        gone_consumers: The messages of links that have ended.
        has_store: Whether the node has a store.
    """

    def __init__(
        self,
        node: Managed,
        addresses: Mapping[str, Address],
        links: AttachedLinks,
        access: Access,
        gone_consumers: GoneConsumers,
        *,
        has_store: bool,
    ) -> None:
        self._has_store = has_store
        self._gone_consumers = gone_consumers
        self._node = node
        self._addresses = addresses
        self._links = links
        self._traffic = Traffic(links, node.connections, access)
        self._access = access
        self._known_requests: list[tuple[str, tuple[str, ...], Callable[..., Awaitable[Answer]]]] = [
            ("GET", ("addresses",), self._list),
            ("GET", ("connections",), self._list_connections),
            ("GET", ("links",), self._list_links),
            ("GET", ("subscriptions",), self._subscriptions),
            ("DELETE", ("subscriptions", "<name>"), self._end_subscription),
            ("DELETE", ("queues", "<name>", "messages"), self._purge),
            ("POST", ("queues", "<name>", "dead-letters"), self._move_back),
            ("DELETE", ("logs", "<name>", "groups", "<name>"), self._forget_group),
            ("GET", ("multicasts", "<name>", "subscriptions"), self._named),
            ("DELETE", ("multicasts", "<name>", "subscriptions"), self._end_named),
            ("GET", ("<kind>",), self._list),
            ("GET", ("<kind>", "<name>"), self._show),
            ("PUT", ("<kind>", "<name>"), self._declare),
            ("DELETE", ("<kind>", "<name>"), self._delete),
        ]

    async def answer(self, client: Client, method: str, path: str, body: object) -> Answer:
        """Carry out one request.

        Returns: The status and the body of the answer; for an error the body is a text.
        """
        place, _, query = path.partition("?")
        parts = [unquote(part) for part in place.split("/")[1:]]
        try:
            asked = _Asked(client, body_of(method, body), parse_qs(query))
            for name, pattern, carry_out in self._known_requests:
                if name == method and len(pattern) == len(parts) and all(map(_fits, pattern, parts)):
                    given = [part for part, word in zip(parts, pattern, strict=True) if word in {"<kind>", "<name>"}]
                    answer = await carry_out(asked, *given)
                    if method != "GET" and (method, answer[0]) != ("PUT", OK):  # that one was there already
                        user, peer, status = client.user, client.peer, answer[0]
                        about = peer.rpartition(":")[0]
                        MANAGEMENT_CHANGED.tell(about, user=user, peer=peer, method=method, path=place, status=status)
                    return answer
        except Refused as refused:
            return refused.status, str(refused)
        except ConfigError as error:
            return BAD_REQUEST, str(error)
        except StoreError as error:
            MANAGEMENT_NOT_SAFE.tell(path, method=method, path=path, why=error)
            return FAILED, "it is done, and not safe in the store; the log of the node tells the reason"
        except ProtocolError as error:
            forbidden = error.condition == Condition.UNAUTHORIZED_ACCESS
            return FORBIDDEN if forbidden else NOT_ALLOWED, error.description
        kinds = f"; the kinds of address are {', '.join(KINDS)}" if len(parts) == 2 and parts[0] not in KINDS else ""
        return NOT_FOUND, f"there is nothing at {method:.20} {path:.200}{kinds}"

    # addresses

    async def _list(self, asked: _Asked, table: str | None = None) -> Answer:
        return OK, [
            self._described(address)
            for name, address in self._addresses.items()
            if name and not _is_own(name) and table in {None, address.table}
            if self._access.may(asked.client, "manage", name)
        ]

    async def _show(self, asked: _Asked, table: str, name: str) -> Answer:
        return OK, self._described(self._known(asked.client, table, name))

    async def _purge(self, asked: _Asked, name: str) -> Answer:
        queue = self._known(asked.client, "queues", name)
        count = await queue.purge()
        await queue.written()
        return OK, {"message_count": count}

    def _known(self, client: Client, table: str, name: str) -> Address:
        """Return an address that is there; a client that may not manage it is not told whether it is."""
        self._access.require(client, "manage", name)
        address = None if _is_own(name) else self._addresses.get(name)
        if address is None or address.table != table:
            raise Refused(NOT_FOUND, f"the node has no {_word(table)} {name!r:.80}")
        return address

    def _described(self, address: Address) -> dict[str, Any]:
        numbers = address.statistics()
        counters = {} if numbers is None else numbers.as_dict()
        described: dict[str, Any] = {
            "name": address.name,
            "kind": address.kind,
            "table": address.table,
            "arguments": dict(address.declared or {}),
            "statistics": counters,
        }
        if address.table == "queues":  # the words of RabbitMQ
            described |= {
                "durable": counters.get("durable", False),
                "auto_delete": False,
                "exclusive": False,
                "type": "classic",
                "message_count": counters.get("ready", 0),
                "consumer_count": counters.get("consumers", 0),
            }
        return described

    async def _declare(self, asked: _Asked, table: str, name: str) -> Answer:
        self._access.require(asked.client, "manage", name)
        kind = KINDS[table]
        known = kind.remote_options(self._node)
        if known is None:
            raise Refused(NOT_ALLOWED, f"a {kind.word} needs objects of Python: it cannot be declared by a client")
        options = options_in(asked.body, kind, known, name, has_store=self._has_store)
        address = self._addresses.get(name)
        if address is not None:
            self._compare(address, table, kind, options)
            return OK, self._described(address)
        target = options.get(REFERS)
        if target is not None:  # messages would go there
            self._access.require(asked.client, "manage", target)
        kind.make(self._node, name, options)
        address = self._addresses[name]
        await address.written()
        return CREATED, self._described(address)

    def _compare(self, address: Address, table: str, kind: AddressKind, options: Mapping[str, Any]) -> None:
        """Check that an address that is there is as declared."""
        if address.table != table:
            raise Refused(CONFLICT, f"the node has a {address.kind} {address.name!r:.80}")
        numbers, declared = address.statistics(), address.declared
        defaults = {} if declared is None else {name: each.default for name, each in kind.options(self._node).items()}
        counters = {} if numbers is None else numbers.as_dict()
        for name, value in options.items():
            has = [each[name] for each in ({**defaults, **(declared or {})}, counters) if name in each]
            if value not in has:
                why = f"{name}={has[0]!r:.80}" if has else f"another {name}"
                raise Refused(CONFLICT, f"the {address.kind} {address.name!r:.80} is there with {why}")

    async def _delete(self, asked: _Asked, table: str, name: str) -> Answer:
        address = self._known(asked.client, table, name)
        count = address.left + address.kept
        try:
            self._node.remove(name)
        except ConfigError as error:
            raise Refused(CONFLICT, str(error)) from None
        await address.written()
        return OK, {"message_count": count}

    async def _move_back(self, asked: _Asked, name: str) -> Answer:
        queue: Any = self._known(asked.client, "queues", name)
        to, most = asked.body.get("to"), asked.body.get("most")
        if to is not None and (not isinstance(to, str) or to == name):
            raise Refused(BAD_REQUEST, f"to={to!r:.80}: it must be the name of another address")
        if most is not None and (not isinstance(most, int) or most < 1):
            raise Refused(BAD_REQUEST, f"most={most!r:.80}: it must be 1 or more messages")

        def find(target: str) -> Address | None:
            return self._addresses.get(target) if self._access.may(asked.client, "manage", target) else None

        emptied: Emptied = queue
        moved = await move_back(emptied, find, to=to, most=most)
        return OK, asdict(moved)

    async def _forget_group(self, asked: _Asked, name: str, group: str) -> Answer:
        log: Any = self._known(asked.client, "logs", name)
        try:
            known = log.forget_group(group)
        except ConfigError as error:
            raise Refused(CONFLICT, str(error)) from None
        if not known:
            raise Refused(NOT_FOUND, f"the log {name!r:.80} has no group {group!r:.80}")
        await log.written()
        return NO_CONTENT, None

    # connections and links

    async def _list_connections(self, asked: _Asked) -> Answer:
        return OK, self._traffic.connections(asked.client, asked.query)

    async def _list_links(self, asked: _Asked) -> Answer:
        return OK, self._traffic.links(asked.client, asked.query)

    # subscriptions

    async def _subscriptions(self, asked: _Asked) -> Answer:
        wanted = asked.query.get("address")
        return OK, [
            {
                "number": link.number,
                "address": link.address,
                "does": link.does,
                "user": link.client.user or "",
                "peer": link.client.peer,
                "container": link.container,
                "link": link.name,
                "unsettled": end.in_hand if link.does == "publish" else end.unsettled,
            }
            for end, link in self._managed_links(asked.client)
            if wanted is None or link.address in wanted
        ]

    def _managed_links(self, client: Client) -> list[tuple[Any, AttachedLink]]:
        return [(end, link) for end, link in self._links if self._access.may(client, "manage", link.address)]

    async def _end_subscription(self, asked: _Asked, number: str) -> Answer:
        found = next((each for each in self._managed_links(asked.client) if str(each[1].number) == number), None)
        if found is None:
            raise Refused(NOT_FOUND, f"there is no subscription {number!r:.80}")
        end, link = found
        end_attached(end, Condition.LINK_DETACH_FORCED, "this link was ended by the management of the node")
        await wait_until(lambda: not end.wants_link, trio.current_time() + ANSWER_WITHIN_S)
        if end.wants_link:
            raise Refused(FAILED, "the link ends, and has its messages until the client has read what is on its way")
        await self._gone_consumers.given_back()
        address = self._addresses.get(link.address)
        if address is not None:
            await address.written()  # the failed attempts of its messages
        return NO_CONTENT, None

    async def _named(self, asked: _Asked, name: str) -> Answer:
        multicast: Any = self._known(asked.client, "multicasts", name)
        return OK, [asdict(named.statistics()) for named in multicast.named.all]

    async def _end_named(self, asked: _Asked, name: str) -> Answer:
        multicast: Any = self._known(asked.client, "multicasts", name)
        container, subscription, user = (asked.body.get(word, "") for word in ("container", "name", "user"))
        words = (container, subscription, user)
        if not all(isinstance(word, str) for word in words) or not multicast.unsubscribe(*words[:2], user or None):
            raise Refused(NOT_FOUND, f"{name!r:.80} has no subscription {subscription!r:.80} of {container!r:.80}")
        await multicast.written()
        return NO_CONTENT, None


def _is_own(name: str) -> bool:
    """Tell whether an address is one of the node itself."""
    return name.startswith("$") or name == "/management"


def _word(table: str) -> str:
    return KINDS[table].word


Carries = Callable[[Client, str, str, object], Awaitable[Answer]]
"""The type of `Operations.answer`."""
