"""The embedded node: an AMQP 1.0 container whose addresses are streams, queues and multicasts of this process."""

from __future__ import annotations

import os
import ssl
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import trio

from rstreams._checks.argument_names import name_arguments
from rstreams._checks.names import CertificateUsers, require_certificate_users, require_container_id
from rstreams._checks.numbers import require_count, require_seconds
from rstreams.abc import Publisher
from rstreams.errors import Condition, ConfigError, ConnectionLost
from rstreams.message import decode_body
from rstreams.net._proton import LinkDriver, UnfinishedTotal
from rstreams.net.connection import DEFAULT_WINDOW
from rstreams.net.links.draining import Drained, wait_until
from rstreams.net.links.encoding import require_encode
from rstreams.net.links.home import Home
from rstreams.net.options.limits import (
    DEFAULT_IDLE_TIMEOUT_S,
    DEFAULT_MAX_FRAME_BYTES,
    DEFAULT_MAX_LINKS,
    DEFAULT_MAX_MESSAGE_BYTES,
    DEFAULT_MAX_SESSIONS,
    DEFAULT_MAX_UNFINISHED_BYTES,
    DEFAULT_TOTAL_UNFINISHED_BYTES,
    ConnectionLimits,
    require_unsettled,
)
from rstreams.net.request_reply.answers import Answering, Handler
from rstreams.net.transport.accounts import Accounts, Client, UserLimits, require_limits
from rstreams.net.transport.listener import (
    DEFAULT_HANDSHAKE_TIMEOUT_S,
    DEFAULT_MAX_CONNECTIONS,
    DEFAULT_MAX_HANDSHAKE_BYTES,
    DEFAULT_MAX_HANDSHAKES,
    ConnectionOptions,
    Listener,
    ListeningOptions,
    open_listener,
)
from rstreams.net.transport.passwords import PasswordHash, require_users
from rstreams.net.transport.security import Admission
from rstreams.node.access import Access, Permission
from rstreams.node.address import Address, NodeServices, require_address_name
from rstreams.node.administration import AdministeredNode
from rstreams.node.deadlines import Deadlines
from rstreams.node.durable_queue import DEFAULT_IN_MEMORY, WhenFull
from rstreams.node.log import LogAddress
from rstreams.node.log_keys import DEFAULT_KEY, Key
from rstreams.node.log_options import LogOptions
from rstreams.node.management.address import MANAGEMENT, ManagementAddress
from rstreams.node.management.operations import Operations
from rstreams.node.multicast import MulticastAddress
from rstreams.node.node_links import CLOSING, NodeLinks
from rstreams.node.queue import Queue
from rstreams.node.queue_options import Fsync, QueueOptions, find_dead_letters
from rstreams.node.rates import Rates
from rstreams.node.redelivery import RedeliveryDelay
from rstreams.node.request_address import RequestAddress
from rstreams.node.seen_messages import DEFAULT_PRODUCERS
from rstreams.node.served import Served
from rstreams.node.statistics_address import StatisticsAddress
from rstreams.node.storage import Storage
from rstreams.protocol.credit import require_pack
from rstreams.protocol.frames import Attach
from rstreams.protocol.unsettled import (
    DEFAULT_MAX_UNSETTLED,
    DEFAULT_MAX_UNSETTLED_BYTES,
    DEFAULT_TOTAL_UNSETTLED_BYTES,
    Budget,
)
from rstreams.runtime.scope import NetworkScope
from rstreams.runtime.service import ends_in_order

T = TypeVar("T")
A = TypeVar("A", bound=Address)


