"""The embedded node: an AMQP 1.0 container whose addresses are streams, queues and multicasts of this process."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

import trio

from rstreams.abc import Publisher
from rstreams.errors import Condition, ConfigError
from rstreams.message import encode_item
from rstreams.net._names import check_container_id, check_users
from rstreams.net._options import check_idle_timeout, check_max_frame
from rstreams.net._proton import LinkDriver
from rstreams.net.client import DEFAULT_IDLE_TIMEOUT_S, DEFAULT_MAX_FRAME_BYTES, DEFAULT_WINDOW
from rstreams.net.listener import ConnectionOptions, Listener, open_listener
from rstreams.node.multicast import Multicast
from rstreams.node.queue import Queue
from rstreams.node.served import Served
from rstreams.node.statistics import NodeStatistics
from rstreams.protocol.frames import Attach, Role
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.refusal import refuse
from rstreams.protocol.sender import LinkSubscriber
from rstreams.runtime.scope import Scope
from rstreams.sources import generate

STATISTICS: Final = "$statistics"
"""The address at which a node serves its own statistics, one snapshot for each item requested."""

Address: TypeAlias = Served[Any] | Queue | Multicast

logger = logging.getLogger("rstreams.node")


class Node:
    """An AMQP 1.0 peer inside this process, for the length of an `async with` block.

    Its addresses are added by `serve`, `queue` and `multicast`, before or while it listens.

    Args:
        users: Passwords by user name, for SASL PLAIN; None lets every client in.
        idle_timeout_s: Seconds of silence after which a client counts as dead.
        max_frame_bytes: The largest frame taken; larger messages come in several.
        expose_errors: Whether the text of a served stream's exception goes to subscribers; else only that it failed.
        container_id: The node's name for its peers; a random one by default.

    Errors: What leaves the block leaves it unwrapped. One connection's failure is logged and touches no other.
    Cancels: At the end of the block every connection is closed in order, within 3 seconds.
    Context: One task enters and leaves the block; the node lives in its trio run.
    """

    def __init__(
        self,
        *,
        users: Mapping[str, str] | None = None,
        idle_timeout_s: float = DEFAULT_IDLE_TIMEOUT_S,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        expose_errors: bool = False,
        container_id: str | None = None,
    ) -> None:
        check_idle_timeout(idle_timeout_s)
        check_max_frame(max_frame_bytes)
        check_container_id(container_id)
        self._options = ConnectionOptions(
            container_id=container_id or f"rstreams-node-{uuid.uuid4()}",
            users=check_users(users),
            idle_timeout_s=idle_timeout_s,
            max_frame_bytes=max_frame_bytes,
        )
        self._expose_errors = expose_errors
        self._addresses: dict[str, Address] = {}
        self._listeners: list[Listener] = []
        self._scope = Scope()
        self._entered = False
        self._open = False
        self._statistics = generate(None, lambda _: (self.statistics().as_dict(), None))

    async def __aenter__(self) -> Self:
        """Open the scope in which served streams run.

        Errors: `RuntimeError` the second time: a node has one life.
        """
        if self._entered:
            msg = "this Node has been entered before; make a new one"
            raise RuntimeError(msg)
        self._entered = self._open = True
        await self._scope.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Close every connection, then end the scope."""
        self._open = False
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                for listener in self._listeners:
                    nursery.start_soon(listener.close, Condition.CONNECTION_FORCED.value, "the node is closing")
        return await self._scope.__aexit__(kind, error, traceback)

    def serve(self, address: str, publisher: Publisher[Any]) -> None:
        """Serve a stream: whoever attaches to `address` gets a subscription of its own.

        Args:
            address: The name peers use.
            publisher: The stream or other publisher; its items are `Message`s, or values that become a body.

        Demand: Each subscriber's link credit reaches `publisher` as its subscription's demand.
        Errors: `ConfigError` for a name that is taken or cannot be, or a `publisher` that is none.
        """
        self._add(Served(address, publisher))

    def queue(self, name: str, *, capacity: int = 1024) -> Queue:
        """Add a queue: messages wait for one of its competing consumers.

        Args:
            name: The name peers use, producers and consumers.
            capacity: The most messages stored and granted to producers together; producers get credit for the rest.

        Errors: `ConfigError` for a name that is taken or cannot be, or a capacity below 1.
        """
        queue = Queue(name, capacity)
        self._add(queue)
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

    async def listen(self, place: str) -> Listener:
        """Listen at `host:port` until the node's block ends; port 0 lets the system choose.

        Errors: `ConfigError` for a malformed place; `TransportError` if it cannot be listened at, as when the port is
            in use; `RuntimeError` outside the block.
        """
        if not self._open:
            msg = "a Node listens inside its block: async with Node() as node: await node.listen(...)"
            raise RuntimeError(msg)
        listener = await open_listener(place)
        self._listeners.append(listener)
        self._scope.nursery.start_soon(listener.run, self._options, self._on_attach)
        return listener

    def statistics(self) -> NodeStatistics:
        """Return the counters of every address, and how many connections are open.

        A client reads the same, as a map, from the address `$statistics`: one snapshot for each item it requests.
        """
        addresses = self._addresses.items()
        return NodeStatistics(
            container_id=self._options.container_id,
            connections=sum(listener.connections for listener in self._listeners),
            queues={name: each.statistics() for name, each in addresses if isinstance(each, Queue)},
            multicasts={name: each.statistics() for name, each in addresses if isinstance(each, Multicast)},
            served={name: each.statistics() for name, each in addresses if isinstance(each, Served)},
        )

    def _add(self, address: Address) -> None:
        if address.name in self._addresses:
            msg = f"address {address.name!r}: the node has one of this name already"
            raise ConfigError(msg)
        self._addresses[address.name] = address

    # what peers attach

    def _on_attach(self, driver: LinkDriver, frame: Attach) -> None:
        if frame.role is Role.RECEIVER:
            self._attach_consumer(driver, frame)
        else:
            self._attach_producer(driver, frame)

    def _attach_consumer(self, driver: LinkDriver, frame: Attach) -> None:
        address = self._addresses.get(frame.source or "")
        if frame.source == STATISTICS:
            publisher: Publisher[Any] = self._statistics
        elif address is None:
            self._refuse(driver, frame, Condition.NOT_FOUND, f"no address {frame.source!r} here")
            return
        else:
            publisher = address
        stored = isinstance(address, Queue | Multicast)
        end = LinkSubscriber(
            publisher,
            encode=_as_is if stored else encode_item,
            settlement=frame.settlement,
            settle_before_detach=False,
            fail_on_refusal=False,
            expose_errors=self._expose_errors,
            on_finished=_nothing,
        )
        link = end.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        link.send(Attach(frame.name, Role.SENDER, frame.source, frame.target, frame.settlement))
        end.start()

    def _attach_producer(self, driver: LinkDriver, frame: Attach) -> None:
        address = self._addresses.get(frame.target or "")
        if address is None:
            self._refuse(driver, frame, Condition.NOT_FOUND, f"no address {frame.target!r} here")
            return
        if isinstance(address, Served):
            self._refuse(
                driver, frame, Condition.NOT_ALLOWED, f"{frame.target!r} is a served stream: it takes no items"
            )
            return
        end = LinkSubscription(address.producer(), decode=_as_is, window=DEFAULT_WINDOW, on_raised=_log_raised)
        link = end.bind(frame.name, driver)
        driver.bind(link)
        link.receive(frame)
        link.send(Attach(frame.name, Role.RECEIVER, frame.source, frame.target, frame.settlement))
        end.start()

    @staticmethod
    def _refuse(driver: LinkDriver, frame: Attach, condition: Condition, description: str) -> None:
        driver.bind(refuse(driver, frame, condition.value, description))


def _as_is(encoded: bytes) -> bytes:
    return encoded


def _nothing(error: BaseException | None) -> None:
    """A consumer has gone; its address knows by the cancel."""
    if error is not None:
        logger.debug("a consumer's link ended: %s", error)


def _log_raised(error: BaseException) -> None:
    logger.error("an address of the node raised; the producer's link is ended", exc_info=error)
