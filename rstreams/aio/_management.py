"""The management of a node for asyncio."""

# ruff: noqa: ANN401 - options are those of the model

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from rstreams.aio._guest import Guest
from rstreams.culprits import WaitTree
from rstreams.net.management import (
    AddressInfo,
    ConnectionInfo,
    LinkInfo,
    MovedLetters,
    NamedSubscriptionInfo,
    SubscriptionInfo,
)
from rstreams.net.management import Management as TrioManagement

T = TypeVar("T")


class Management:
    """Manages the node at the other end of a connection; made by `Connection.management`.

    The methods are those of `rstreams.net.management.Management`.

    Context: Any asyncio task of the connection's loop; each call waits for the node's answer.
    """

    def __init__(self, guest: Guest, management: TrioManagement) -> None:
        self._guest = guest
        self._management = management

    async def addresses(self) -> list[AddressInfo]:
        """Return all addresses."""
        return await self._run(self._management.addresses)

    async def queues(self) -> list[AddressInfo]:
        """Return all queues."""
        return await self._run(self._management.queues)

    async def queue(self, name: str) -> AddressInfo:
        """Return one queue."""
        return await self._run(self._management.queue, name)

    async def declare_queue(self, name: str, **options: Any) -> AddressInfo:
        """Make a queue, if the node does not have it; options as for `Node.queue`."""
        return await self._run(self._management.declare_queue, name, **options)

    async def declare_multicast(self, name: str, **options: Any) -> AddressInfo:
        """Make a multicast, if the node does not have it; options as for `Node.multicast`."""
        return await self._run(self._management.declare_multicast, name, **options)

    async def declare(self, kind: str, name: str, **options: Any) -> AddressInfo:
        """Make an address of a kind, such as "queues", if the node does not have it."""
        return await self._run(self._management.declare, kind, name, **options)

    async def delete(self, name: str, kind: str = "queues") -> int:
        """Delete an address; return how many messages it had."""
        return await self._run(self._management.delete, name, kind)

    async def purge(self, name: str) -> int:
        """Delete the messages of a queue that wait for a consumer; return how many there were."""
        return await self._run(self._management.purge, name)

    async def move_dead_letters(self, name: str, *, to: str | None = None, most: int | None = None) -> MovedLetters:
        """Move the messages of a queue of dead letters back to the queues that they came from."""
        return await self._run(self._management.move_dead_letters, name, to=to, most=most)

    async def forget_group(self, address: str, name: str) -> None:
        """Forget a consumer group of a log, which must have no members."""
        await self._run(self._management.forget_group, address, name)

    async def subscriptions(self, address: str | None = None) -> list[SubscriptionInfo]:
        """Return the links that clients have attached, to one address or to all."""
        return await self._run(self._management.subscriptions, address)

    async def connections(self) -> list[ConnectionInfo]:
        """Return the connections of clients."""
        return await self._run(self._management.connections)

    async def links(
        self, address: str | None = None, *, container: str | None = None, most: int | None = None
    ) -> list[LinkInfo]:
        """Return what the node's ends of links tell: their numbers, and how long they were blocked."""
        return await self._run(self._management.links, address, container=container, most=most)

    async def end_subscription(self, number: int) -> None:
        """End a link; unsettled messages go back to their queue."""
        await self._run(self._management.end_subscription, number)

    async def named_subscriptions(self, address: str) -> list[NamedSubscriptionInfo]:
        """Return the named subscriptions of a multicast, also those whose subscribers are away."""
        return await self._run(self._management.named_subscriptions, address)

    async def unsubscribe(self, address: str, name: str, *, container: str, user: str = "") -> None:
        """End a named subscription, and delete its messages."""
        await self._run(self._management.unsubscribe, address, name, container=container, user=user)

    async def explain(self, address: str | None = None, **options: Any) -> WaitTree:
        """Return what an address of the node waits for, or all; options as for the model."""
        return await self._run(self._management.explain, address, **options)

    async def _run(self, call: Callable[..., Awaitable[T]], *arguments: Any, **options: Any) -> T:
        return await self._guest.run(partial(call, *arguments, **options))
