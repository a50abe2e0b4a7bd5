"""rstreams as people write it: with the defaults of every option, in one function for each way.

The process that listens has a node. The other process connects, does its work in one of these ways, and measures.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import wraps
from itertools import islice, repeat
from typing import Any, Final

import trio

import rstreams.blocking
from benchmarks._network_rstreams import connected, run_node, serving
from benchmarks._payloads import plain
from benchmarks._processes import Consume, Counter, Figures, Load, Timer, idle
from rstreams import Connection, Message, Node, Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscription
from rstreams.message import decode_body, decode_message, encode_item
from rstreams.node.multicast import MulticastAddress

__all__ = [
    "async_for",
    "blocking_for",
    "consume",
    "consume_async",
    "drain",
    "feed",
    "for_each",
    "idle",
    "keep",
    "local_map_async",
    "local_map_async_at_once",
    "manual",
    "map_async",
    "messages",
    "multicast",
    "publish",
    "request",
    "respond",
    "send",
    "serve",
    "submit",
    "there_and_back",
    "there_and_back_traced",
]

CONCURRENCY: Final = 16
"""The concurrency of `map_async`."""

SENDING_TASKS: Final = 64
"""How many tasks wait for the outcomes of their messages where several do."""

Way = Callable[[Connection, Load, Counter], Awaitable[None]]


def item_of(load: Load) -> Any:  # noqa: ANN401 - by its shape
    """Return the item that is sent."""
    return Message(**plain(load)) if load.shape == "full" else plain(load)


class _Repeated:
    """The items of a load, anew for each subscriber."""

    def __init__(self, load: Load) -> None:
        self._item, self._items = item_of(load), load.items

    def __iter__(self) -> Iterator[Any]:
        return repeat(self._item, self._items)


def _items(load: Load) -> Stream[Any]:
    return Stream.from_iterable(_Repeated(load))


# --------------------------------------------------------------------------------------------- the process that listens


def serve(load: Load, ready: Callable[[], None]) -> None:
    """Serve the items to each subscriber."""
    trio.run(run_node, load, ready, serving(_items(load)))


def feed(load: Load, ready: Callable[[], None]) -> None:
    """Put the items into a queue of the node, each encoded, as the queue has room for them."""

    def add(node: Node) -> None:
        _items(load).map(encode_item).subscribe(node.queue("items").producer())

    trio.run(run_node, load, ready, add)


def drain(load: Load, ready: Callable[[], None]) -> None:
    """Take out of a queue of the node what is published to it."""

    def add(node: Node) -> None:
        node.queue("items").subscribe(_Drain())

    trio.run(run_node, load, ready, add)


class _Drain:
    """Takes whatever comes."""

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(UNBOUNDED)

    def on_next(self, item: bytes) -> None: ...

    def on_error(self, error: BaseException) -> None:
        raise error

    def on_complete(self) -> None: ...


def keep(load: Load, ready: Callable[[], None]) -> None:
    """Have a queue that is filled and emptied over the network."""
    trio.run(run_node, load, ready, lambda node: node.queue("items"))


def multicast(load: Load, ready: Callable[[], None]) -> None:
    """Send the items to all subscribers of a multicast of the node, once they are there."""
    addresses: list[MulticastAddress] = []

    async def push() -> None:
        (items,) = addresses
        while len(items.statistics().subscribers) < load.subscribers:  # noqa: ASYNC110 - it tells nobody
            await trio.sleep(0.01)
        _items(load).map(encode_item).subscribe(items.producer())

    trio.run(run_node, load, ready, lambda node: addresses.append(node.multicast("items")), push)


def respond(load: Load, ready: Callable[[], None]) -> None:
    """Answer each request with its body."""

    def add(node: Node) -> None:
        node.respond("items", _same)

    trio.run(run_node, load, ready, add)


def _same(item: object) -> object:
    return item


# ------------------------------------------------------------------------------------------------------------ consumers


def _consumer(way: Way) -> Consume:
    """Make of a way of consuming the function that a process runs: it ends with the last item."""

    @wraps(way)
    def consume(load: Load) -> Figures:
        counter = Counter(load, item_of(load))

        async def run() -> None:
            async with connected(load) as connection:
                with trio.CancelScope() as scope:
                    counter.finished = scope.cancel
                    await way(connection, load, counter)

        trio.run(run)
        return counter.figures()

    return consume


def _stream(connection: Connection, load: Load) -> Stream[Any]:
    """Return the stream of the items as they were sent: of whole messages if they were."""
    return connection.messages("items") if load.shape == "full" else connection.stream("items")


@_consumer
async def for_each(connection: Connection, load: Load, counter: Counter) -> None:
    """Call a function with each item, for as many subscriptions as the load says."""
    async with trio.open_nursery() as nursery:
        for _ in range(load.subscribers):
            nursery.start_soon(_stream(connection, load).for_each, counter)


@_consumer
async def async_for(connection: Connection, load: Load, counter: Counter) -> None:
    """Loop over the items."""
    async with _stream(connection, load).open() as items:
        async for item in items:
            counter(item)


@_consumer
async def messages(connection: Connection, load: Load, counter: Counter) -> None:  # noqa: ARG001 - a way's parameters
    """Loop over whole messages, whatever was sent."""
    async with connection.messages("items").open() as items:
        async for message in items:
            counter(message.body)


@_consumer
async def manual(connection: Connection, load: Load, counter: Counter) -> None:
    """Loop over deliveries, and accept each."""
    options: Any = {"settlement": "manual"}
    receive = connection.messages if load.shape == "full" else connection.stream
    async with receive("items", **options).open() as deliveries:
        async for delivery in deliveries:
            counter(delivery.item)
            delivery.accept()


def _decoder(load: Load) -> Callable[[bytes], Any]:
    return decode_message if load.shape == "full" else decode_body


@_consumer
async def consume(connection: Connection, load: Load, counter: Counter) -> None:
    """Have a function called with each item."""

    def handle(item: object) -> None:
        counter(item)

    await connection.consume("items", handle, decode=_decoder(load))


@_consumer
async def consume_async(connection: Connection, load: Load, counter: Counter) -> None:
    """Have an async function called with each item."""

    async def handle(item: object) -> None:
        counter(item)

    await connection.consume("items", handle, decode=_decoder(load))


@_consumer
async def map_async(connection: Connection, load: Load, counter: Counter) -> None:
    """Call an async function, which waits once, with several items at a time."""
    await _stream(connection, load).map_async(_work, concurrency=CONCURRENCY).for_each(counter)


async def _work(item: object) -> object:
    await trio.lowlevel.checkpoint()
    return item


async def _work_at_once(item: object) -> object:
    return item


def blocking_for(load: Load) -> Figures:
    """Loop over the items in a thread without trio."""
    counter = Counter(load, item_of(load))
    with rstreams.blocking.connect(f"amqp://127.0.0.1:{load.port}") as connection:
        stream = connection.messages("items") if load.shape == "full" else connection.stream("items")
        with stream.open() as items:
            for item in islice(items, load.items):
                counter(item)
    return counter.figures()


@_consumer
async def request(connection: Connection, load: Load, counter: Counter) -> None:
    """Send requests from as many tasks as there are subscribers, and wait for each reply."""
    item = item_of(load)
    async with connection.requester("items") as requester, trio.open_nursery() as nursery:

        async def ask() -> None:
            for _ in range(load.items):
                counter(await requester.request(item))

        for _ in range(load.subscribers):
            nursery.start_soon(ask)


# ----------------------------------------------------------------------------------------------------------- publishers


def _publisher(way: Callable[[Connection, Load], Awaitable[None]]) -> Consume:
    """Make of a way of publishing the function that a process runs: it ends with the last outcome."""

    @wraps(way)
    def publish(load: Load) -> Figures:
        async def run() -> Figures:
            async with connected(load) as connection:
                timer = Timer(load)
                await way(connection, load)
                return timer.figures()

        return trio.run(run)

    return publish


@_publisher
async def publish(connection: Connection, load: Load) -> None:
    """Publish a stream."""
    await connection.publish("items", _items(load))


@_publisher
async def submit(connection: Connection, load: Load) -> None:
    """Submit the items one after another; the end of the block waits for their outcomes."""
    item = item_of(load)
    async with connection.sender("items") as sender:
        for _ in range(load.items):
            await sender.submit(item)


@_publisher
async def send(connection: Connection, load: Load) -> None:
    """Send items from several tasks, each of which waits for the outcome before it sends the next one."""
    items = repeat(item_of(load), load.items)
    async with connection.sender("items") as sender, trio.open_nursery() as nursery:

        async def send_some() -> None:
            for item in items:
                await sender.send(item)

        for _ in range(SENDING_TASKS):
            nursery.start_soon(send_some)


# ----------------------------------------------------------------------------------------------------- there and back

SAMPLED: Final = 0.01
"""Which part of the traces is recorded."""


async def _there_and_back(connection: Connection, load: Load, counter: Counter) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.publish, "items", _items(load))
        await connection.consume("items", counter)


@_consumer
async def there_and_back(connection: Connection, load: Load, counter: Counter) -> None:
    """Publish the items to a queue, and have a function called with each that comes from there."""
    await _there_and_back(connection, load, counter)


@_consumer
async def there_and_back_traced(connection: Connection, load: Load, counter: Counter) -> None:
    """Do that with traces, of which one in a hundred is recorded."""
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - only who measures this needs it
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - likewise
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: PLC0415 - likewise
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio  # noqa: PLC0415 - likewise

    from rstreams import telemetry  # noqa: PLC0415 - it would give all other ways a carrier

    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(SAMPLED))
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    telemetry.instrument(connection, provider)
    await _there_and_back(connection, load, counter)
    provider.shutdown()


# ------------------------------------------------------------------------------------------------ without a network


def local_map_async(load: Load) -> Figures:
    """Call an async function, which waits once, with several items at a time."""
    return trio.run(_local, load, _work)


def local_map_async_at_once(load: Load) -> Figures:
    """Call an async function that does not wait with several items at a time."""
    return trio.run(_local, load, _work_at_once)


async def _local(load: Load, work: Callable[[object], Awaitable[object]]) -> Figures:
    counter = Counter(load, load.item)
    await _items(load).map_async(work, concurrency=CONCURRENCY).for_each(counter)
    return counter.figures()
