"""The calls of a worker that is a client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any, Final

import rstreams
from rstreams import Delivery, Message, PublishResult, Reconnect, Stream
from rstreams.errors import DeliveryFailed, RStreamsError
from rstreams.tls import client_context
from tests.compat.messages import message_of, told_of
from tests.compat.worker_kept import KeptThings


class ClientCalls(KeptThings):
    """Connects, sends and receives; `name` is what later calls use."""

    def __init__(self) -> None:
        super().__init__()
        self._collected: dict[str, list[Any]] = {}

    async def connect(
        self, name: str, url: str, *, reconnect: bool = False, ca: str | None = None, **options: Any
    ) -> dict[str, Any]:
        """Open a connection; return the peer's properties."""
        policy = Reconnect(first_delay_s=0.05, max_delay_s=0.2) if reconnect else None
        tls = None if ca is None else client_context(ca_file=ca)
        connection = await self._keep(name, rstreams.connect(url, reconnect=policy, tls=tls, **options))
        return {str(key): str(value) for key, value in connection.peer_properties.items()}

    async def drain(self, name: str) -> bool:
        """End the links of a connection in order; return whether everything was through."""
        drained = await self._get(name).drain_and_close()
        return bool(drained.complete)

    async def publish(
        self,
        name: str,
        address: str,
        count: int,
        *,
        first: int = 0,
        form: str = "mixed",
        keys: int = 0,
        fields: Mapping[str, Any] | None = None,
        plain: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """Send the messages of some numbers, or the plain numbers; return what became of them."""
        items: Stream[Any] = Stream.range(first, first + count)
        if not plain:
            items = items.map(lambda number: message_of(form, number, keys, fields))
        try:
            result = await self._get(name).publish(address, items, **options)
        except DeliveryFailed as error:
            result = error.published
        return _counted(result)

    async def send(self, name: str, address: str, count: int, *, first: int = 0, **options: Any) -> int:
        """Send messages one by one with a sender; return how many were accepted."""
        async with self._get(name).sender(address, **options) as sender:
            receipts = [await sender.submit(message_of("mixed", number)) for number in range(first, first + count)]
            for receipt in receipts:
                await receipt.wait()
        return len(receipts)

    async def open(
        self, name: str, connection: str, address: str, *, plain: bool = False, since: str = "", **options: Any
    ) -> None:
        """Begin to read from an address; its messages wait for `next`."""
        if since:
            options["start"] = datetime.fromisoformat(since)
        to = self._get(connection)
        stream = to.stream(address, **options) if plain else to.messages(address, **options)
        await self._keep(name, stream.open())

    async def next(self, name: str, count: int | None = None, outcome: str = "") -> list[Any]:
        """Return the next messages, all until the end without `count`; settle each by hand with an outcome."""
        told: list[Any] = []
        async for item in self._get(name):
            told.append(_item_of(item))
            if isinstance(item, Delivery) and outcome:
                _settle(item, outcome)
            if len(told) == count:
                break
        return told

    async def collect(self, name: str) -> None:
        """Read all that comes from now on, and accept it; `collected` tells what has come."""
        self._collected[name] = came = list[Any]()

        async def read() -> None:
            with suppress(RStreamsError):  # what is missing then is counted
                async for item in self._get(name):
                    came.append(_item_of(item))

        self.nursery.start_soon(read)

    async def collected(self, name: str) -> list[Any]:
        """Return what a reader has collected so far."""
        return self._collected[name]

    async def streamed(self, name: str, address: str, count: int) -> list[int]:
        """Return the sizes of the next messages, read while they come."""
        sizes = []
        async with self._get(name).streamed_messages(address).take(count).open() as messages:
            async for message in messages:
                sizes += [sum([len(chunk) async for chunk in message.body])]
        return sizes

    async def request(self, name: str, address: str, asked: list[Any]) -> list[Any]:
        """Send requests; return their replies."""
        async with self._get(name).requester(address) as requester:
            return [await requester.request(each) for each in asked]

    async def replies(self, name: str, address: str, asked: Any, count: int) -> list[Any]:
        """Send a request; return the first of its replies."""
        async with self._get(name).requester(address) as requester:
            replies: list[Any] = await requester.stream(asked).take(count).to_list()
            return replies

    async def respond(self, name: str, address: str) -> None:
        """Answer the requests that come to a queue from now on: with twice the number."""

        async def answer() -> None:
            with suppress(RStreamsError):  # the connection has ended
                await self._get(name).respond(address, lambda number: 2 * number)

        self.nursery.start_soon(answer)

    async def unsubscribe(self, name: str, address: str, subscription: str) -> None:
        """End a named subscription."""
        await self._get(name).unsubscribe(address, subscription)

    async def statistics(self, name: str) -> Any:
        """Return the counters that the node serves."""
        return await self._get(name).stream("$statistics").first_or_none()

    async def manage(self, name: str, call: str, of: Sequence[Any] = (), **options: Any) -> Any:
        """Make a call of management about an address; return its result as plain values."""
        async with self._get(name).management() as management:
            result = await getattr(management, call)(*of, **options)
        return [_plain(each) for each in result] if isinstance(result, list) else _plain(result)


BY_NUMBER: Final = {0: "modify", 1: "reject"}
"""The outcome "by number": a fifth of the messages fails, a fifth is rejected, and the others are accepted."""


def _settle(delivery: Delivery[Any], outcome: str) -> None:
    if outcome == "by number":
        outcome = BY_NUMBER.get(delivery.item.properties["number"] % 5, "accept")
    how, _, condition = outcome.partition(" ")
    getattr(delivery, how)(*[condition] * bool(condition))


def _counted(result: PublishResult) -> dict[str, Any]:
    refused = {str(place): asdict(why) for place, why in result.refused.items()}
    return {"accepted": result.accepted, "refused": refused, "unknown": result.unknown, "not_sent": result.not_sent}


def _item_of(item: Any) -> Any:
    if isinstance(item, Delivery):
        item = item.item
    return told_of(item) if isinstance(item, Message) else item


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
