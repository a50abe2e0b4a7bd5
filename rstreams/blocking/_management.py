"""The management of a node for threads."""

# ruff: noqa: ANN401 - options are those of the model

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from rstreams.culprits import WaitTree
from rstreams.net.management import (
    AddressInfo,
    ConnectionInfo,
    LinkInfo,
    Management,
    MovedLetters,
    NamedSubscriptionInfo,
    SubscriptionInfo,
)
from rstreams.runtime.portal import Portal

T = TypeVar("T")


class BlockingManagement:
    """Manages the node at the other end of a connection; made by `BlockingConnection.management`.

    The methods are those of `rstreams.net.management.Management`; each blocks until the node has answered.

    Context: Any thread but the connection's own; several may ask at the same time.
    """

    def __init__(self, portal: Portal, management: Management) -> None:
        self._portal = portal
        self._management = management

    def addresses(self) -> list[AddressInfo]:
        """Return all addresses."""
        return self._run(self._management.addresses)

    def queues(self) -> list[AddressInfo]:
        """Return all queues."""
        return self._run(self._management.queues)

    def queue(self, name: str) -> AddressInfo:
        """Return one queue."""
        return self._run(self._management.queue, name)

    def declare_queue(self, name: str, **options: Any) -> AddressInfo:
        """Make a queue, if the node does not have it; options as for `Node.queue`."""
        return self._run(self._management.declare_queue, name, **options)

    def declare_multicast(self, name: str, **options: Any) -> AddressInfo:
        """Make a multicast, if the node does not have it; options as for `Node.multicast`."""
        return self._run(self._management.declare_multicast, name, **options)

    def declare(self, kind: str, name: str, **options: Any) -> AddressInfo:
        """Make an address of a kind, such as "queues", if the node does not have it."""
        return self._run(self._management.declare, kind, name, **options)

    def delete(self, name: str, kind: str = "queues") -> int:
        """Delete an address; return how many messages it had."""
        return self._run(self._management.delete, name, kind)

    def purge(self, name: str) -> int:
        """Delete the messages of a queue that wait for a consumer; return how many there were."""
        return self._run(self._management.purge, name)

    def move_dead_letters(self, name: str, *, to: str | None = None, most: int | None = None) -> MovedLetters:
        """Move the messages of a queue of dead letters back to the queues that they came from."""
        return self._run(self._management.move_dead_letters, name, to=to, most=most)

    def forget_group(self, address: str, name: str) -> None:
        """Forget a consumer group of a log, which must have no members."""
        self._run(self._management.forget_group, address, name)

    def subscriptions(self, address: str | None = None) -> list[SubscriptionInfo]:
        """Return the links that clients have attached, to one address or to all."""
        return self._run(self._management.subscriptions, address)

    def connections(self) -> list[ConnectionInfo]:
        """Return the connections of clients."""
        return self._run(self._management.connections)

    def links(
        self, address: str | None = None, *, container: str | None = None, most: int | None = None
    ) -> list[LinkInfo]:
        """Return what the node's ends of links tell: their numbers, and how long they were blocked."""
        return self._run(self._management.links, address, container=container, most=most)

    def end_subscription(self, number: int) -> None:
        """End a link; unsettled messages go back to their queue."""
        self._run(self._management.end_subscription, number)

    def named_subscriptions(self, address: str) -> list[NamedSubscriptionInfo]:
        """Return the named subscriptions of a multicast, also those whose subscribers are away."""
        return self._run(self._management.named_subscriptions, address)

    def unsubscribe(self, address: str, name: str, *, container: str, user: str = "") -> None:
        """End a named subscription, and delete its messages."""
        self._run(self._management.unsubscribe, address, name, container=container, user=user)

    def explain(self, address: str | None = None, **options: Any) -> WaitTree:
        """Return what an address of the node waits for, or all; options as for the model."""
        return self._run(self._management.explain, address, **options)

    def _run(self, call: Callable[..., Awaitable[T]], *arguments: Any, **options: Any) -> T:
        return self._portal.run(partial(call, *arguments, **options))
