"""Running a node: its counters, its addresses removed, its users and their permissions renewed."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence

import trio

from rstreams._checks.names import CertificateUsers, require_certificate_users
from rstreams._core.beyond import HOPS, WITHIN_S, Question
from rstreams.culprits import WaitTree, culprits_of
from rstreams.errors import Condition, ConfigError, LinkDetached
from rstreams.net.links.asking import question_of
from rstreams.net.links.link_info import LinkInfo
from rstreams.net.links.sight import Sight
from rstreams.net.management import ConnectionInfo
from rstreams.net.transport.accounts import Client, UserLimits, require_limits
from rstreams.net.transport.listener import ConnectionOptions, Listener
from rstreams.net.transport.listening_place import ListeningPlace
from rstreams.net.transport.passwords import PasswordHash, require_users
from rstreams.net.transport.pump import Pump
from rstreams.net.transport.security import Admission
from rstreams.node.access import Access, Permission, require_permissions
from rstreams.node.address import Address, NodeServices
from rstreams.node.explain_address import NodeWaits
from rstreams.node.node_links import NodeLinks
from rstreams.node.rates import Rates
from rstreams.node.statistics import NodeStatistics
from rstreams.node.statistics_address import counters
from rstreams.node.watch import Watch
from rstreams.protocol.sender import LinkSubscriber


class AdministeredNode:
    """The methods of a `Node` for running it."""

    _addresses: dict[str, Address]
    _own: frozenset[str]
    _links: NodeLinks
    _listeners: list[Listener]
    _http_listeners: list[ListeningPlace]
    _options: ConnectionOptions
    _access: Access
    _watch: Watch
    _waits: NodeWaits
    _services: NodeServices
    _user_rates: Rates
    _start_soon: Callable[..., None]

    def statistics(self) -> NodeStatistics:
        """Return the counters of every address, and how many connections are open.

        A client gets the same counters, as a map, from the address `$statistics`: one snapshot for each item that it
        requests.
        """
        self._watch.look()
        ends = [*self._links.consumers, *self._links.served]
        return NodeStatistics(
            container_id=self._options.container_id,
            connections=self._open_connections,
            unsettled=sum(end.unsettled for end in ends),
            unsettled_bytes=self._options.budget.used,
            waiting=sum(end.held_back for end in ends),
            unfinished_bytes=self._options.unfinished.size,
            stored_bytes=self._services.stored.size,
            missing=dict(self._watch.missing),
            rates=self._watch.rates(),
            links=self._links.attached.blocked(),
            held_s=self._user_rates.held_s,
            store=None if self._services.store is None else self._services.store.statistics(),
            **counters(self._addresses),
        )

    def _told_statistics(self) -> NodeStatistics:
        """Return the counters for a client, which may ask again."""
        self._watch.asked()
        return self.statistics()

    def connections(self) -> list[ConnectionInfo]:
        """Return the open connections of clients, each with its user, its peer and its bytes."""
        found = (each for listener in self._listeners for each in listener.open_connections)
        return sorted((_info_of(pump, client) for pump, client in found), key=lambda each: each.number)

    def links(self, address: str | None = None) -> list[LinkInfo]:
        """Return what the node's ends of all links tell: their numbers, and how long they were blocked.

        Args:
            address: The name of an address; None: all.
        """
        return [link.info(end) for end, link in self._links.attached if address is None or link.address == address]

    def explain(self) -> Sight:
        """Return a line for each address, for instance about a queue that is full: `print(node.explain())`.

        Producers have no credit if their queue is full, or if the slowest subscriber of their multicast requests
        nothing. There is also a line for each link on which nothing goes out because its client has closed the window
        of the session, or does not renew it. A program on another machine reads the numbers from `$statistics`.
        """
        connections = self._open_connections
        heading = f"node {self._options.container_id!r:.80}: {connections} connection{'' if connections == 1 else 's'}"
        lines = (address.explain() for address in self._addresses.values())
        shut = (
            f"to {link.client.peer} from {link.address!r:.80}: the peer's session window is closed"
            for end, link in self._links.attached
            if isinstance(end, LinkSubscriber) and end.is_shut
        )
        culprits = culprits_of(self._waits.here(Question()).waits_for)
        return Sight(heading, tuple(line for line in (*lines, *shut) if line), culprits)

    async def explain_across(
        self, address: str | None = None, *, within_s: float = WITHIN_S, hops: int = HOPS
    ) -> WaitTree:
        """Return what an address waits for, or all of them, also at the other sides of their links.

        The node asks its clients over the connections that they have opened. A client of rstreams tells of its own
        side of its links, and asks the nodes to which it sends the items, and so on. `culprit` of the tree is the one
        end that all others wait for. No message and no password is in it.

        Args:
            address: The name of the address; None: all at which somebody waits.
            within_s: How long the answer may take, in seconds. A client that has not answered by then is named as
                silent.
            hops: Over how many connections the question goes.

        Errors: `ConfigError` for a number that is not allowed.
        Cancels: The questions are given up.
        Context: Any task of the node's trio run.
        """
        return await self._waits.answer(question_of("explain_across", address, within_s, hops))

    @property
    def _open_connections(self) -> int:
        return sum(listener.connections for listener in self._listeners)

    def remove(self, name: str) -> None:
        """Remove an address and its messages, also those in the node's store.

        Its links end with `amqp:resource-deleted`. Links to a responder end when the requests that it has taken are
        answered. An address of the same name that is made later begins empty. The store is written soon;
        `await address.written()` waits for that.

        Args:
            name: The name of the address.

        Errors: `ConfigError` for a name that the node does not have, an address of the node itself, or a queue that
            takes the dead letters of another one.
        """
        address = self._addresses.get(name) if isinstance(name, str) and name not in self._own else None
        if address is None:
            msg = f"remove({name!r:.80}): the node has no such address, or it is one of the node itself"
            raise ConfigError(msg)
        user = next((each.name for each in self._addresses.values() if address in each.sends_to), None)
        if user is not None:
            msg = f"remove({name!r:.80}): it takes the dead letters of {user!r:.80}"
            raise ConfigError(msg)
        for each in (name, *address.parts):
            del self._addresses[each]
            self._links.end_all(each, Condition.RESOURCE_DELETED, f"the address {each!r:.80} has been removed")
        address.forget()
        self._start_soon(address.close)

    async def renew_access(
        self,
        *,
        users: Mapping[str, str | PasswordHash] | None = None,
        certificate_users: CertificateUsers | None = None,
        permissions: Sequence[Permission] | None = None,
        limits: Mapping[str, UserLimits] | UserLimits | None = None,
        tls: Mapping[ListeningPlace, ssl.SSLContext] | None = None,
    ) -> None:
        """Replace the users, permissions and limits of the node; the values are those of `Node(...)`.

        If a user may not come in any more, its connections are closed, and its kept subscriptions (`keep_s`) are
        ended. If a link is not permitted any more, it is ended. Both get `amqp:unauthorized-access`. Limits of
        connections and links hold for new connections and links. A link that was attached without a limited rate stays
        without one.

        Args:
            users: As for `Node`.
            certificate_users: As for `Node`.
            permissions: As for `Node`.
            limits: As for `Node`.
            tls: New contexts for listeners that speak TLS, for clients that come from now on. Other listeners keep
                their contexts.

        Errors: `ConfigError` for a value that is not allowed, or that would let in everyone, or passwords in clear
            text, where a listener does not allow it (see `listen`); then nothing changes.
        Cancels: The new values are in force; some connections may still be open.
        """
        checked = require_users(users), require_certificate_users(certificate_users)
        require_permissions(permissions)
        allowed, contexts, later = require_limits(limits), dict(tls or {}), Admission(*checked)
        places: list[ListeningPlace] = [*self._listeners, *self._http_listeners]
        for place in places:
            place.check(later, contexts.get(place))
        self._options.accounts.renew(allowed)
        admission = self._options.admission
        admission.renew(*checked)
        for listener, context in contexts.items():
            listener.renew_tls(context)
        self._access.renew(permissions)
        self._links.end_forbidden()
        condition, text = Condition.UNAUTHORIZED_ACCESS.value, "the node does not let in this user any more"
        async with trio.open_nursery() as nursery:
            for listener in self._listeners:
                nursery.start_soon(
                    listener.close_clients, lambda each: not admission.lets_in(each.user), condition, text
                )
        self._links.kept.end_users(lambda user: not admission.lets_in(user), LinkDetached(condition, text))


def _info_of(pump: Pump, client: Client) -> ConnectionInfo:
    says = pump.peer_properties
    return ConnectionInfo(
        number=client.number,
        container=pump.peer_container,
        user=client.user or "",
        peer=client.peer,
        product=str(says.get("product", ""))[:80],
        version=str(says.get("version", ""))[:80],
        since=client.since,
        sessions=pump.engine.open_sessions,
        links=len(pump.engine.links.alive),
        received_bytes=pump.received_bytes,
        sent_bytes=pump.sent_bytes,
    )
