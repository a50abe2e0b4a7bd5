"""The methods of a node that add addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.message import decode_body
from rstreams.net.links.encoding import require_encode
from rstreams.net.request_reply.answers import Answering, Handler
from rstreams.node.address import Address, NodeServices, require_address_name
from rstreams.node.disk_storage import DEFAULT_IN_MEMORY
from rstreams.node.limits import WhenFull
from rstreams.node.log import LogAddress
from rstreams.node.log_keys import DEFAULT_KEY, Key
from rstreams.node.log_options import LogOptions
from rstreams.node.memory_room import DEFAULT_CAPACITY_BYTES
from rstreams.node.multicast import MulticastAddress
from rstreams.node.multicast_options import MulticastOptions
from rstreams.node.named_subscriptions import DropWhenFull
from rstreams.node.node_store import NodeStore
from rstreams.node.queue import Queue
from rstreams.node.queue_options import Fsync, QueueOptions, find_dead_letters
from rstreams.node.redelivery import RedeliveryDelay
from rstreams.node.request_address import RequestAddress
from rstreams.node.seen_messages import DEFAULT_PRODUCERS
from rstreams.node.served_from import FromOffset, make_served
from rstreams.runtime.at_work import AtWork

T = TypeVar("T")
A = TypeVar("A", bound=Address)


class NodeAddresses:
    """The part of `Node` that adds addresses."""

    _addresses: dict[str, Address]
    _expose_errors: bool
    _at_work: AtWork
    _services: NodeServices
    _store: NodeStore

    def serve(
        self,
        address: str,
        publisher: Publisher[T] | None = None,
        *,
        encode: Callable[[T], object] | None = None,
        keep_s: float = 0.0,
        from_offset: FromOffset[T] | None = None,
        incarnation: str | None = None,
    ) -> None:
        """Serve a stream: each link that a peer attaches to `address` gets its own subscription.

        With `keep_s`, a subscription outlives its connection. If a peer with the same container id attaches a link of
        the same name in this time, it goes on with the subscription: first come the items that were not settled, then
        the next items.
        A client with a `Reconnect` policy does this by itself. With settlement "at_least_once" no item is missing;
        with "effectively_once" also no item comes twice. A client of "effectively_once" that returns too late gets an
        error, because the stream would begin again; other clients get the stream from its first item.

        With `from_offset`, a stream also goes on at a node that was started again: a subscriber that uses
        `Connection.stream(address, start=...)` asks for the item behind the last one that it handed over.

        Args:
            address: The name that peers attach to.
            publisher: The stream or other publisher; its items are `Message`s, or values that become a body. None with
                `from_offset`.
            encode: Returns the `Message` or the body for an item, as for `Connection.publish`.
            keep_s: How long a subscription is kept after its connection is lost, in seconds; 0: it is cancelled at
                once. At most 1,024 subscriptions of a node are kept at a time, and 256 of one user or of one container
                without a user, within `total_unsettled_bytes`. Beyond these limits, the subscriptions that have been
                away longest are ended.
            from_offset: In place of a publisher: a function that gets a position, and returns the stream from there.
                The first item of the stream has the position 0. Each item is sent with its position, as in a log. If
                the function raises a `ProtocolError`, the peer gets this error.
            incarnation: With `from_offset`: the id of the items behind the positions. Give another id when a position
                means another item than before. A subscriber that goes on from a position of an earlier id gets the
                error `rstreams:made-anew`.

        Demand: Each link's credit reaches `publisher` as the demand of its subscription.
        Errors: `ConfigError` for a name that is taken or not allowed, a `publisher` that is not a Publisher, or unless
            one of `publisher` and `from_offset` is given. An item that cannot be encoded or sent ends its subscription,
            and the log says which item it was.
        """
        require_encode("serve", encode)
        self.add(
            make_served(address, publisher, encode, keep_s=keep_s, from_offset=from_offset, incarnation=incarnation)
        )

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
                `max_deliveries` times or are too old; annotations tell the reason. None: such messages are dropped and
                counted.
            max_deliveries: How many attempts to deliver a message may fail; the loss of a link counts as a failed
                attempt for each message that its consumer had. None: any number.
            redelivery_delay_s: How long a message waits after its first failed attempt, in seconds; 0: it is handed
                over again at once. Other messages may pass it. It keeps its place in the capacity.
            redelivery_delay_factor: The factor by which the wait grows with each further failed attempt; at least 1.
            max_redelivery_delay_s: The longest wait, in seconds.
            dedup_producers: The number of producers of "effectively_once" that are remembered. If one more comes, the
                producer that has been silent longest is forgotten.
            when_full: "block": producers get no credit while the queue is full. "reject": messages are rejected.
                "drop_oldest": the oldest message that no consumer has is dropped. "drop_newest": the message that comes
                is accepted and dropped. Dropped messages are counted, and do not become dead letters.
            durable: Whether the messages are in the node's store, and come back when the node starts again.
            capacity_bytes: The most bytes stored, approximately; None: any number, if it is durable, and 67108864 in
                memory. A queue without messages takes a message of any size.
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
        return self.add(options.make(name, find_dead_letters(self._addresses, name, dead_letters), self._store))

    def multicast(
        self,
        name: str,
        *,
        overflow: Literal["block", "drop_oldest"] = "block",
        capacity: int = 256,
        capacity_bytes: int = DEFAULT_CAPACITY_BYTES,
        durable: bool = False,
        backlog: int | None = 1024,
        backlog_bytes: int | None = None,
        when_full: DropWhenFull = "drop_oldest",
        max_subscriptions: int = 1024,
        fsync: Fsync = "always",
        fsync_interval_s: float = 1.0,
    ) -> MulticastAddress:
        """Add a multicast: each subscriber gets its own copy of the items that are sent while it is subscribed.

        A named subscription (`Connection.stream(name, subscription=...)`) also keeps the items that come while its
        subscriber is away, until it is ended by `Connection.unsubscribe`. It keeps an item until its subscriber has
        settled it.

        Args:
            name: The name that publishers and subscribers attach to.
            overflow: "block": publishers get the credit of the slowest subscriber, and items that come after the last
                subscriber has left wait for the next one. "drop_oldest": publishers always have credit, and a slow
                subscriber loses its oldest items, which are counted.
            capacity: The most items granted to publishers, or kept for one subscriber without a name.
            capacity_bytes: The most bytes of items kept for one subscriber without a name. One item may be larger.
            durable: Whether named subscriptions and their items are in the node's store, and come back when the node
                starts again. An item is accepted when it is as safe there as `fsync` says.
            backlog: The most items of one named subscription; None: any number, if it is durable.
            backlog_bytes: The most bytes of one named subscription, approximately; None: any number, if it is durable,
                and 67108864 in memory.
            when_full: The items that a named subscription drops when its backlog is full: "drop_oldest" or
                "drop_newest". Dropped items are counted. With `overflow="block"` nothing is dropped while its
                subscriber is attached: the publishers wait.
            max_subscriptions: The most named subscriptions. One user, or one container of clients without a user, has
                at most a quarter of them.
            fsync: As for `queue`.
            fsync_interval_s: As for `queue`.

        Errors: `ConfigError` for a name that is taken or not allowed, a number below 1, another option that is not
            allowed, or options that contradict each other.
        """
        options = MulticastOptions(
            overflow=overflow,
            capacity=capacity,
            capacity_bytes=capacity_bytes,
            durable=durable,
            backlog=backlog,
            backlog_bytes=backlog_bytes,
            when_full=when_full,
            max_subscriptions=max_subscriptions,
            fsync=fsync,
            fsync_interval_s=fsync_interval_s,
        )
        return self.add(options.make(name, self._store))

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
        """Add a log: its messages stay after they were read; a reader can begin at any offset, and read them again.

        Producers attach to the log. Readers attach to it with `Connection.stream(name, start=...)`; with several
        partitions to one of them, `name-0`, `name-1` and so on. Members of a group attach to the log with
        `Connection.stream(name, group=...)` and share the partitions. The log is in the node's store. Without a store
        it is in memory, and needs a limit.

        Args:
            name: The name that producers, readers and members attach to.
            partitions: The number of partitions. The order of messages holds within a partition.
            key: Where the key of a message is; the key chooses the partition. It is the name of a message annotation,
                or a function that gets the `Message`. Messages without a key go to the partitions in turn.
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
        """Add an address for the last value of each key: a reader gets these values, and then each change.

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
        log, parts = options.make(name, self._store)
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
            handler: As for `Connection.respond`. It is called in the turn of the requester's connection, in a context
                of its own. An awaitable or a stream that it returns is run in a task of the node's scope.
            concurrency: The most requests in the handler at a time, and granted to one requester.
            decode: As for `Connection.respond`.
            encode: As for `Connection.respond`.
            expose_errors: As for `Connection.respond`; None: the node's `expose_errors`.

        Demand: A requester may have `concurrency` requests without an answer. The demand for a stream of replies is
            the credit of its receiver.
        Errors: `TypeError` for a handler that is not a function; `ConfigError` for a name that is taken or not allowed,
            or a concurrency below 1.
        """
        expose = self._expose_errors if expose_errors is None else expose_errors
        require_encode("respond", encode)
        self.add(RequestAddress(Answering(address, handler, decode, expose, encode, self._at_work), concurrency))

    def add(self, address: A) -> A:
        """Add an address of any kind, also of a kind that the program defines; `queue`, `serve` and so on call this.

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
