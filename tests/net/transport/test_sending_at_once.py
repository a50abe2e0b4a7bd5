"""An item that is emitted while its connection is idle leaves inside of `emit`; everything else is left to the pump."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.errors import ConnectionLost
from rstreams.net._proton.sending_driver import SendingDriver
from rstreams.net._proton.sent_deliveries import SentDeliveries
from rstreams.net.connection import Connection, SettlementName
from rstreams.net.transport.pump import Bursts, Pump
from rstreams.net.transport.wire import SocketWire
from rstreams.push import EmitResult, Multicast
from rstreams.runtime.scope import Scope
from rstreams.testing import ProbeSubscriber
from tests.net.certificates import client_context, node_context
from tests.net.over_tcp import pump_of, until

Write = Callable[[SocketWire, Sequence[bytes | memoryview]], int]


class Writes:
    """Counts the calls of the kernel by which connections send, and may change one.

    Attributes:
        sizes: The bytes that each call has taken.
        instead: What is called in the place of the next one.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.instead: Write | None = None
        write = SocketWire._write

        def counted(wire: SocketWire, pieces: Sequence[bytes | memoryview]) -> int:
            chosen, self.instead = self.instead or write, None
            self.sizes.append(chosen(wire, pieces))
            return self.sizes[-1]

        monkeypatch.setattr(SocketWire, "_write", counted)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    return Writes(monkeypatch)


class Publishing:
    """A connection on which a push source is published to a queue, and what another connection gets from there."""

    def __init__(self, connection: Connection, consumer: Connection) -> None:
        self.pushed = Multicast[int](capacity=1000)
        self.got: list[int] = []
        self.connection = connection
        self.consumer = consumer

    async def publish(self) -> None:
        with suppress(ConnectionLost):
            await self.connection.publish("work", self.pushed)

    @property
    def pump(self) -> Pump:
        return pump_of(self.connection)

    async def idle(self) -> None:
        """Wait until the connection has nothing to do, and has been quiet for long."""
        await until(lambda: self.pushed.demand and self.pump._sleeps)
        self.pump._bursts = Bursts()

    def emit(self, item: int) -> None:
        assert self.pushed.emit(item) is EmitResult.OK

    async def has_got(self, *items: int) -> None:
        await until(lambda: len(self.got) >= len(items))
        assert self.got == list(items)


@asynccontextmanager
async def publishing(*, tls: bool = False) -> AsyncIterator[Publishing]:
    ours, theirs = (client_context(), node_context()) if tls else (None, None)
    async with Node() as node:
        node.queue("work")
        node.queue("in")
        listener = await node.listen("127.0.0.1:0", tls=theirs)
        async with (
            rstreams.connect(listener.url, tls=ours) as consumer,
            rstreams.connect(listener.url, tls=ours, reconnect=None) as connection,
            trio.open_nursery() as nursery,
        ):
            one = Publishing(connection, consumer)
            nursery.start_soon(consumer.stream("work").for_each, one.got.append)
            nursery.start_soon(one.publish)
            await one.idle()
            yield one
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("tls", [False, True])
async def test_an_item_that_comes_alone_is_sent_inside_of_emit(writes: Writes, *, tls: bool) -> None:
    async with publishing(tls=tls) as one:
        for item in range(3):
            await one.idle()
            before = len(writes.sizes)
            one.emit(item)
            assert len(writes.sizes) == before + 1
            assert one.pump._sleeps, "the pump is not woken for it"
        await one.has_got(0, 1, 2)


async def test_further_items_leave_together_in_the_pumps_turn(writes: Writes) -> None:
    async with publishing() as one:
        before = len(writes.sizes)
        one.pump._bursts.turned_at = math.inf  # as if the last turn had just been
        one.pump._bursts.left = 0
        for item in range(100):
            one.emit(item)
        assert len(writes.sizes) == before
        await one.has_got(*range(100))