class Node(AdministeredNode):
    """An AMQP 1.0 peer inside this process, for the length of an `async with` block.

    Addresses are added by `serve`, `queue`, `multicast`, `respond` and `add`, before or while it listens.

    Args:
        users: For each user the password or its `PasswordHash`, for SASL PLAIN.
        certificate_users: The users of verified client certificates, for SASL EXTERNAL: a mapping of user names by
            certificate subject ("CN=alice,O=Example"), or a function of the `rstreams.tls.ClientCertificate` that
            returns the user, or None to refuse it. If this and `users` are None, every client is let in.
        permissions: What users may do; all else is refused. None: every client may publish and subscribe, and users and
            clients on this machine may also manage.
        limits: The `UserLimits` by user name, with "*" for all others; or one for each user.
        idle_timeout_s: Seconds of silence after which a client counts as dead; at least 0.2.
        max_frame_bytes: The largest frame taken; larger messages come in several.
        max_message_bytes: The largest message taken; a producer that sends a larger one loses its link. None: any size
            that `max_unfinished_bytes` allows.
        max_links: The most links of one connection.
        max_sessions: The most sessions of one connection.
        window_bytes: The most bytes that one producer may have granted, received and not yet settled; grants are
            counted by the sizes of its latest messages. None: any number. It bounds the memory of links, not the
            messages that queues store. While one producer's link is full, the others in its AMQP session also wait.
        max_unsettled: The most items that one consumer may have without settling them, however much credit it grants.
            At the limit it gets no more before it settles some.
        max_unsettled_bytes: The same in bytes of their messages; a single message may be larger.
        total_unsettled_bytes: The most that the unsettled deliveries of all consumers may cost together. A delivery
            costs its message and 2,048 bytes. A connection gets a part of the rest, and 131072 bytes in any case.
        max_unfinished_bytes: The most bytes of messages on one connection whose end has not come. Over it the link with
            the largest one is ended, with `amqp:resource-limit-exceeded`.
        total_unfinished_bytes: The same on all connections together. Over it the connection with the most loses a link.
        expose_errors: Whether subscribers are told the text of a served stream's exception; otherwise only that it
            failed.
        pack_items: The most items that a producer may send in one delivery; 1: no packs. With more, a producer may be a
            pack ahead of the room at its address; these items wait in its link, unsettled.
        container_id: The node's name for its peers; a random one by default.
        store: The directory of durable addresses, made if it is missing. `StoreError` if it cannot be used.

    Errors: An exception leaves the block unwrapped. The failure of a connection is logged, and the others go on.
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
        max_sessions: int = DEFAULT_MAX_SESSIONS,
        window_bytes: int | None = None,
        max_unsettled: int = DEFAULT_MAX_UNSETTLED,
        max_unsettled_bytes: int = DEFAULT_MAX_UNSETTLED_BYTES,
        total_unsettled_bytes: int = DEFAULT_TOTAL_UNSETTLED_BYTES,
        max_unfinished_bytes: int = DEFAULT_MAX_UNFINISHED_BYTES,
        total_unfinished_bytes: int = DEFAULT_TOTAL_UNFINISHED_BYTES,
        expose_errors: bool = False,
        pack_items: int = 1,
        container_id: str | None = None,
        store: str | os.PathLike[str] | None = None,
    ) -> None:
        require_container_id(container_id)
        unsettled = require_unsettled(max_unsettled, max_unsettled_bytes)
        budget = require_count("", "total_unsettled_bytes", total_unsettled_bytes, 1, 2**63 - 1, unit=" bytes")
        unfinished = require_count("", "total_unfinished_bytes", total_unfinished_bytes, 1, 2**63 - 1, unit=" bytes")
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
            container_id=container_id or f"rstreams-node-{uuid.uuid4()}",
            admission=Admission(require_users(users), require_certificate_users(certificate_users)),
            limits=connection_limits,
            accounts=Accounts(require_limits(limits)),
            unfinished=UnfinishedTotal(unfinished),
            budget=Budget(budget),
        )
        self._access = Access(permissions)
        self._expose_errors = expose_errors
        self._storage = Storage(store)
        statistics = StatisticsAddress(self.statistics)
        self._addresses = {statistics.name: statistics}
        self._links = NodeLinks(
            self._addresses,
            expose_errors=expose_errors,
            pack_items=require_pack(pack_items, DEFAULT_WINDOW),
            window_bytes=connection_limits.window_bytes or 0,
            unsettled=unsettled,
            budget=self._options.budget,
            access=self._access,
            rates=Rates(trio.current_time, lambda delay_s, call: self._start_soon(_call_later, delay_s, call)),
        )
        self._listeners = []
        self._deadlines = Deadlines(self._addresses)
        self._services = NodeServices(
            now=trio.current_time,
            wake_at=self._deadlines.wake_at,
            start_soon=self._start_soon,
            find=self._links.find,
            store=self._storage.store,
            may_publish=self._links.may_publish,
        )
        operations = Operations(self, self._addresses, self._links.attached, self._access)
        for name in MANAGEMENT:
            management = self._addresses[name] = ManagementAddress(name, operations.answer)
            management.begin(self._services)
        self._own = frozenset(self._addresses)
        self._first_tasks: list[tuple[Callable[..., Awaitable[object]], tuple[Any, ...]]] = []
        self._scope = NetworkScope()
        self._entered = False
        self._home: Home | None = None
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
        self._exits.push_async_callback(self._storage.close)
        await self._exits.enter_async_context(self._scope)
        self._exits.push_async_callback(self._close)
        self._exits.callback(ends_in_order(lambda timeout_s: self.drain_and_close(timeout_s=timeout_s), last=True))
        self._home = Home()
        self._start_soon(self._deadlines.run)
        self._start_soon(self._links.leftovers.run)
        self._start_soon(self._links.kept.run)
        self._start_soon(self._storage.run)
        for function, arguments in self._first_tasks:
            self._start_soon(function, *arguments)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Close every connection and every address, then end the scope."""
        self._open = False
        return await self._exits.__aexit__(kind, error, traceback)

    def serve(
        self,
        address: str,
        publisher: Publisher[T],
        *,
        encode: Callable[[T], object] | None = None,
        keep_s: float = 0.0,
    ) -> None:
        """Serve a stream: each link that a peer attaches to `address` gets its own subscription.

        With `keep_s`, a subscription outlives its connection. A peer with the same container id that attaches a link of
        the same name in this time goes on with it: first come the items that were not settled, then the next ones.
        A client with a `Reconnect` policy does this by itself. With settlement "at_least_once" no item is missing; with
        "effectively_once" also none comes twice. A client of "effectively_once" that returns too late gets an error,
        because the stream would begin again; other clients get the stream from its first item.

        Args:
            address: The name that peers attach to.
            publisher: The stream or other publisher; its items are `Message`s, or values that become a body.
            encode: Returns the `Message` or the body for an item, as for `Connection.publish`.
            keep_s: How long a subscription is kept after its connection is lost, in seconds; 0: it is cancelled at
                once. At most 1,024 subscriptions of a node are kept at a time, within `total_unsettled_bytes`. Beyond,
                those that have been away longest are ended.

        Demand: Each link's credit reaches `publisher` as the demand of its subscription.
        Errors: `ConfigError` for a name that is taken or not allowed, or a `publisher` that is not a Publisher. An item
            that cannot be encoded or sent ends its subscription, and the log says which item it was.
        """
        require_encode("serve", encode)
        self.add(Served(address, publisher, encode, keep_s=keep_s))

    def queue(
        self,
        name: str,
        *,
        capacity: int | None = 1024,
        dead_letters: str | None = None,
        max_deliveries: int | None = None,
        redelivery_delay_s: float = 0.0,
        redelivery_delay_factor: float = 2.0,
        max_redelivery_delay_s: float = 60.0,
        dedup_producers: int = DEFAULT_PRODUCERS,
        when_full: WhenFull = "block",
        durable: bool = False,
        capacity_bytes: int | None = None,
        capacity_in_memory: int = DEFAULT_IN_MEMORY,
        fsync: Fsync = "always",
        fsync_interval_s: float = 1.0,
    ) -> Queue:
        """Add a queue: messages wait for one of its competing consumers.

        A message is not delivered after its time to live or its expiry time.

        Args:
            name: The name that producers and consumers attach to.
            capacity: The most messages stored and granted to producers together; None: any number, if it is durable.
            dead_letters: The name of another queue, made before this one, for messages that are rejected, have failed
                `max_deliveries` times or are too old; annotations tell the reason. None: they are dropped and counted.
            max_deliveries: How many attempts to deliver a message may fail; the loss of a link counts as one for each
                message that its consumer had. None: any number.
            redelivery_delay_s: How long a message waits after its first failed attempt, in seconds; 0: it is handed
                over again at once. Other messages may pass it. It keeps its place in the capacity.
            redelivery_delay_factor: The factor by which the wait grows with each further failed attempt; at least 1.
            max_redelivery_delay_s: The longest wait, in seconds.
            dedup_producers: How many producers of "effectively_once" are remembered. For one more, the one that has
                been silent longest is forgotten.
            when_full: "block": producers get no credit while the queue is full. "reject": messages are rejected.
                "drop_oldest": the oldest message that no consumer has is dropped. "drop_newest": the message that comes
                is accepted and dropped. Dropped messages are counted, and do not become dead letters.
            durable: Whether the messages are in the node's store, and come back when the node starts again.
            capacity_bytes: The most bytes stored, about, if it is durable; None: any number.
            capacity_in_memory: If it is durable, the most messages that wait in memory, and on their way to the disk.
            fsync: When a message of a durable queue is accepted. "always": when it is synced to the disk. "interval"
                and "never": when the operating system has it; a loss of power may then lose messages.
            fsync_interval_s: For "interval": after how many seconds at most messages are synced.

        Errors: `ConfigError` for a name that is taken or not allowed, a number below 1, or a `dead_letters` that the
            node does not have yet (dead letters cannot go in a circle), or options that contradict each other.
        """
        options = QueueOptions(
            capacity=capacity,
            capacity_bytes=capacity_bytes,
            capacity_in_memory=capacity_in_memory,
            when_full=when_full,
            durable=durable,
            fsync=fsync,
            fsync_interval_s=fsync_interval_s,
            max_deliveries=max_deliveries,
            redelivery=RedeliveryDelay(redelivery_delay_s, redelivery_delay_factor, max_redelivery_delay_s),
            expose_errors=self._expose_errors,
            dedup_producers=dedup_producers,
        )
        return self.add(options.make(name, find_dead_letters(self._addresses, name, dead_letters), self._storage))

    def multicast(
        self, name: str, *, overflow: Literal["block", "drop_oldest"] = "block", capacity: int = 256
    ) -> MulticastAddress:
        """Add a multicast: each subscriber gets its own copy of the items that are sent while it is subscribed.

        Args:
            name: The name that publishers and subscribers attach to.
            overflow: "block": the publishers' credit is the slowest subscriber's. "drop_oldest": they always have
                credit, and a slow subscriber loses its oldest items, which are counted.
            capacity: The most items granted to publishers, or kept for one subscriber.

        Errors: `ConfigError` for a name that is taken or not allowed, another overflow, or a capacity below 1.
        """
        return self.add(MulticastAddress(name, overflow, capacity))

    def log(
        self,
        name: str,
        *,
        partitions: int = 1,
        key: Key = DEFAULT_KEY,
        retention_s: float | None = None,
        retention_bytes: int | None = None,
        retention_items: int | None = None,
        compact: bool = False,
        tombstones_s: float = 86400.0,
        fsync: Fsync = "always",
        fsync_interval_s: float = 1.0,
    ) -> LogAddress:
        """Add a log: messages stay when they have been read, and are read from any offset, as often as wanted.

        Producers attach to the log. Readers attach to it with `Connection.stream(name, start=...)`; with several
        partitions to one of them, `name-0`, `name-1` and so on. Members of a group attach to the log with
        `Connection.stream(name, group=...)` and share the partitions. The log is in the node's store. Without a store
        it is in memory, and needs a limit.

        Args:
            name: The name that producers, readers and members attach to.
            partitions: How many partitions there are. The order of messages holds within each.
            key: Where the key of a message is, by which its partition is found: the name of a message annotation, or a
                function of the `Message`. A message without a key goes to the partition whose turn it is.
            retention_s: How long messages are kept, in seconds; None: for ever.
            retention_bytes: The bytes that each partition keeps; older messages are deleted. None: any number.
            retention_items: The messages that each partition keeps; older ones are deleted. None: any number.
            compact: Whether a message is deleted when a later one of its partition has the same key. A message without
                a body deletes the earlier ones of its key.
            tombstones_s: How long such a message without a body stays, in seconds.
            fsync: As for `queue`.
            fsync_interval_s: As for `queue`.

        Errors: `ConfigError` for a name that is taken or not allowed, or another option that is not allowed. A reader
            that asks for an offset that is gone is refused with `amqp:not-found`.
        """
        options = LogOptions(
            partitions=partitions,
            key=key,
            retention_s=retention_s,
            retention_bytes=retention_bytes,
            retention_items=retention_items,
            compact=compact,
            tombstones_s=tombstones_s,
            fsync=fsync,
            fsync_interval_s=fsync_interval_s,
            start="next",
        )
        return self._add_log(name, options)

    def latest(
        self,
        name: str,
        *,
        key: Key = DEFAULT_KEY,
        tombstones_s: float = 86400.0,
        fsync: Fsync = "always",
        fsync_interval_s: float = 1.0,
    ) -> LogAddress:
        """Add an address for the last value of each key: a reader gets these values, then each change as it comes.

        It is a compacted log whose links begin with the first message.

        Args:
            name: The name that producers and readers attach to.
            key: As for `log`.
            tombstones_s: As for `log`.
            fsync: As for `queue`.
            fsync_interval_s: As for `queue`.

        Errors: As `log`.
        """
        options = LogOptions(
            partitions=1,
            key=key,
            retention_s=None,
            retention_bytes=None,
            retention_items=None,
            compact=True,
            tombstones_s=tombstones_s,
            fsync=fsync,
            fsync_interval_s=fsync_interval_s,
            start="first",
        )
        latest = self._add_log(name, options)
        latest.table = "latest"
        return latest

    def _add_log(self, name: str, options: LogOptions) -> LogAddress:
        log, parts = options.make(name, self._storage)
        for address in (log, *parts):
            self._require_free(address.name)
        for part in parts:
            self.add(part)
        return self.add(log)

    def respond(
        self,
        address: str,
        handler: Handler,
        *,
        concurrency: int = 16,
        decode: Callable[[bytes], Any] = decode_body,
        encode: Callable[[Any], object] | None = None,
        expose_errors: bool | None = None,
    ) -> None:
        """Answer the requests sent to `address` here, without a queue in between; see `Connection.respond`.

        Args:
            address: The name that requesters attach to.
            handler: As for `Connection.respond`. It runs in the node's scope.
            concurrency: The most requests in the handler at a time, and granted to one requester.
            decode: As for `Connection.respond`.
            encode: As for `Connection.respond`.
            expose_errors: As for `Connection.respond`; None: as the node's.

        Demand: A requester is granted `concurrency` requests that have not been answered. The demand for a stream of
            replies is its receiver's.
        Errors: `TypeError` for a handler that is not a function; `ConfigError` for a name that is taken or not allowed,
            or a concurrency below 1.
        """
        expose = self._expose_errors if expose_errors is None else expose_errors
        require_encode("respond", encode)
        self.add(RequestAddress(Answering(address, handler, decode, expose, encode), concurrency))

    def add(self, address: A) -> A:
        """Add an address of any kind; the other methods that add one call this. A program may add its own kind.

        `docs/extend/address-kind.md` says how a kind is written.

        Args:
            address: The address; peers attach to its `name`.

        Returns: The same address.

        Errors: `ConfigError` for a name that is taken or not allowed, or a value that is not an `Address`.
        """
        if not isinstance(address, Address):
            msg = f"add({address!r:.80}): it must be a rstreams.node.Address"
            raise ConfigError(msg)
        name = require_address_name(address.kind, getattr(address, "name", ""))
        self._require_free(name)
        self._addresses[name] = address
        address.begin(self._services)
        return address

    def _require_free(self, name: str) -> None:
        if name in self._addresses:
            msg = f"address {name!r}: the node has one of this name already"
            raise ConfigError(msg)

    async def listen(
        self,
        place: str,
        *,
        tls: ssl.SSLContext | None = None,
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
            allow_plain_over_tcp: Whether passwords may come over a network that is not encrypted. On loopback addresses
                they always may.
            max_connections: The most open connections; a further client is refused with that reason.
            max_handshakes: The most clients whose connection is not open yet; for a further one the oldest is closed.
            handshake_timeout_s: How long a client may take for TLS, SASL and open together, in seconds.
            max_handshake_bytes: The most bytes that a client may send for TLS and SASL together.

        Errors: `ConfigError` for a malformed place or an option that is not allowed, such as users without TLS for a
            place that other machines can reach. `TransportError` if it cannot listen there, for instance because the
            port is in use. `RuntimeError` outside the block.
        """
        if not self._open:
            msg = "a Node listens inside its block: async with Node() as node: await node.listen(...)"
            raise RuntimeError(msg)
        options = ListeningOptions(
            tls=tls,
            allow_plain_over_tcp=allow_plain_over_tcp,
            max_connections=max_connections,
            max_handshakes=max_handshakes,
            handshake_timeout_s=handshake_timeout_s,
            max_handshake_bytes=max_handshake_bytes,
        )
        listener = await open_listener(place, options, self._options.admission)
        self._listeners.append(listener)
        self._scope.nursery.start_soon(listener.run, self._options, self._on_attach)
        return listener

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
            timeout_s: How long that may take before the connections are closed, in seconds; more than 0.

        Returns: The items that were not settled in time, and the messages that are left in the queues and lost.

        Errors: `ConfigError` for a time that is not allowed, or in another thread.
        Cancels: The connections are closed at the end of the node's block.
        Context: A task of the node's trio run; waits.
        """
        require_seconds("drain_and_close", "timeout_s", timeout_s)
        if self._home is None:
            msg = "a Node is drained inside its block: async with Node() as node: await node.drain_and_close()"
            raise RuntimeError(msg)
        error = self._home.elsewhere("drain_and_close()", "the node")
        if error is not None:
            raise error
        for listener in self._listeners:
            listener.stop()
        self._links.drain()
        await wait_until(self._is_through, trio.current_time() + timeout_s)
        drained = Drained(
            given_back=sum(end.in_hand for end in (*self._links.producers, *self._links.repliers)),
            outcome_unknown=sum(end.unsettled for end in (*self._links.consumers, *self._links.served)),
            left=sum(address.left for address in self._addresses.values()),
        )
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
            self._scope.nursery.start_soon(function, *arguments)
        else:
            self._first_tasks.append((function, arguments))

    def _on_attach(self, client: Client, driver: LinkDriver, frame: Attach) -> None:
        self._links.attach(client, driver, frame)


async def _call_later(delay_s: float, function: Callable[[], None]) -> None:
    await trio.sleep(delay_s)
    function()


name_arguments("Node", Node)
