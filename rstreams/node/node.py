"""The embedded node: an AMQP 1.0 container whose addresses are streams, queues and multicasts of this process."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self, TypeVar

import trio

from rstreams import _machine
from rstreams._checks.argument_names import name_arguments
from rstreams._checks.names import CertificateUsers, require_certificate_users, require_container_id
from rstreams._checks.numbers import require_count, require_seconds
from rstreams._core.windows import WINDOW
from rstreams.errors import Condition, ConfigError, ConnectionLost
from rstreams.net._proton import LinkDriver, UnfinishedTotal
from rstreams.net.links.asking import EXPLAIN
from rstreams.net.links.draining import Drained, wait_until
from rstreams.net.links.own_run import called_elsewhere
from rstreams.net.options.limits import (
    DEFAULT_IDLE_TIMEOUT_S,
    DEFAULT_MAX_CONNECTIONS,
    DEFAULT_MAX_FRAME_BYTES,
    DEFAULT_MAX_LINKS,
    DEFAULT_MAX_MESSAGE_BYTES,
    DEFAULT_MAX_SESSIONS,
    DEFAULT_MAX_UNFINISHED_BYTES,
    DEFAULT_TOTAL_LINKS,
    DEFAULT_TOTAL_STORED_BYTES,
    DEFAULT_TOTAL_UNFINISHED_BYTES,
    ConnectionLimits,
    require_unsettled,
)
from rstreams.net.transport.accounts import Accounts, Client, UserLimits, require_limits
from rstreams.net.transport.listener import ConnectionOptions, Listener
from rstreams.net.transport.listening_place import (
    DEFAULT_HANDSHAKE_TIMEOUT_S,
    DEFAULT_MAX_HANDSHAKE_BYTES,
    DEFAULT_MAX_HANDSHAKES,
    ListeningOptions,
    ListeningPlace,
    open_place,
)
from rstreams.net.transport.passwords import PasswordHash, require_users
from rstreams.net.transport.security import Admission
from rstreams.node.access import Access, Permission
from rstreams.node.address import Address, NodeServices
from rstreams.node.administration import AdministeredNode
from rstreams.node.deadlines import Deadlines
from rstreams.node.explain_address import ExplainAddress, NodeWaits
from rstreams.node.inventory import tell_end, tell_start
from rstreams.node.management.address import MANAGEMENT, ManagementAddress
from rstreams.node.management.operations import Operations
from rstreams.node.node_addresses import NodeAddresses
from rstreams.node.node_links import CLOSING, NodeLinkOptions, NodeLinks
from rstreams.node.node_store import NodeStore
from rstreams.node.rates import Rates
from rstreams.node.statistics_address import STATISTICS, StatisticsAddress
from rstreams.node.stored_bytes import StoredBytes
from rstreams.node.watch import Watch
from rstreams.protocol.credit import require_pack
from rstreams.protocol.frames import Attach
from rstreams.protocol.unsettled import (
    DEFAULT_MAX_UNSETTLED,
    DEFAULT_MAX_UNSETTLED_BYTES,
    DEFAULT_TOTAL_UNSETTLED_BYTES,
    Budget,
)
from rstreams.runtime.at_work import AtWork
from rstreams.runtime.scope import NetworkScope
from rstreams.runtime.service import ends_in_order

T = TypeVar("T")
A = TypeVar("A", bound=Address)


class Node(NodeAddresses, AdministeredNode):
    """An AMQP 1.0 peer inside this process, for the length of an `async with` block.

    Addresses are added by `serve`, `queue`, `multicast`, `respond` and `add`, before or while it listens.

    Args:
        users: For each user the password or its `PasswordHash`, for SASL PLAIN.
        certificate_users: The users of verified client certificates, for SASL EXTERNAL: a mapping of user names by
            certificate subject ("CN=alice,O=Example"), or a function of the `rstreams.tls.ClientCertificate` that
            returns the user, or None to refuse it. If this and `users` are None, every client is let in; see `listen`.
        permissions: What users may do; everything else is refused. None: every client may publish and subscribe, and
            users and clients on this machine may also manage.
        limits: The `UserLimits` by user name, with "*" for all others; or one for each user.
        idle_timeout_s: Seconds of silence after which a client counts as dead; at least 0.2.
        max_frame_bytes: The largest frame that the node takes; larger messages come in several frames.
        max_message_bytes: The largest message that the node takes; a producer that sends a larger message loses its
            link. None: any size that `max_unfinished_bytes` allows.
        max_links: The most links of one connection.
        total_links: The most links of all connections together; a further link is refused.
        max_sessions: The most sessions of one connection.
        window_bytes: The most bytes of one producer that are granted, or received and not yet settled; granted
            messages count with the size of the latest messages. None: any number. It bounds the memory of links, not
            the messages that queues store. While one producer's link is full, the others in its AMQP session also wait.
        max_unsettled: The most items that one consumer may have without settling them, however much credit it grants.
            At the limit it gets no more items before it settles some.
        max_unsettled_bytes: The same in bytes of their messages; a single message may be larger.
        total_unsettled_bytes: The most that the unsettled deliveries of all consumers may cost together. A delivery
            costs its message and 2,048 bytes. A connection gets a part of the rest, and 131072 bytes in any case.
        max_unfinished_bytes: The most bytes of incomplete messages on one connection. Beyond it, the link with the
            largest such message is ended, with `amqp:resource-limit-exceeded`.
        total_unfinished_bytes: The same on all connections together. Beyond it, the connection with the most loses a
            link.
        total_stored_bytes: The most bytes of messages that queues and multicasts keep in memory together. An address
            gets half of the rest, and 131072 bytes in any case. Its producers wait; a message that is larger than those
            before it, and finds no room at all, is rejected with `amqp:resource-limit-exceeded`.
        expose_errors: Whether subscribers are told the text of a served stream's exception; otherwise only that it
            failed.
        pack_items: The most items that a producer may send in one delivery; 1: no packs. With more, a producer may be a
            pack ahead of the room at its address; these items wait in its link, unsettled.
        container_id: The node's name for its peers; a random one by default.
        store: The directory of durable addresses, made if it is missing. `StoreError` if it cannot be used.
        secure_delete: Whether deleted messages are overwritten in the store. Then a deletion costs as much as an
            arrival.

    Errors: An exception leaves the block unwrapped. If a connection fails, this is logged, and other connections go
        on.
    Cancels: At the end of the block every connection is closed in order, within 3 seconds.
    Context: One task enters and leaves the block; the node lives in its trio run.
    """

    def __init__(
        self,
        *,
        users: Mapping[str, str | PasswordHash] | None = None,
        certificate_users: CertificateUsers | None = None,
        permissions: Sequence[Permission] | None = None,
        limits: Mapping[str, UserLimits] | UserLimits | None = None,
        idle_timeout_s: float = DEFAULT_IDLE_TIMEOUT_S,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        max_message_bytes: int | None = DEFAULT_MAX_MESSAGE_BYTES,
        max_links: int = DEFAULT_MAX_LINKS,
        total_links: int = DEFAULT_TOTAL_LINKS,
        max_sessions: int = DEFAULT_MAX_SESSIONS,
        window_bytes: int | None = None,
        max_unsettled: int = DEFAULT_MAX_UNSETTLED,
        max_unsettled_bytes: int = DEFAULT_MAX_UNSETTLED_BYTES,
        total_unsettled_bytes: int = DEFAULT_TOTAL_UNSETTLED_BYTES,
        max_unfinished_bytes: int = DEFAULT_MAX_UNFINISHED_BYTES,
        total_unfinished_bytes: int = DEFAULT_TOTAL_UNFINISHED_BYTES,
        total_stored_bytes: int = DEFAULT_TOTAL_STORED_BYTES,
        expose_errors: bool = False,
        pack_items: int = 1,
        container_id: str | None = None,
        store: str | os.PathLike[str] | None = None,
        secure_delete: bool = False,
    ) -> None:
        require_container_id(container_id)
        unsettled = require_unsettled(max_unsettled, max_unsettled_bytes)
        budget = require_count("", "total_unsettled_bytes", total_unsettled_bytes, 1, 2**63 - 1, unit=" bytes")
        unfinished = require_count("", "total_unfinished_bytes", total_unfinished_bytes, 1, 2**63 - 1, unit=" bytes")
        stored = require_count("", "total_stored_bytes", total_stored_bytes, 1, 2**63 - 1, unit=" bytes")
        connection_limits = ConnectionLimits(
            idle_timeout_s,
            max_frame_bytes,
            max_message_bytes,
            max_links=max_links,
            max_sessions=max_sessions,
            window_bytes=window_bytes,
            max_unfinished_bytes=max_unfinished_bytes,
        )
        room = max(DEFAULT_MAX_MESSAGE_BYTES, min(max_unfinished_bytes, unfinished))
        if max_message_bytes is not None and max_message_bytes > room:
            why = "as many must be allowed by max_unfinished_bytes and total_unfinished_bytes, while they come"
            msg = f"max_message_bytes={max_message_bytes!r}: {why}"
            raise ConfigError(msg)
        self._options = ConnectionOptions(
            container_id=container_id or f"rstreams-node-{_machine.fresh_uuid()}",
            admission=Admission(require_users(users), require_certificate_users(certificate_users)),
            limits=connection_limits,
            accounts=Accounts(require_limits(limits)),
            unfinished=UnfinishedTotal(unfinished),
            budget=Budget(budget),
        )
        self._access = Access(permissions, self._options.admission.lets_in)
        self._expose_errors = expose_errors
        self._at_work = AtWork()  # handlers of `respond`
        statistics = StatisticsAddress(self._told_statistics)
        self._addresses = {statistics.name: statistics}
        options = NodeLinkOptions(
            expose_errors=expose_errors,
            pack_items=require_pack(pack_items, WINDOW),
            window_bytes=connection_limits.window_bytes or 0,
            unsettled=unsettled,
            total_links=require_count("", "total_links", total_links, 1, 2**31 - 1, unit=" links"),
        )
        rates = self._user_rates = Rates(
            trio.current_time, lambda delay_s, call: self._start_soon(_call_later, delay_s, call)
        )
        total = StoredBytes(stored)
        own = self._options.container_id
        self._links = NodeLinks(
            self._addresses, options, self._options.budget, self._access, rates, stored=total, own=own
        )
        self._waits = NodeWaits(own, self._addresses, self._links.attached)
        self._addresses[EXPLAIN] = ExplainAddress(self._waits)
        self._listeners = []
        self._http_listeners = []
        self._store = NodeStore(store, secure_delete=secure_delete)
        self._deadlines = Deadlines(self._addresses)
        self._services = NodeServices(
            now=trio.current_time,
            wake_at=self._deadlines.wake_at,
            start_soon=self._start_soon,
            find=self._links.find,
            store=self._store.store,
            may_publish=self._links.may_publish,
            stored=total,
        )
        operations = Operations(
            self,
            self._addresses,
            self._links.attached,
            self._access,
            self._links.gone_consumers,
            has_store=self._store.store is not None,
        )
        for name in MANAGEMENT:
            management = self._addresses[name] = ManagementAddress(name, operations.answer)
            management.begin(self._services)
        self._addresses[EXPLAIN].begin(self._services)
        self._own = frozenset(self._addresses)
        self._watch = Watch(self._addresses, _machine.monotonic, self._start_soon)
        self._first_tasks: list[tuple[Callable[..., Awaitable[object]], tuple[Any, ...]]] = []
        self._scope = NetworkScope()
        self._entered = False
        self._own_run: trio.lowlevel.TrioToken | None = None
        self._open = False
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Open the scope in which served streams run.

        Errors: `RuntimeError` the second time: a node has one life.
        """
        if self._entered:
            msg = "this Node has been entered before; make a new one"
            raise RuntimeError(msg)
        self._entered = self._open = True
        self._exits.push_async_callback(self._store.close)
        await self._exits.enter_async_context(self._scope)
        self._exits.push_async_callback(self._close)
        self._exits.callback(ends_in_order(lambda timeout_s: self.drain_and_close(timeout_s=timeout_s), last=True))
        self._own_run = trio.lowlevel.current_trio_token()
        tell_start(self._store, self._addresses.values())
        self._start_soon(self._deadlines.run)
        self._start_soon(self._links.gone_consumers.run)
        self._start_soon(self._links.kept.run)
        self._start_soon(self._store.run)
        for function, arguments in self._first_tasks:
            self._start_soon(function, *arguments)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Close every connection and every address, then end the scope."""
        self._open = False
        return await self._exits.__aexit__(kind, error, traceback)

    async def listen(
        self,
        place: str,
        *,
        tls: ssl.SSLContext | None = None,
        anonymous: bool = False,
        allow_plain_over_tcp: bool = False,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        max_handshakes: int = DEFAULT_MAX_HANDSHAKES,
        handshake_timeout_s: float = DEFAULT_HANDSHAKE_TIMEOUT_S,
        max_handshake_bytes: int = DEFAULT_MAX_HANDSHAKE_BYTES,
    ) -> Listener:
        """Listen at `host:port` until the node's block ends; port 0 lets the system choose.

        Args:
            place: The host and port; usual ports are 5672, and 5671 with TLS.
            tls: The context, such as `rstreams.tls.server_context` makes; the listener then speaks only TLS. It asks
                for client certificates if the context says so.
            anonymous: Whether clients of other machines may come in although the node has no users and requires no
                client certificates. Clients of this machine always may, at a loopback address. With users it has no
                effect.
            allow_plain_over_tcp: Whether passwords may come over a network that is not encrypted. On loopback addresses
                they always may.
            max_connections: The most open connections; a further client is refused, with this limit as the reason.
            max_handshakes: The most clients whose connection is not open yet. If one more comes, the address with the
                most such clients loses its oldest one.
            handshake_timeout_s: How long a client may take for TLS, SASL and open together, in seconds.
            max_handshake_bytes: The most bytes that a client may send for TLS and SASL together.

        Errors: `ConfigError` for a malformed place or an option that is not allowed; for a place that other machines
            can reach, with neither users nor required client certificates nor `anonymous`, or with passwords in clear
            text. `TransportError` if it cannot listen there, for instance because the port is in use. `RuntimeError`
            outside the block.
        """
        self._require_open("listen")
        options = ListeningOptions(
            tls=tls,
            anonymous=anonymous,
            allow_plain_over_tcp=allow_plain_over_tcp,
            max_connections=max_connections,
            max_handshakes=max_handshakes,
            handshake_timeout_s=handshake_timeout_s,
            max_handshake_bytes=max_handshake_bytes,
        )
        listener = await open_place(Listener, place, options, self._options.admission)
        self._listeners.append(listener)
        self._scope.start_soon(listener.run, self._options, self._on_attach)
        return listener

    async def listen_http(
        self,
        place: str,
        *,
        tls: ssl.SSLContext | None = None,
        anonymous: bool = False,
        allow_plain_over_tcp: bool = False,
        max_connections: int = 64,
    ) -> ListeningPlace:
        """Answer HTTP at `host:port` until the node's block ends: metrics, probes and the counters as JSON.

        There are `/metrics` for Prometheus, `/state.json`, and the probes `/livez` and `/readyz`, which need no user.
        The others need the permission to subscribe to `$statistics`. Users say who they are by Basic authentication,
        with the same passwords as AMQP clients, or by a client certificate.

        Args:
            place: The host and port; port 0 lets the system choose.
            tls: As for `listen`.
            anonymous: As for `listen`.
            allow_plain_over_tcp: As for `listen`.
            max_connections: The most open connections; a further client is told so.

        Errors: As `listen`.
        """
        self._require_open("listen_http")
        from rstreams.web.link_metrics import LinkNumbers  # noqa: PLC0415 - most nodes need no HTTP
        from rstreams.web.listener import HttpListener  # noqa: PLC0415 - most nodes need no HTTP
        from rstreams.web.pages import Pages  # noqa: PLC0415 - likewise

        options = ListeningOptions(
            tls=tls,
            anonymous=anonymous,
            allow_plain_over_tcp=allow_plain_over_tcp,
            max_connections=max_connections,
        )
        pages = Pages(
            self._told_statistics,
            lambda: (LinkNumbers(*each) for each in self._links.attached.numbers()),
            self._why_not_ready,
            lambda client: self._access.may(client, "subscribe", STATISTICS),
        )
        listener = await open_place(HttpListener, place, options, self._options.admission)
        self._http_listeners.append(listener)
        self._scope.start_soon(listener.run, pages.answer)
        return listener

    def _why_not_ready(self) -> str:
        if not self._listeners:
            return "starting"
        return "draining" if self._links.closing else ""

    def _require_open(self, call: str) -> None:
        if not self._open:
            msg = f"a Node listens inside its block: async with Node() as node: await node.{call}(...)"
            raise RuntimeError(msg)

    async def drain_and_close(self, *, timeout_s: float = 10.0) -> Drained:
        """Finish the work under way, then close every connection: for deployments.

        1. The node stops listening and refuses new links, except those for replies.
        2. Producers' credit is withdrawn. The messages that they had sent are stored, or answered.
        3. Served streams are cancelled. Their links end with `amqp:connection:forced`, after the items sent before.
        4. Consumers go on until the queues are empty and all messages are settled. The node does not wait for queues
           without consumers.
        5. The connections are closed with `amqp:connection:forced`.

        Clients with a reconnect policy go on at another node, also with served streams.

        Args:
            timeout_s: How long this may take before the connections are closed, in seconds; more than 0.

        Returns: The numbers of items that were not settled in time, and of messages that are lost. The log has a line
            that tells at which addresses messages are lost, or kept in the store.

        Errors: `ConfigError` for a time that is not allowed, or in another thread. `RuntimeError` in a handler of
            `respond`, because it would wait for itself.
        Cancels: The connections are closed at the end of the node's block.
        Context: A task of the node's trio run; waits.
        """
        require_seconds("drain_and_close", "timeout_s", timeout_s)
        if self._own_run is None:
            msg = "a Node is drained inside its block: async with Node() as node: await node.drain_and_close()"
            raise RuntimeError(msg)
        error = called_elsewhere(self._own_run, "drain_and_close()", "the node")
        if error is not None:
            raise error
        self._at_work.refuse("drain_and_close()", "this node")
        for listener in self._listeners:
            listener.stop()
        self._links.drain()
        try:
            await wait_until(self._is_through, trio.current_time() + timeout_s)
        finally:  # also if the waiting is cancelled, as a second signal does
            drained = Drained(
                given_back=sum(end.in_hand for end in (*self._links.producers, *self._links.repliers)),
                outcome_unknown=sum(end.unsettled for end in (*self._links.consumers, *self._links.served)),
                left=sum(address.left for address in self._addresses.values()),
            )
            tell_end(drained, self._addresses.values())
        await self._close_connections()
        return drained

    def _is_through(self) -> bool:
        return self._links.at_rest and all(address.at_rest for address in self._addresses.values())

    async def _close(self) -> None:
        with trio.CancelScope(shield=True):
            self._links.kept.end_all(ConnectionLost(CLOSING))
            async with AsyncExitStack() as ends:
                for address in self._addresses.values():
                    ends.push_async_callback(address.close)
                await self._close_connections()

    async def _close_connections(self) -> None:
        async with trio.open_nursery() as nursery:
            for listener in self._listeners:
                nursery.start_soon(listener.close, Condition.CONNECTION_FORCED.value, CLOSING)

    def _start_soon(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:  # noqa: ANN401
        if self._entered:
            self._scope.start_soon(function, *arguments)
        else:
            self._first_tasks.append((function, arguments))

    def _on_attach(self, client: Client, driver: LinkDriver, frame: Attach) -> None:
        self._links.attach(client, driver, frame)


async def _call_later(delay_s: float, function: Callable[[], None]) -> None:
    await trio.sleep(delay_s)
    function()


name_arguments("Node", Node, NodeAddresses)