async def test_the_clock_of_the_run_tells_whether_a_connection_is_quiet(
    writes: Writes, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    del autojump_clock
    monkeypatch.setattr("rstreams.net.transport.pump.MOST_AHEAD", 8)  # no more than the credit of an idle producer
    async with publishing() as one:
        one.pump._bursts.turned_at = trio.current_time()
        before = len(writes.sizes)
        one.emit(0)
        assert len(writes.sizes) == before
        await one.has_got(0)
        await trio.sleep(1)
        before = len(writes.sizes)
        one.emit(1)
        assert len(writes.sizes) == before + 1
        for item in range(2, 13):
            one.emit(item)
        assert len(writes.sizes) == before + 8, "the pump gathers the others"
        await one.has_got(*range(13))


async def test_the_pump_sends_the_rest_of_what_the_network_did_not_take(writes: Writes) -> None:
    async with publishing() as one:
        writes.instead = lambda _wire, _pieces: 0
        one.emit(0)
        assert one.pump._wire.unsent
        assert not one.pump._sleeps
        one.emit(1)  # behind it
        await one.has_got(0, 1)


async def test_a_part_of_an_item_is_followed_by_the_rest(writes: Writes) -> None:
    async with publishing() as one:
        writes.instead = lambda wire, pieces: wire._socket._sock.send(pieces[0][:7])  # type: ignore[attr-defined]
        one.emit(0)
        assert writes.sizes[-1] == 7
        await one.has_got(0)


async def test_a_connection_that_breaks_inside_of_emit_is_lost_in_the_pumps_turn(writes: Writes) -> None:
    def break_it(_wire: SocketWire, _pieces: Sequence[bytes | memoryview]) -> int:
        raise trio.BrokenResourceError

    async with publishing() as one:
        pump = one.pump
        writes.instead = break_it
        one.emit(0)
        assert one.pushed.subscribers == 1, "nobody hears of the loss inside of emit"
        one.emit(1)
        await pump.ended.wait()
        assert isinstance(pump.error, ConnectionLost)
        assert one.pushed.subscribers == 0


@pytest.mark.parametrize("method", ["output_pieces", "work_ahead"])
async def test_an_error_of_the_engine_is_the_connections_and_not_the_publishers(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Sequence[memoryview]:
        msg = "of the engine"
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="of the engine"):
        async with publishing() as one:
            if method == "work_ahead":  # an item that is not sent by itself
                monkeypatch.setattr(SendingDriver, "send_ahead", lambda *_, **__: False)
            monkeypatch.setattr(one.pump.engine, method, fail)
            one.emit(0)
            await trio.sleep_forever()


async def test_the_pump_goes_on_after_there_was_no_memory_for_an_item(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    async with publishing() as one:
        with monkeypatch.context() as patch, suppress(MemoryError):
            patch.setattr(SentDeliveries, "add", fail)
            one.pushed.emit(0)
        assert not one.pump._turning


async def test_a_cancelled_task_emits_as_any_other(writes: Writes) -> None:
    async with publishing() as one:
        before = len(writes.sizes)
        with trio.CancelScope() as scope:
            scope.cancel()
            one.emit(0)
            assert len(writes.sizes) == before + 1
            await trio.sleep_forever()
        await one.has_got(0)


async def test_an_item_emitted_in_a_turn_of_its_own_connection_leaves_at_the_end_of_the_turn(writes: Writes) -> None:
    """The engine is not entered twice: `on_next` of one link of a connection emits to another link of it."""
    async with publishing() as one:
        inside: list[tuple[bool, int]] = []

        def pass_on(item: int) -> None:
            before = len(writes.sizes)
            one.pump._bursts = Bursts()
            one.emit(item)
            inside.append((one.pump._turning, len(writes.sizes) - before))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.connection.stream("in").for_each, pass_on)
            nursery.start_soon(one.consumer.publish, "in", Stream.range(20))
            await one.has_got(*range(20))
            nursery.cancel_scope.cancel()
        assert inside == [(True, 0)] * 20


async def test_a_link_that_is_attached_while_an_item_is_sent_ahead_is_attached_at_once() -> None:
    probe: ProbeSubscriber[int] = ProbeSubscriber(1)
    async with publishing() as one, Scope():
        await until(lambda: one.pump._sleeps)
        one.pump._bursts = Bursts()
        assert one.pump.begin_ahead()
        one.connection.stream("in").subscribe(probe)  # as user code may do in `do_on_request`
        one.pump.end_ahead()
        assert not one.pump._sleeps, "otherwise the link waits until something else happens"
        await until(lambda: probe.subscription is not None)
        probe.cancel()


async def test_a_stream_is_passed_on_from_one_connection_to_another_in_order() -> None:
    async with Node() as node:
        node.queue("first")
        node.queue("second")
        listener = await node.listen("127.0.0.1:0")
        got: list[int] = []
        async with (
            rstreams.connect(listener.url) as one,
            rstreams.connect(listener.url) as other,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(other.publish, "second", one.stream("first").filter(lambda item: item % 2 == 0))
            nursery.start_soon(one.stream("second").for_each, got.append)
            pushed = Multicast[int]()
            nursery.start_soon(one.publish, "first", pushed)
            for item in range(300):
                await until(lambda: pushed.demand)
                pump_of(one)._bursts, pump_of(other)._bursts = Bursts(), Bursts()
                assert pushed.emit(item) is EmitResult.OK
                if item % 7 == 0:
                    await until(lambda last=item: got and got[-1] >= last - 1)  # type: ignore[misc]
            await until(lambda: len(got) == 150)
            assert got == list(range(0, 300, 2))
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("settlement", ["at_least_once", "at_most_once"])
async def test_a_publisher_that_was_asked_for_a_part_of_the_credit_is_asked_for_the_rest(
    settlement: SettlementName,
) -> None:
    async def large() -> AsyncIterator[bytes]:  # fewer than the credit fit into the room for bytes
        for _ in range(400):
            yield bytes(50_000)
        await trio.sleep_forever()

    got: list[int] = []
    async with Node() as node:
        node.serve("large", Stream.from_async_iterable(large()))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:
            sizes = connection.stream("large", settlement=settlement, window=256).map(len)
            nursery.start_soon(sizes.for_each, got.append)
            await until(lambda: len(got) == 400)
            nursery.cancel_scope.cancel()
