"""The embedded node: an AMQP 1.0 container whose addresses are streams, queues and multicasts of this process."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import trio

from rstreams._core.argument_names import name_arguments
from rstreams._core.times import require_seconds
from rstreams.abc import Publisher
from rstreams.errors import Condition, ConfigError
from rstreams.message import decode_body
from rstreams.net._proton import LinkDriver, UnfinishedTotal
from rstreams.net.connection import DEFAULT_WINDOW
from rstreams.net.links.draining import Drained, wait_until
from rstreams.net.links.encoding import check_encode, encoded_for
from rstreams.net.links.home import Home
from rstreams.net.links.sight import Sight
from rstreams.net.options.limits import (
    DEFAULT_IDLE_TIMEOUT_S,
    DEFAULT_MAX_FRAME_BYTES,
    DEFAULT_MAX_LINKS,
    DEFAULT_MAX_MESSAGE_BYTES,
    DEFAULT_MAX_SESSIONS,
    DEFAULT_MAX_UNFINISHED_BYTES,
    DEFAULT_TOTAL_UNFINISHED_BYTES,
    ConnectionLimits,
    check_count,
    check_unsettled,
)
from rstreams.net.options.names import CertificateUsers, check_certificate_users, check_container_id, check_users
from rstreams.net.request_reply.answers import Answering, Handler
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
from rstreams.net.transport.security import Admission
from rstreams.node._expiry import Expiry
from rstreams.node._lifetime import Clock
from rstreams.node._links import CLOSING, Address, Links
from rstreams.node._redelivery import RedeliveryDelay
from rstreams.node._seen import DEFAULT_PRODUCERS
from rstreams.node._sight import Statistics, state_of
from rstreams.node.multicast import Multicast
from rstreams.node.queue import Queue
from rstreams.node.responding import LocalReplies, Responding, as_takes
from rstreams.node.served import Served
from rstreams.node.statistics import NodeStatistics
from rstreams.protocol.credit import check_pack
from rstreams.protocol.frames import Attach
from rstreams.protocol.unsettled import (
    DEFAULT_MAX_UNSETTLED,
    DEFAULT_MAX_UNSETTLED_BYTES,
    DEFAULT_TOTAL_UNSETTLED_BYTES,
    Budget,
)
from rstreams.runtime.scope import Scope
from rstreams.runtime.service import ends_in_order
from rstreams.sources import generate

T = TypeVar("T")


class Node:
    """An AMQP 1.0 peer inside this process, for the length of an `async with` block.

    Its addresses are added by `serve`, `queue` and `multicast`, before or while it listens.

    Args:
        users: Passwords by user name, for SASL PLAIN.
        certificate_users: Who the owner of a verified client certificate is, for SASL EXTERNAL: a mapping of user names
            by certificate subject ("CN=alice,O=Example"), or a function of the `rstreams.tls.ClientCertificate` that
            returns the user, or None for nobody. If this and `users` are None, every client is let in.
        idle_timeout_s: Seconds of silence after which a client counts as dead; at least 0.2.
        max_frame_bytes: The largest frame taken; larger messages come in several.
        max_message_bytes: The largest message taken; a producer that sends a larger one loses its link. None: any size
            that `max_unfinished_bytes` lets come.
        max_links: The most links of one connection.
        max_sessions: The most sessions of one connection.
        window_bytes: The most bytes that one producer may have on its way here: granted as expected by the sizes of
            what came last, received and not yet settled. None: any number. It bounds what links keep, not what queues
            store. While one producer's link is full, the others in its AMQP session wait with it.
        max_unsettled: The most items that one consumer may have without settling them, whatever credit it grants. It
            waits then, and gets more when it has settled some.
        max_unsettled_bytes: The same in bytes of their messages; one alone may have more.
        total_unsettled_bytes: What the unsettled deliveries of all consumers may cost together, where one costs its
            message and 2,048 bytes. A connection gets a part of what is left of it, and 131072 bytes in any case.
        max_unfinished_bytes: The most bytes of messages that have begun to come, and have not come whole, on one
            connection. Over it the link with the largest one is ended, with `amqp:resource-limit-exceeded`.
        total_unfinished_bytes: The same on all connections together. Over it the connection with the most loses a link.
        expose_errors: Whether the text of a served stream's exception goes to subscribers; else only that it failed.
        pack_items: The most items that a producer may send in one delivery; 1 for none. With more a producer may be a
            pack ahead of what its address has room for; that waits in its link, unsettled.
        container_id: The node's name for its peers; a random one by default.

    Errors: What leaves the block leaves it unwrapped. One connection's failure is logged and touches no other.
    Cancels: At the end of the block every connection is closed in order, within 3 seconds.
    Context: One task enters and leaves the block; the node lives in its trio run.
    """

    def __init__(
        self,
        *,
        users: Mapping[str, str] | None = None,
        certificate_users: CertificateUsers | None = None,
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
    ) -> None:
        check_container_id(container_id)
        unsettled = check_unsettled(max_unsettled, max_unsettled_bytes)
        budget = check_count("total_unsettled_bytes", total_unsettled_bytes, "bytes", most=2**63 - 1)
        unfinished = check_count("total_unfinished_bytes", total_unfinished_bytes, "bytes", most=2**63 - 1)
        limits = ConnectionLimits(
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
            admission=Admission(check_users(users), check_certificate_users(certificate_users)),
            limits=limits,
            unfinished=UnfinishedTotal(unfinished),
            budget=Budget(budget),
        )
        self._expose_errors = expose_errors
        self._addresses: dict[str, Address] = {}
        self._links = Links(
            self._addresses,
            generate(None, lambda _: (self.statistics().as_dict(), None)),
            expose_errors=expose_errors,
            pack_items=check_pack(pack_items, DEFAULT_WINDOW),
            window_bytes=limits.window_bytes or 0,
            unsettled=unsettled,
        )
        self._listeners: list[Listener] = []
        self._expiry = Expiry()
        self._scope = Scope()
        self._entered = False
        self._home: Home | None = None
        self._open = False

    async def __aenter__(self) -> Self:
        """Open the scope in which served streams run.

        Errors: `RuntimeError` the second time: a node has one life.
        """
        if self._entered:
            msg = "this Node has been entered before; make a new one"
            raise RuntimeError(msg)
        self._entered = self._open = True
        await self._scope.__aenter__()
        self._home = Home()
        self._scope.nursery.start_soon(self._expiry.run)
        self._forget = ends_in_order(lambda timeout_s: self.drain_and_close(timeout_s=timeout_s), last=True)
        self._scope.nursery.start_soon(self._links.leftovers.run)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Close every connection, then end the scope."""
        self._open = False
        self._forget()
        with trio.CancelScope(shield=True):
            await self._close_connections()
        return await self._scope.__aexit__(kind, error, traceback)

    def serve(self, address: str, publisher: Publisher[T], *, encode: Callable[[T], object] | None = None) -> None:
        """Serve a stream: whoever attaches to `address` gets a subscription of its own.

        Args:
            address: The name peers use.
            publisher: The stream or other publisher; its items are `Message`s, or values that become a body.
            encode: Makes of each item what is sent, as for `Connection.publish`. An item at which it raises ends the
                subscription that it was for, and the log says which item it was.

        Demand: Each subscriber's link credit reaches `publisher` as its subscription's demand.
        Errors: `ConfigError` for a name that is taken or cannot be, or a `publisher` that is none.
        """
        check_encode("serve", encode)
        served = Served(address, publisher)
        served.publisher = encoded_for(address, publisher, encode)
        self._add(served)

    def queue(
        self,
        name: str,
        *,
        capacity: int = 1024,
        dead_letters: str | None = None,
        max_deliveries: int | None = None,
        redelivery_delay_s: float = 0.0,
        redelivery_delay_factor: float = 2.0,
        max_redelivery_delay_s: float = 60.0,
        dedup_producers: int = DEFAULT_PRODUCERS,
    ) -> Queue:
        """Add a queue: messages wait for one of its competing consumers.

        A message with a time to live or an expiry time is never delivered when that is over.

        Args:
            name: The name peers use, producers and consumers.
            capacity: The most messages stored and granted to producers together; producers get credit for the rest.
            dead_letters: The name of another queue, made before this one, for messages that are rejected, have failed
                `max_deliveries` times or are too old; annotations say why. None: they are dropped, and counted.
            max_deliveries: How many attempts to deliver a message may fail; a link that is lost counts as one for each
                message that its consumer had. None: any number.
            redelivery_delay_s: How long a message waits after its first failed attempt, in seconds, before it is
                handed over again; 0: not at all. Others pass it meanwhile, so their order changes; it keeps its place
                in the capacity.
            redelivery_delay_factor: How many times as long it waits after each further failed attempt; at least 1.
            max_redelivery_delay_s: The longest that it waits, in seconds.
            dedup_producers: How many producers of "effectively_once" are remembered: for one more, the one not heard
                of for longest is forgotten.

        Errors: `ConfigError` for a name that is taken or cannot be, a number below 1, or a queue for dead letters that
            there is not, or not yet; so there can be no circle of them.
        """
        queue = Queue(
            name,
            capacity,
            dead_letters=self._dead_letters(name, dead_letters),
            max_deliveries=max_deliveries,
            redelivery=RedeliveryDelay(redelivery_delay_s, redelivery_delay_factor, max_redelivery_delay_s),
            expose_errors=self._expose_errors,
            dedup_producers=dedup_producers,
            clock=Clock(now=trio.current_time),
            on_deadline=self._expiry.note,
        )
        self._add(queue)
        self._expiry.queues.append(queue)
        return queue

    def multicast(
        self, name: str, *, overflow: Literal["block", "drop_oldest"] = "block", capacity: int = 256
    ) -> Multicast:
        """Add a multicast: each subscriber gets its own copy of what is sent while it is there.

        Args:
            name: The name peers use, publishers and subscribers.
            overflow: "block": the publishers' credit is the slowest subscriber's. "drop_oldest": they always have
                credit, and a subscriber that lags loses its oldest items, which are counted.
            capacity: The most items granted to publishers, or kept for one subscriber.

        Errors: `ConfigError` for a name that is taken or cannot be, an overflow that is neither, a capacity below 1.
        """
        multicast = Multicast(name, overflow, capacity)
        self._add(multicast)
        return multicast

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
        """Answer the requests sent to `address` here, with no queue in between; see `Connection.respond`.

        Args:
            address: The name peers use.
            handler: As for `Connection.respond`. It runs in the node's scope.
            concurrency: The most requests in the handler at a time, and granted to one requester.
            decode: As for `Connection.respond`.
            encode: As for `Connection.respond`.
            expose_errors: As for `Connection.respond`; None: as the node's.

        Demand: A requester is granted `concurrency` requests that have not been answered. A stream of replies is asked
            for what its receiver asks for.
        Errors: `ConfigError` for a name that is taken or cannot be, a handler that is none, a concurrency below 1.
        """
        expose = self._expose_errors if expose_errors is None else expose_errors
        check_encode("respond", encode)
        answering = Answering(address, handler, decode, expose, encode)
        replies = LocalReplies(lambda name: as_takes(self._links.find(name)))
        self._add(Responding(answering, concurrency, replies, self._scope))

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
            place: Where; by custom port 5672, and 5671 with TLS.
            tls: The context, such as `rstreams.tls.server_context` makes; the listener then speaks TLS and nothing
                else. Client certificates are asked for if the context says so.
            allow_plain_over_tcp: Whether passwords may come over a network that is not encrypted. On loopback addresses
                they always may.
            max_connections: The most open connections; a further client is told so and closed.
            max_handshakes: The most clients that have not opened theirs yet; for a further one the oldest makes room.
            handshake_timeout_s: How long a client may take for TLS, SASL and open together, in seconds.
            max_handshake_bytes: What a client may send for TLS and SASL together, in bytes.

        Errors: `ConfigError` for a malformed place or an option that cannot be, such as users and no TLS for a place
            that other machines can reach; `TransportError` if it cannot be listened at, as when the port is in use;
            `RuntimeError` outside the block.
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
        """Take nothing more on, see through what there is, then close every connection: for deployments.

        The node stops listening and refuses new links, but for replies. Producers' credit is withdrawn, and what they
        had sent for it is stored, or answered. Served streams are cancelled, and their links end as `LinkDetached`,
        with amqp:connection:forced, after what they had sent. Consumers go on until the queues are empty and everything
        is settled; queues without consumers wait for nobody. Then the connections are closed with
        amqp:connection:forced. Clients with a reconnect policy go on at another node, with served streams, too.

        Args:
            timeout_s: How long that may take before the connections are closed, in seconds; more than 0.

        Returns: What was not through in time, and what is left in the queues and gone with them.

        Errors: `ConfigError` for a time that cannot be, or in another thread.
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
        self._links.close()
        await wait_until(self._is_through, trio.current_time() + timeout_s)
        now = self.statistics()
        drained = Drained(
            given_back=sum(end.in_hand for end in (*self._links.producers, *self._links.repliers)),
            outcome_unknown=sum(end.unsettled for end in (*self._links.consumers, *self._links.served)),
            left=sum(queue.ready + queue.delayed + queue.unsettled + queue.leaving for queue in now.queues.values()),
        )
        await self._close_connections()
        return drained

    def _is_through(self) -> bool:
        now = self.statistics()
        return (
            self._links.at_rest
            and not any(
                queue.unsettled or (queue.consumers and (queue.ready or queue.delayed)) for queue in now.queues.values()
            )
            and not any(multicast.pending for multicast in now.multicasts.values())
        )

    async def _close_connections(self) -> None:
        async with trio.open_nursery() as nursery:
            for listener in self._listeners:
                nursery.start_soon(listener.close, Condition.CONNECTION_FORCED.value, CLOSING)

    def statistics(self) -> NodeStatistics:
        """Return the counters of every address, and how many connections are open.

        A client reads the same, as a map, from the address `$statistics`: one snapshot for each item it requests.
        """
        addresses = self._addresses.items()
        ends = [*self._links.consumers, *self._links.served]
        return NodeStatistics(
            container_id=self._options.container_id,
            connections=sum(listener.connections for listener in self._listeners),
            unsettled=sum(end.unsettled for end in ends),
            unsettled_bytes=self._options.budget.used,
            waiting=sum(bool(end.waits_for) for end in ends),
            unfinished_bytes=self._options.unfinished.size,
            queues={name: each.statistics() for name, each in addresses if isinstance(each, Queue)},
            multicasts={name: each.statistics() for name, each in addresses if isinstance(each, Multicast)},
            served={name: each.statistics() for name, each in addresses if isinstance(each, Served)},
        )

    def explain(self) -> Sight:
        """Return what each address stores, and which one is full: `print(node.explain())`.

        Producers of a full queue, and of a multicast whose slowest subscriber asks for nothing, have no credit. Who
        publishes in the same process sees it by this; who does so elsewhere, by what `$statistics` serves.
        """
        now = self.statistics()
        addresses: dict[str, Statistics] = {**now.queues, **now.multicasts, **now.served}
        heading = f"node {now.container_id!r:.80}: {now.connections} connection{'' if now.connections == 1 else 's'}"
        return Sight(heading, tuple(state_of(name, numbers) for name, numbers in addresses.items()))

    def _dead_letters(self, name: str, dead_letters: str | None) -> Queue | None:
        if dead_letters is None:
            return None
        queue = self._addresses.get(dead_letters) if isinstance(dead_letters, str) else None
        if isinstance(queue, Queue) and dead_letters != name:
            return queue
        why = "it cannot be the queue itself" if dead_letters == name else "it must be a queue made before this one"
        msg = f"queue {name!r:.80}: dead_letters={dead_letters!r:.80}: {why}"
        raise ConfigError(msg)

    def _add(self, address: Address) -> None:
        if address.name in self._addresses:
            msg = f"address {address.name!r}: the node has one of this name already"
            raise ConfigError(msg)
        self._addresses[address.name] = address

    def _on_attach(self, driver: LinkDriver, frame: Attach) -> None:
        self._links.attach(driver, frame)


name_arguments("Node", Node)
