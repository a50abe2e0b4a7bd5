"""The typed client of a node's management: `async with connection.management() as management:`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlencode

from rstreams._checks.argument_names import name_arguments
from rstreams._checks.names import require_name
from rstreams._checks.numbers import require_count
from rstreams._core.beyond import HOPS, WITHIN_S
from rstreams.culprits import WaitTree
from rstreams.net.links.asking import question_of
from rstreams.net.links.connection_links import Links
from rstreams.net.links.link_info import LinkInfo
from rstreams.net.management.paired_requests import ManagementRequests, paired_requests, quoted
from rstreams.runtime.context_managers import async_entered

ADDRESS = "$management"


@dataclass(frozen=True, slots=True)
class AddressInfo:
    """An address of a node.

    Attributes:
        name: Its name.
        kind: Its kind, such as "queue".
        options: The options that a config file or a client has declared it with.
        statistics: Its counters, as in `Node.statistics()`.
    """

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    statistics: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def _of(cls, body: Mapping[str, Any]) -> AddressInfo:
        return cls(body["name"], body.get("kind", "queue"), body.get("arguments", {}), body.get("statistics", {}))


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """A link that a client has attached to a node.

    Attributes:
        number: Its number at the node.
        address: The name of the address; "" for a relay.
        does: What the client does there.
        user: The client's user; "" for none.
        peer: The client's host and port.
        container: The client's container id.
        link: The name of the link.
        unsettled: The messages that were sent on it and are not settled.
    """

    number: int
    address: str
    does: Literal["publish", "subscribe"]
    user: str
    peer: str
    container: str
    link: str
    unsettled: int


@dataclass(frozen=True, slots=True)
class ConnectionInfo:
    """One open connection of a client at one moment.

    Attributes:
        number: Its number at the node; it is not used again.
        container: The client's container id.
        user: The client's user; "" for none.
        peer: The client's host and port.
        product: What the client says of its product; "" if nothing.
        version: What it says of the product's version; "" if nothing.
        since: When it was let in, in seconds since 1970.
        sessions: Its sessions.
        links: Its links.
        received_bytes: The bytes that have come from it.
        sent_bytes: The bytes that were sent to it.
    """

    number: int
    container: str
    user: str
    peer: str
    product: str
    version: str
    since: float
    sessions: int
    links: int
    received_bytes: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class NamedSubscriptionInfo:
    """One named subscription of a multicast at one moment; `arrived = waiting + unsettled + accepted + gone`.

    `gone` are messages that were dropped, rejected or too old.

    Attributes:
        container: The container id of its subscriber.
        name: Its name.
        user: The user of its subscriber; "" for none.
        attached: Whether a link has it.
        durable: Whether it is in the node's store.
        arrived: Messages that came in since it began, or since the node was started.
        waiting: Messages in its backlog that are not at the subscriber.
        unsettled: Messages at the subscriber.
        accepted: Messages that the subscriber has accepted.
        dropped: Messages that were dropped because the backlog was full.
        size_bytes: The bytes of the messages in its backlog, about.
    """

    container: str
    name: str
    user: str
    attached: bool
    durable: bool
    arrived: int
    waiting: int
    unsettled: int
    accepted: int
    dropped: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MovedLetters:
    """The result of moving dead letters back.

    Attributes:
        moved: How many are in the queue that they came from.
        no_room: How many stay, because their queue had no room; by the name of the queue.
        no_address: How many stay, because their queue is not there, or this client may not manage it; by its name.
    """

    moved: int
    no_room: Mapping[str, int] = field(default_factory=dict)
    no_address: Mapping[str, int] = field(default_factory=dict)


class Management:
    """Manages the node at the other end of a connection; made by `Connection.management`.

    A call sees and changes only addresses that the client's user may manage. Addresses that are declared live as long
    as the node.

    Errors: Each method raises `ManagementRefused`, whose `status` is as in HTTP, or the error that ended the link or
        the connection.
    Context: Any task of the connection's trio run; each call waits for the node's answer.
    """

    def __init__(self, requests: ManagementRequests, links: Links) -> None:
        """Send requests by `requests`, over a connection with these links."""
        self._requests = requests
        self._links = links

    async def addresses(self) -> list[AddressInfo]:
        """Return all addresses."""
        return [AddressInfo._of(each) for each in await self._body("GET", "/addresses")]

    async def queues(self) -> list[AddressInfo]:
        """Return all queues."""
        return [AddressInfo._of(each) for each in await self._body("GET", "/queues")]

    async def queue(self, name: str) -> AddressInfo:
        """Return one queue."""
        return AddressInfo._of(await self._body("GET", f"/queues/{_path('queue', name)}"))

    async def declare_queue(self, name: str, **options: Any) -> AddressInfo:  # noqa: ANN401 - those of Node.queue
        """Make a queue, if the node does not have it.

        Args:
            name: Its name.
            **options: As for `Node.queue`. A queue that is there must have the same values.
        """
        return await self.declare("queues", name, **options)

    async def declare_multicast(self, name: str, **options: Any) -> AddressInfo:  # noqa: ANN401 - of Node.multicast
        """Make a multicast, if the node does not have it.

        Args:
            name: Its name.
            **options: As for `Node.multicast`. A multicast that is there must have the same values.
        """
        return await self.declare("multicasts", name, **options)

    async def declare(self, kind: str, name: str, **options: Any) -> AddressInfo:  # noqa: ANN401 - those of the kind
        """Make an address, if the node does not have it.

        Args:
            kind: The kind, as in a config file: "queues", "multicasts".
            name: Its name.
            **options: As for the method of `Node` that makes the kind; no objects of Python.
        """
        body = {"arguments": options}
        return AddressInfo._of(await self._body("PUT", f"/{quoted(kind)}/{_path('declare', name)}", body))

    async def delete(self, name: str, kind: str = "queues") -> int:
        """Delete an address; its links end with `amqp:resource-deleted`. Return how many messages it had.

        Args:
            name: Its name.
            kind: Its kind, as in a config file.
        """
        body = await self._body("DELETE", f"/{quoted(kind)}/{_path('delete', name)}")
        return int(body["message_count"])

    async def purge(self, name: str) -> int:
        """Delete the messages of a queue that wait for a consumer; return how many there were."""
        return int((await self._body("DELETE", f"/queues/{_path('purge', name)}/messages"))["message_count"])

    async def move_dead_letters(self, name: str, *, to: str | None = None, most: int | None = None) -> MovedLetters:
        """Move the messages of a queue of dead letters back to the queues that they came from.

        A message that cannot be moved stays: its queue has no room, or does not exist. The annotations about its
        failure are removed from a message that is moved.

        Args:
            name: The queue of dead letters.
            to: The address that all of them go to; None: the queue that each came from.
            most: The most messages that are looked at; None: all that wait.
        """
        body: dict[str, Any] = {} if to is None else {"to": require_name("move_dead_letters", "to", to)}
        if most is not None:
            body["most"] = require_count("move_dead_letters", "most", most, 1, unit=" messages")
        found = await self._body("POST", f"/queues/{_path('move_dead_letters', name)}/dead-letters", body)
        return MovedLetters(found["moved"], found["no_room"], found["no_address"])

    async def forget_group(self, address: str, name: str) -> None:
        """Forget a consumer group of a log, which must have no members; a later group of this name begins anew.

        Args:
            address: The log.
            name: The name of the group.
        """
        group = quoted(require_name("forget_group", "name", name))
        await self._requests.request("DELETE", f"/logs/{_path('forget_group', address)}/groups/{group}")

    async def subscriptions(self, address: str | None = None) -> list[SubscriptionInfo]:
        """Return the links that clients have attached, to one address or to all."""
        query = "" if address is None else "?" + urlencode({"address": address})
        return [SubscriptionInfo(**each) for each in await self._body("GET", f"/subscriptions{query}")]

    async def connections(self) -> list[ConnectionInfo]:
        """Return the connections of clients; the user must be allowed to subscribe to `$statistics`."""
        return [ConnectionInfo(**each) for each in await self._pages("/connections", {})]

    async def links(
        self, address: str | None = None, *, container: str | None = None, most: int | None = None
    ) -> list[LinkInfo]:
        """Return what the node's ends of links tell: their numbers, and how long they were blocked.

        A user who may subscribe to `$statistics` is told of all links, another one of links to addresses that it may
        manage. The node answers in pages; links that come meanwhile may be missing.

        Args:
            address: The name of an address; None: all.
            container: The container id of a client; None: all.
            most: The most links; None: all.
        """
        if most is not None:
            require_count("links", "most", most, 1, unit=" links")
        wanted = {"address": address, "container": container}
        query = {name: value for name, value in wanted.items() if value is not None}
        return [LinkInfo(**each) for each in await self._pages("/links", query, most)]

    async def _pages(self, path: str, query: Mapping[str, str], most: int | None = None) -> list[dict[str, Any]]:
        """Return what a node lists in pages."""
        found: list[dict[str, Any]] = []
        after = 0
        while most is None or len(found) < most:
            left = {} if most is None else {"most": str(most - len(found))}
            body = await self._body("GET", f"{path}?{urlencode({**query, **left, 'after': str(after)})}")
            found += body["found"]
            after = body["next"]
            if not after:
                break
        return found

    async def end_subscription(self, number: int) -> None:
        """End a link with `amqp:link:detach-forced`; unsettled messages go back to their queue."""
        require_count("end_subscription", "number", number, 1, unit="")
        await self._requests.request("DELETE", f"/subscriptions/{number}")

    async def named_subscriptions(self, address: str) -> list[NamedSubscriptionInfo]:
        """Return the named subscriptions of a multicast, also those whose subscribers are away."""
        path = f"/multicasts/{_path('named_subscriptions', address)}/subscriptions"
        return [NamedSubscriptionInfo(**each) for each in await self._body("GET", path)]

    async def unsubscribe(self, address: str, name: str, *, container: str, user: str = "") -> None:
        """End a named subscription, and delete its messages; its link ends with `amqp:resource-deleted`.

        Args:
            address: The multicast.
            name: The name of the subscription.
            container: The container id of its subscriber.
            user: The user of its subscriber; "" for none.
        """
        path = f"/multicasts/{_path('unsubscribe', address)}/subscriptions"
        body = {"name": name, "container": container, "user": user}
        await self._requests.request("DELETE", path, body)

    async def explain(self, address: str | None = None, *, within_s: float = WITHIN_S, hops: int = HOPS) -> WaitTree:
        """Return what an address of the node waits for, or all of them, also at the other sides of their links.

        The user needs the permission to subscribe to `$statistics`.

        Args:
            address: The name of the address; None: all at which somebody waits.
            within_s: How long the answer may take, in seconds.
            hops: Over how many further connections the question goes.

        Errors: `ConfigError` for a number that is not allowed. A peer that refuses, does not answer, or answers
            nonsense is one part of the tree that says so.
        """
        return await self._links.ask_node(question_of("explain", address, within_s, hops))

    async def _body(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401
        return (await self._requests.request(method, path, body)).body


def _path(call: str, name: str) -> str:
    return quoted(require_name(call, "name", name))


class ManagementMethods:
    """The method of a `Connection` for management."""

    _links: Links

    def management(self) -> AbstractAsyncContextManager[Management]:
        """Manage the node at the other end, for the length of an `async with` block.

        Errors: `LinkDetached` if the peer has no management, or the user may not manage an address.
        Cancels: The links are detached; a request that was sent may be carried out.
        Context: One task of the connection's trio run enters and leaves the block.
        """
        return _open_management(self._links)


@async_entered("async with connection.management() as management:")
async def _open_management(links: Links) -> AsyncIterator[Management]:
    async with paired_requests(links, "management()", ADDRESS) as requests:
        yield Management(requests, links)


name_arguments("Management", Management)
