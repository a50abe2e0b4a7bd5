"""Whatever is cancelled, at whichever step of any task: both ends of the wire agree on it, and nothing is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import rstreams
from rstreams import Connection, Node, Stream
from rstreams.errors import RStreamsError
from rstreams.net.transport.listener import Listener
from tests.net.fault_roles import ITEMS, Consuming, Publishing, PublishingPacksOnce, Role, contents
from tests.net.over_tcp import pump_of
from tests.net.peers import until

SETTLES_S = 100.0


class CancelAt(trio.abc.Instrument):
    """Cancels a scope after the k-th step of any task, counted from `arm`.

    Attributes:
        steps: How many steps there have been.
    """

    def __init__(self, k: int) -> None:
        self.steps = 0
        self.scope: trio.CancelScope | None = None
        self._k = k

    def arm(self, scope: trio.CancelScope) -> None:
        self.scope = scope

    def disarm(self) -> None:
        self.scope = None

    def after_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - trio's
        if self.scope is not None:
            self.steps += 1
            if self.steps == self._k:
                self.scope.cancel()


async def cancelled_at(k: int, call: Callable[[], Awaitable[object]]) -> bool:
    """Call something and cancel it after the k-th step; tell whether it was through before."""
    instrument = CancelAt(k)
    trio.lowlevel.add_instrument(instrument)
    try:
        with trio.CancelScope() as scope:
            instrument.arm(scope)
            await call()
    finally:
        instrument.disarm()
        trio.lowlevel.remove_instrument(instrument)
    return instrument.steps < k


def at_every_step(case: Callable[[int], Awaitable[bool]], *, stride: int = 1) -> int:
    """Run a case with a cancellation at each step in turn, until there are no more; return how many there were."""
    k = 1
    while not trio.run(case, k, clock=MockClock(autojump_threshold=0.001)):
        k += stride
    return k


def living(listener: Listener, connection: Connection) -> int:
    """Return how many links either side believes in."""
    pumps = [*listener._connections, pump_of(connection)]
    return sum(driver.lives for pump in pumps for driver in pump.engine.links.drivers)


# what is cancelled


class Handling(Consuming):
    """Consumes with a handler that waits, until all have been handled."""

    async def run(self, connection: Connection) -> None:
        async def handle(item: int) -> None:
            await trio.lowlevel.checkpoint()
            self.got.append(item)
            if len(self.got) == ITEMS:
                enough.cancel()

        with trio.CancelScope() as enough:
            await connection.consume("work", handle, concurrency=3, window=8)

    async def check(self, error: BaseException | None, *, in_order: bool) -> None:  # noqa: ARG002 - three at a time
        await super().check(error, in_order=False)


class Submitting(Role):
    """Sends one by one, each when the one before is settled."""

    items = "to_peer"

    def __init__(self, node: Node) -> None:
        super().__init__(node)
        self.queue = node.queue("work", capacity=200)
        self.accepted: list[int] = []

    async def run(self, connection: Connection) -> None:
        async with connection.sender("work") as sender:
            for number in range(5):
                await sender.send(number)
                self.accepted.append(number)

    async def check(self, error: BaseException | None, *, in_order: bool) -> None:  # noqa: ARG002 - a role's
        stored = contents(self.queue)
        assert stored in (self.accepted, [*self.accepted, len(self.accepted)]), "and the one that was in doubt"


async def _in_a_connection(make: type[Role], k: int) -> bool:
    """Cancel what a role does; the connection goes on."""
    with trio.fail_after(SETTLES_S):
        async with Node(pack_items=4) as node:
            listener = await node.listen("127.0.0.1:0")
            role = make(node)
            node.queue("after")
            async with rstreams.connect(listener.url) as connection:
                tasks = trio.lowlevel.current_statistics().tasks_living

                async def call() -> None:
                    await role.run(connection)

                through = await cancelled_at(k, call)
                await until(lambda: living(listener, connection) == 0)
                _check_queues(node)
                assert trio.lowlevel.current_statistics().tasks_living == tasks, "no task is left behind"
                if not through:
                    await _check_cancelled(role)
                # what both sides count for the session still fits: it goes on as if nothing had been
                await connection.publish("after", Stream.range(40))
                assert await connection.stream("after", window=8).take(40).to_list() == list(range(40))
        if through:
            await role.check(None, in_order=True)
        return through


async def _check_cancelled(role: Role) -> None:
    error = RStreamsError("cancelled")
    if isinstance(role, Publishing):
        error.outcome_unknown = len(role.source.unknown)
    await role.check(error, in_order=True)


def _check_queues(node: Node) -> None:
    for queue in node.statistics().queues.values():
        assert (queue.consumers, queue.producers, queue.unsettled, queue.credit) == (0, 0, 0, 0)


async def _with_its_connection(make: type[Role], k: int) -> bool:
    """Cancel the block of `connect` with all that is in it."""
    with trio.fail_after(SETTLES_S):
        async with Node(pack_items=4) as node:
            listener = await node.listen("127.0.0.1:0")
            role = make(node)
            await wait_all_tasks_blocked()
            tasks = trio.lowlevel.current_statistics().tasks_living

            async def call() -> None:
                async with rstreams.connect(listener.url) as connection:
                    await role.run(connection)

            through = await cancelled_at(k, call)
            await until(lambda: not listener.connections and not listener.handshakes)
            _check_queues(node)
            if through:
                await role.check(None, in_order=True)
            else:
                await _check_cancelled(role)
            await until(lambda: trio.lowlevel.current_statistics().tasks_living == tasks)
        return through


async def _the_node(k: int) -> bool:
    """Cancel a node, and what it listens with, while a client is at work; its port is free again at once."""
    with trio.fail_after(SETTLES_S):
        tasks = trio.lowlevel.current_statistics().tasks_living
        port = 0
        got: list[int] = []
        ended = trio.Event()

        async def client(place: str) -> None:
            try:
                async with rstreams.connect(place) as connection:
                    await connection.stream("numbers").take(5).for_each(got.append)
            except RStreamsError:
                assert got == list(range(len(got)))
            ended.set()

        async def call() -> None:
            nonlocal port
            async with Node() as node:
                node.serve("numbers", Stream.range(10))
                listener = await node.listen("127.0.0.1:0")
                port = listener.port
                nursery.start_soon(client, listener.url)
                await ended.wait()

        async with trio.open_nursery() as nursery:
            through = await cancelled_at(k, call)
        if port:
            async with Node() as node:
                await node.listen(f"127.0.0.1:{port}")
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        return through


QUICK: list[type[Role]] = [Publishing, Consuming]
ROLES: list[type[Role]] = [*QUICK, PublishingPacksOnce, Handling, Submitting]


@pytest.mark.parametrize("role", QUICK)
def test_what_is_cancelled_at_some_steps(role: type[Role]) -> None:
    async def case(k: int) -> bool:
        return await _in_a_connection(role, k)

    assert at_every_step(case, stride=13) > 20


@pytest.mark.slow
def test_an_item_whose_handler_had_not_begun_goes_back_untouched() -> None:
    async def case(k: int) -> bool:
        return await _in_a_connection(Handling, k)

    for k in range(20):
        trio.run(case, k, clock=MockClock(autojump_threshold=0.001))


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_what_is_cancelled_at_every_step(role: type[Role]) -> None:
    async def case(k: int) -> bool:
        return await _in_a_connection(role, k)

    assert at_every_step(case) > 8


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_a_connection_that_is_cancelled_at_every_step(role: type[Role]) -> None:
    async def case(k: int) -> bool:
        return await _with_its_connection(role, k)

    assert at_every_step(case) > 20


@pytest.mark.slow
def test_a_node_that_is_cancelled_at_every_step() -> None:
    assert at_every_step(_the_node) > 20
