"""The network in memory: as TCP is, and as networks fail."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable

import pytest
import trio
import trustme

import rstreams
from rstreams import Stream
from rstreams.simulation import World, simulation
from rstreams.simulation.pipe import BUFFER_BYTES, LARGE_BUFFER_BYTES
from rstreams.simulation.weather import Kind

Talk = Callable[[trio.SocketStream], Awaitable[None]]

PORT = 7000
DATA = bytes(range(256)) * 40


def connected(world: World, client: Talk, server: Talk, *, client_ends: bool = True) -> None:
    """Set up a server, for one connection, and a client, which connects a little later."""

    async def serve() -> None:
        (listener,) = await trio.open_tcp_listeners(PORT, host="0.0.0.0")  # noqa: S104 - it is in memory
        async with await listener.accept() as stream:
            await server(stream)

    async def connect() -> None:
        await trio.sleep(0.01)
        async with await trio.open_tcp_stream("server", PORT) as stream:
            await client(stream)

    world.start(serve, name="server", service=client_ends)
    world.start(connect, name="client", service=not client_ends)


async def _received(stream: trio.SocketStream) -> bytes:
    return b"".join([part async for part in stream])


async def _silent(_stream: trio.SocketStream) -> None:
    await trio.sleep_forever()


def sent_over(world: World, *, pause_s: float = 0.0) -> list[bytes]:
    """Send `DATA` from the client to the server; return what has arrived there."""
    arrived: list[bytes] = []

    async def send(stream: trio.SocketStream) -> None:
        for at in range(0, len(DATA), 1000):
            await stream.send_all(DATA[at : at + 1000])
            await trio.sleep(pause_s)
        await stream.send_eof()
        assert await _received(stream) == b"thanks"

    async def receive(stream: trio.SocketStream) -> None:
        arrived.append(await _received(stream))
        await stream.send_all(b"thanks")

    connected(world, send, receive)
    return arrived


@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_in_order_whatever_slows_them(seed: int) -> None:
    with simulation(seed, limit_s=60) as world:
        arrived = sent_over(world, pause_s=0.01)
        kinds: list[Kind] = ["cut", "one_way", "hold", "slow", "pieces", "delay"]
        world.weather(pairs=[("client", "server")], kinds=kinds, until_s=0.2, most=30)
    assert arrived == [DATA]


def test_what_waits_behind_a_cut_arrives_when_it_is_mended() -> None:
    with simulation() as world:
        arrived = sent_over(world)
        world.at(0.0105, world.cut, "client", "server")
        world.at(5.0, world.mend, "client", "server")
    assert arrived == [DATA]
    assert 5.0 < world.now() < 5.1


def test_a_bandwidth_takes_its_time() -> None:
    with simulation() as world:
        arrived = sent_over(world)
        world.at(0.0, world.slow, "client", "server", 1024)
    assert arrived == [DATA]
    assert world.now() > 10


def test_a_sender_waits_for_a_reader_that_does_not_read() -> None:
    assert {_sent_without_a_reader(seed) for seed in range(8)} == {BUFFER_BYTES, LARGE_BUFFER_BYTES}


def _sent_without_a_reader(seed: int) -> int:
    sent: list[int] = []

    async def send(stream: trio.SocketStream) -> None:
        with trio.move_on_after(10):
            while True:
                await stream.send_all(bytes(32 * 1024))
                sent.append(32 * 1024)

    with simulation(seed) as world:
        connected(world, send, _silent)
    return sum(sent)


@pytest.mark.parametrize("way", ["reset", "kill", "break"])
def test_both_sides_hear_of_a_connection_that_breaks(way: str) -> None:
    heard: list[str] = []

    async def client(stream: trio.SocketStream) -> None:
        try:
            while True:
                await stream.send_all(b"x" * 100)
                await trio.sleep(0.01)
        except trio.BrokenResourceError:
            heard.append("client")

    async def server(stream: trio.SocketStream) -> None:
        try:
            await _received(stream)
        except trio.BrokenResourceError:
            heard.append("server")

    with simulation() as world:
        connected(world, client, server)
        faults: dict[str, Callable[[], object]] = {
            "reset": lambda: world.reset("client", "server"),
            "kill": lambda: world.kill("server"),
            "break": lambda: world.connections("client", "server")[0].pipes[0].break_after(150),
        }
        world.at(0.05, faults[way])
    assert heard == (["client"] if way == "kill" else heard)
    assert "client" in heard


def test_a_side_that_was_forgotten_notices_when_it_writes() -> None:
    noticed: list[float] = []

    async def client(stream: trio.SocketStream) -> None:
        await trio.sleep(3)
        try:
            while True:
                await stream.send_all(b"x")
                await trio.sleep(0.01)
        except trio.BrokenResourceError:
            noticed.append(trio.current_time())

    with simulation() as world:
        connected(world, client, _silent)
        world.at(1.0, lambda: world.connections("client", "server")[0].forget(1))
        world.at(2.0, world.calm)
    assert 3.0 < noticed[0] < 3.1


def test_a_host_without_power_does_not_answer_and_one_without_a_listener_refuses() -> None:
    told: list[object] = []

    async def connect() -> None:
        with trio.move_on_after(5) as patience:
            await trio.open_tcp_stream("server", PORT)
        told.append(patience.cancelled_caught)
        world.restart("server")
        for host in ("server", "127.0.0.1", "nowhere"):
            try:
                await trio.open_tcp_stream(host, 1)
            except OSError as error:
                told.append(str(error))

    with simulation() as world:
        world.start(trio.sleep_forever, name="server", service=True)
        world.start(connect, name="client")
        world.at(0.0, lambda: world.kill("server", power=True))
    assert told == [
        True,
        "all attempts to connect to server:1 failed",
        "all attempts to connect to 127.0.0.1:1 failed",
        "[Errno -2] the simulation has no host 'nowhere'",
    ]


def test_a_port_is_used_once_on_a_host() -> None:
    told: list[str] = []

    async def listen() -> None:
        await trio.open_tcp_listeners(PORT, host="127.0.0.1")
        try:
            await trio.open_tcp_listeners(PORT, host="127.0.0.1")
        except OSError as error:
            told.append(str(error))

    with simulation() as world:
        world.start(listen, name="one")
        world.start(listen, name="two")
    assert told == ["[Errno 98] Address already in use"] * 2


def test_a_server_that_names_no_address_listens_on_its_host() -> None:
    arrived: list[bytes] = []

    async def take(stream: trio.SocketStream) -> None:
        arrived.append(await _received(stream))

    async def send() -> None:
        async with await trio.open_tcp_stream("Server", PORT) as stream:
            await stream.send_all(b"hello")
        await trio.sleep(1)

    with simulation() as world:
        world.start(trio.serve_tcp, take, PORT, name="server", service=True)
        world.start(send, name="client")
    assert arrived == [b"hello"]


def test_ends_that_cross_lose_nothing() -> None:
    got: list[bytes] = []
    delays_s = [0.0, 0.0005, 0.001, 0.0015, 0.002]

    async def ask(stream: trio.SocketStream) -> None:
        await stream.send_all(b"?")
        await trio.sleep(delays_s.pop())
        await stream.send_eof()
        got.append(await _received(stream))

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some(1)
        await stream.send_all(b"an answer")

    while delays_s:
        with simulation() as world:
            connected(world, ask, answer)
    assert got == [b"an answer"] * 5


def test_what_a_part_does_after_a_kill_reaches_nobody() -> None:
    errors: list[OSError] = []

    async def serve(stream: trio.SocketStream) -> None:
        pytest.fail(f"{await stream.receive_some()!r} came from a part that was killed")

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                try:
                    await trio.open_tcp_listeners(PORT)
                except OSError as error:
                    errors.append(error)
                try:
                    await trio.open_tcp_stream("server", PORT)
                except OSError as error:
                    errors.append(error)

    with simulation() as world:
        world.start(trio.serve_tcp, serve, PORT, name="server", service=True)
        world.start(work, name="worker", service=True)
        world.start(trio.sleep, 2, name="clock")
        world.at(1.0, world.kill, "worker")
    assert len(errors) == 2


def test_tls_goes_over_it() -> None:
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("node").configure_cert(server)
    authority.configure_trust(client)
    sent = []

    async def serve() -> None:
        async with rstreams.Node() as node:
            node.queue("jobs")
            await node.listen("0.0.0.0:5671", tls=server)
            await trio.sleep_forever()

    async def publish() -> None:
        async with rstreams.connect("amqps://node:5671", tls=client) as connection:
            sent.append((await connection.publish("jobs", Stream.range(3))).accepted)

    with simulation(limit_s=10) as world:
        world.start(serve, name="node", service=True)
        world.start(publish, name="publisher")
        world.at(0.0, world.slow, "publisher", "node", 100_000)
    assert sent == [3]


def test_a_long_message_in_small_pieces_does_not_become_thousands_of_them() -> None:
    pieces: list[bytes] = []
    with simulation(1) as world:
        arrived = sent_over(world, pause_s=0.01)
        world.on_bytes = lambda _now, _connection, direction, data: pieces.append(data) if direction == 0 else None
        world.at(0.03, lambda: setattr(world.connections("client", "server")[0].pipes[0], "piece_bytes", 5))
    assert arrived == [DATA]
    assert 100 < len(pieces) < 1000
    assert sum(len(piece) <= 5 for piece in pieces) >= 64
