"""rsocket-py request_stream over TCP: credit for items, which are not acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any

from reactivestreams.publisher import Publisher
from reactivestreams.subscriber import Subscriber
from reactivestreams.subscription import Subscription
from rsocket.helpers import create_future, single_transport_provider
from rsocket.payload import Payload
from rsocket.request_handler import BaseRequestHandler
from rsocket.rsocket_client import RSocketClient
from rsocket.rsocket_server import RSocketServer
from rsocket.streams.stream_from_async_generator import StreamFromAsyncGenerator
from rsocket.streams.stream_from_generator import StreamFromGenerator
from rsocket.transports.tcp import TransportTCP

from benchmarks._payloads import packed, plain, unpacking
from benchmarks._processes import WINDOW, Counter, Figures, Load, paced


def produce(load: Load, ready: Callable[[], None]) -> None:
    """Serve the items to whoever requests the stream."""
    asyncio.run(_serve(load, ready))


async def _serve(load: Load, ready: Callable[[], None]) -> None:
    def items() -> Generator[tuple[Payload, bool], None, None]:
        for index, item in enumerate(packed(load), 1):
            yield Payload(item), index == load.items

    async def paced_items() -> AsyncGenerator[tuple[Payload, bool], None]:
        made = 0
        for count, wait_s in paced(load):
            for _ in range(count):
                made += 1
                yield Payload(load.stamped()), made == load.items
            await asyncio.sleep(wait_s)

    class Handler(BaseRequestHandler):  # type: ignore[misc] # it carries no types
        async def request_response(self, payload: Payload) -> Awaitable[Payload]:
            reply: Awaitable[Payload] = create_future(payload)
            return reply

        async def request_stream(self, payload: Payload) -> Publisher:  # noqa: ARG002 - the handler's name
            return StreamFromAsyncGenerator(paced_items) if load.rate else StreamFromGenerator(items)

    def connected(*streams: Any) -> None:  # noqa: ANN401 - a reader and a writer
        RSocketServer(TransportTCP(*streams), handler_factory=Handler)

    async with await asyncio.start_server(connected, "127.0.0.1", load.port):
        ready()
        await asyncio.Event().wait()


def consume(load: Load) -> Figures:
    """Request the stream with a window, and half of it again whenever half has come."""
    counter, count = unpacking(load)
    asyncio.run(_consume(load, counter, count))
    return counter.figures()


async def _consume(load: Load, counter: Counter, count: Callable[[bytes | memoryview], None]) -> None:
    finished = asyncio.Event()
    counter.finished = finished.set
    transport = TransportTCP(*await asyncio.open_connection("127.0.0.1", load.port))
    async with RSocketClient(single_transport_provider(transport)) as client:
        items: Any = client.request_stream(Payload(b""))
        items.initial_request_n(WINDOW).subscribe(_Subscriber(count, load.items))
        await finished.wait()


def request(load: Load) -> Figures:
    """Send requests from as many tasks as there are subscribers, and wait for each reply."""
    counter = Counter(load, plain(load))
    asyncio.run(_request(load, counter))
    return counter.figures()


async def _request(load: Load, counter: Counter) -> None:
    transport = TransportTCP(*await asyncio.open_connection("127.0.0.1", load.port))
    async with RSocketClient(single_transport_provider(transport)) as client:

        async def ask() -> None:
            for _ in range(load.items):
                reply = await client.request_response(Payload(load.item))
                counter(bytes(reply.data or b""))

        await asyncio.gather(*(ask() for _ in range(load.subscribers)))


class _Subscriber(Subscriber):  # type: ignore[misc] # it carries no types
    def __init__(self, count: Callable[[bytes | memoryview], None], items: int) -> None:
        self._count, self._received, self._unrequested = count, 0, items - WINDOW

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def on_next(self, value: Payload, is_complete: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the interface's
        if value.data is not None:
            self._count(memoryview(value.data))
        self._received += 1
        if self._unrequested > 0 and self._received % (WINDOW // 2) == 0:
            self._unrequested -= WINDOW // 2
            self._subscription.request(WINDOW // 2)

    def on_complete(self) -> None: ...

    def on_error(self, exception: Exception) -> None:
        raise exception
