"""Nonsense of every kind, said to a node and to a client: an error that says so, one line of log, and nothing else.

Everything runs in virtual time, so whoever waits for ever fails at once. Seeds and counts are fixed.
"""

from __future__ import annotations

import gc
import json
import logging
import random
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import rstreams
from rstreams import Node, Reconnect, Stream
from rstreams.errors import Condition, RStreamsError
from rstreams.message import encode_item
from rstreams.net.transport.listener import Listener
from rstreams.node import Client
from rstreams.node.queue import Queue
from rstreams.runtime import seldom
from rstreams.testing import ProbeSubscriber
from tests.log_lines import tell_counts
from tests.net.certificates import node_context
from tests.net.engines import Alone
from tests.net.peers import until
from tests.net.recorded import SESSIONS, USERS, Chunk, Script, addresses, mutated, pieces_of, recorded, say
from tests.net.wire import (
    ACCEPT,
    AMQP_HEADER,
    SASL_HEADER,
    SASL_INIT,
    attach_frame,
    begin_frame,
    close_frame,
    detach_frame,
    disposition_frame,
    end_frame,
    flow_frame,
    next_frame,
    open_frame,
    transfer_frame,
)

SETTLES_S = 300.0
"""How long one attack may take, in virtual time: longer than any time-out."""

ENGINES_OWN = {"amqp:not allowed", "amqp:session:invalid-field", "amqp:connection:policy-error"}
"""Conditions that the engine (proton 0.40) says by itself and that AMQP does not list."""

CONDITIONS = {condition.value for condition in Condition} | ENGINES_OWN


@pytest.fixture(autouse=True)
def _each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count no lines of the log: each is logged by itself."""
    monkeypatch.setattr(seldom, "PERIOD_S", 0.0)


def run(test: Callable[..., Awaitable[None]], *args: object) -> None:
    """Run a test in virtual time, when all sessions have been recorded."""
    for session in SESSIONS:
        recorded(session, "to_peer", password=True)
        recorded(session, "to_client")
    trio.run(test, *args, clock=MockClock(autojump_threshold=0.001))


class Lines(logging.Handler):
    """The log of rstreams, as lines; a traceback or an error in it is a failure."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self.faults: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info is not None or record.levelno >= logging.ERROR:
            self.faults.append(f"{text} {record.exc_info}")
        self.lines.append(text)

    def take(self) -> list[str]:
        assert not self.faults
        taken, self.lines = self.lines, []
        return taken

    def begin(self) -> None:
        """Have no lines, and let the next of each kind be told at once."""
        tell_counts()
        self.take()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    lines, logger = Lines(), logging.getLogger("rstreams")
    monkeypatch.setattr(logger, "level", logging.INFO)
    monkeypatch.setattr(logger, "propagate", False)  # pytest would keep every line
    logger.addHandler(lines)
    yield lines
    logger.removeHandler(lines)


# what is said


def illegal(choose: random.Random) -> bytes:
    """Return a frame that is well formed, whether it makes sense or not."""
    number = choose.choice([0, 1, 2, 5, 2**31, 2**32 - 1])
    handle = choose.choice([0, 0, 0, 1, 2, 255])
    channel = choose.choice([0, 0, 0, 0, 1, 65535])
    role = choose.choice(["sender", "receiver"])
    place = choose.choice(["work", "work", "numbers", "nowhere", "$statistics", None])
    flag = choose.random() < 0.3
    body = encode_item(choose.choice([1, "text", b"data"]))
    made: list[Callable[[], bytes]] = [
        lambda: open_frame(channel_max=choose.choice([0, 65535]), max_frame=choose.choice([0, 512, 2**32 - 1])),
        lambda: begin_frame(choose.choice([None, 0, 5]), channel=channel, incoming_window=choose.choice([0, 1, 2**31])),
        lambda: attach_frame(
            choose.choice("ab"), role, source=place, target=place, settled=flag, handle=handle, channel=channel
        ),
        lambda: attach_frame(
            choose.choice("ab"), role, source=place, target=place, initial_delivery_count=number, handle=handle
        ),
        lambda: flow_frame(
            next_incoming=number, handle=handle, delivery_count=choose.choice([0, number]), credit=number, drain=flag
        ),
        lambda: transfer_frame(number, b"", payload=body, settled=flag, handle=handle, channel=channel),
        lambda: transfer_frame(number, b"x" * 600, more=flag, handle=handle),
        lambda: next_frame(more=flag, aborted=choose.random() < 0.3, handle=handle),
        lambda: disposition_frame(0, number, ACCEPT, settled=not flag, channel=channel),
        lambda: detach_frame(closed=not flag, handle=handle, channel=channel),
        lambda: end_frame(channel=channel),
        close_frame,
        lambda: SASL_INIT,
        lambda: AMQP_HEADER,
    ]
    weights = [1, 2, 6, 6, 6, 8, 4, 2, 4, 3, 1, 0.3, 0.3, 0.2]
    return choose.choices(made, weights)[0]()


def attack(choose: random.Random) -> Script:
    """Return what an attacker says to a node: noise behind a good beginning, a changed session, illegal frames."""
    kind = choose.choice(["noise", "changed", "changed", "illegal"])
    if kind == "changed":
        script = recorded(choose.choice(list(SESSIONS)), "to_peer", password=True)
        changed = mutated(script, choose, recorded(choose.choice(list(SESSIONS)), "to_peer", password=True))
        return changed if choose.random() < 0.7 else [Chunk(0, chunk.data) for chunk in changed]
    session = recorded("publish", "to_peer", password=True)
    beginning = session[: choose.choice([0, 1, 2, 3, 4] if kind == "noise" else [3])]
    if kind == "noise":
        return [*beginning, Chunk(0, choose.randbytes(choose.choice([0, 1, 8, 100, 5000])))]
    frames = b"".join(illegal(choose) for _ in range(choose.choice([1, 3, 10, 30])))
    return [*beginning, Chunk(0, open_frame() + begin_frame(None) + frames)]


def check_words(said: bytes) -> None:
    """Check what a node says to an attacker: frames, and conditions that AMQP knows."""
    for piece in pieces_of(said):
        assert piece.startswith((b"AMQP", b"\x00")), piece[:40]
        for found in piece.split(b"\xa3")[1:]:
            symbol = found[1 : 1 + found[0]]
            if symbol.startswith(b"amqp:") and b":list" not in symbol:
                assert symbol.decode() in CONDITIONS, symbol


# into a node


@asynccontextmanager
async def bystanding(tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Node, Listener, Callable[[], Any]]]:
    """Run a node that is to be attacked, and a client of it that must notice nothing of that."""
    async with Node(users=USERS, pack_items=4) as node:
        addresses(node)
        node.queue("own")
        own = await node.listen("127.0.0.1:0")
        attacked = await node.listen("127.0.0.1:0", tls=tls) if tls is not None else own
        got: list[int] = []
        url = own.url.replace("//", "//alice:sesame@")
        async with rstreams.connect(url) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(connection.stream("own").for_each, got.append)
            await until(lambda: node.statistics().queues["own"].consumers)

            async def still_there() -> None:
                before = len(got)
                await connection.publish("own", Stream.of(before))
                await until(lambda: len(got) > before)
                assert got == list(range(before + 1))
                assert connection.status.state == "connected"

            yield node, attacked, still_there
            nursery.cancel_scope.cancel()


async def _attack_node(seed: int, count: int, log: Lines) -> None:
    choose = random.Random(seed)  # noqa: S311 - what is said, not a secret
    async with bystanding() as (node, listener, still_there):
        queue = node._addresses["work"]
        assert isinstance(queue, Queue)
        for number in range(count):
            log.begin()
            with trio.fail_after(SETTLES_S):
                async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
                    said = await say(stream, attack(choose), hangs_up=choose.random() < 0.5)
                await until(lambda: listener.connections == 1 and not listener.handshakes)
            check_words(said)
            lines = [line for line in log.take() if " from a session: " not in line]
            assert len(lines) <= 1, (number, lines)
            now = queue.statistics()
            assert (now.consumers, now.producers, now.unsettled, now.credit) == (0, 0, 0, 0), number
            assert now.enqueued == now.ready + now.accepted + now.rejected
            if now.ready > 80:
                probe = ProbeSubscriber[bytes](1000)
                queue.subscribe(probe)
                probe.cancel()
            if number % 50 == 0:
                await still_there()
        await still_there()


@pytest.mark.slow
def test_a_node_that_is_told_nonsense(log: Lines) -> None:
    run(_attack_node, 1, 60, log)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 14))
def test_a_node_that_is_told_much_nonsense(log: Lines, seed: int) -> None:
    run(_attack_node, seed, 400, log)


GARBAGE: list[bytes] = [
    b"\x16\x03\x01\x00\x05hello",
    b"\x16\x03\x03\xff\xff",
    b"\x15\x03\x03\x00\x02\x02\x28",
    AMQP_HEADER + open_frame(),
    SASL_HEADER + SASL_INIT,
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x80\x2e\x01\x00\x02",  # SSL 2.0
]


async def _attack_tls(seed: int, count: int, log: Lines) -> None:
    choose = random.Random(seed)  # noqa: S311 - what is said, not a secret
    async with bystanding(node_context()) as (_, listener, still_there):
        for number in range(count):
            log.begin()
            garbage = choose.choice([*GARBAGE, b""]) + choose.randbytes(choose.choice([0, 1, 5, 100, 3000]))
            hangs_up = choose.random() < 0.5
            with trio.fail_after(SETTLES_S):
                async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
                    said = await say(stream, [Chunk(0, garbage)], hangs_up=hangs_up)
                await until(lambda: not listener.connections and not listener.handshakes)
            assert said[:1] in (b"", b"\x15", b"A"), "an alert, or how AMQP would begin"
            lines = log.take()
            assert len(lines) == 1 or not (garbage or lines), number  # who says nothing may be a probe
            assert all(line.startswith("refused a connection from") for line in lines), number
        await still_there()


def test_a_tls_port_that_is_told_nonsense(log: Lines) -> None:
    run(_attack_tls, 3, 30, log)


@pytest.mark.slow
def test_a_tls_port_that_is_told_much_nonsense(log: Lines) -> None:
    run(_attack_tls, 4, 1000, log)


FRAMING, NOT_FOUND = b"amqp:connection:framing-error", b"amqp:not-found"
SAID: dict[str, tuple[bytes, bytes]] = {
    "bytes that are no frame": (b"\x00\x00\x00\x04\x02\x00\x00\x00", FRAMING),
    "an offset beyond the frame": (b"\x00\x00\x00\x08\x09\x00\x00\x00", FRAMING),
    "a frame larger than was allowed": (b"\x7f\xff\xff\xff\x02\x00\x00\x00", FRAMING),
    "another header": (SASL_HEADER, FRAMING),
    "an address there is none of": (attach_frame("x", "receiver", source="nowhere"), NOT_FOUND),
    "a target there is none of": (attach_frame("x", "sender", target="nowhere", initial_delivery_count=0), NOT_FOUND),
    "a message to a served stream": (
        attach_frame("x", "sender", target="numbers", initial_delivery_count=0),
        b"amqp:not-allowed",
    ),
    "no address at all": (attach_frame("x", "receiver", source=None), NOT_FOUND),
    "a message that nobody asked for": (transfer_frame(0, b"x", handle=7), b"amqp:session:unattached-handle"),
    "a detach of no link": (detach_frame(handle=7), b"amqp:session:unattached-handle"),
    "a flow on no link": (flow_frame(handle=7, credit=1), b"amqp:session:unattached-handle"),
    "an end of no session": (end_frame(channel=9), b"amqp:not-allowed"),
}


async def _attack_with(what: bytes, condition: bytes, log: Lines) -> None:
    async with bystanding() as (_, listener, still_there):
        log.begin()
        beginning = recorded("publish", "to_peer", password=True)[:3]  # up to its open
        script = [*beginning, Chunk(0, begin_frame(None) + what), Chunk(10**6, b"")]
        with trio.fail_after(SETTLES_S):
            async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
                said = await say(stream, script, hangs_up=True)
            await until(lambda: listener.connections == 1 and not listener.handshakes)
        assert condition in said, said
        assert len([line for line in log.take() if " from a session: " not in line]) <= 1
        await still_there()


@pytest.mark.slow
@pytest.mark.parametrize("what", SAID)
def test_the_condition_that_a_node_answers_with(what: str, log: Lines) -> None:
    run(_attack_with, *SAID[what], log)


# into a client


async def _attack_client(seed: int, count: int, log: Lines) -> None:
    choose = random.Random(seed)  # noqa: S311 - what is said, not a secret
    script: Script = ()
    hangs_up = False

    async def answer(stream: trio.SocketStream) -> None:
        async with stream:
            await say(stream, script, hangs_up=hangs_up)

    async with trio.open_nursery() as nursery:
        (door,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, answer, [door])
        url = f"amqp://127.0.0.1:{door.socket.getsockname()[1]}"
        for number in range(count):
            name = choose.choice(list(SESSIONS))
            script = _answers(name, choose)
            hangs_up = choose.random() < 0.5
            policy = Reconnect(first_delay_s=25.0, max_attempts=2) if choose.random() < 0.3 else None
            with trio.move_on_after(SETTLES_S) as settling:
                try:
                    async with rstreams.connect(url, container_id="fuzz", reconnect=policy) as connection:
                        with trio.move_on_after(3600 if policy is None else 100):  # it may be lost again and again
                            await SESSIONS[name](connection)
                except RStreamsError:
                    pass  # what it says is looked at in test_scripted_faults
            assert not settling.cancelled_caught, number
            log.take()
        nursery.cancel_scope.cancel()


def _answers(name: str, choose: random.Random) -> Script:
    script = recorded(name, "to_client")
    kind = choose.choice(["noise", "changed", "changed", "illegal"])
    if kind == "changed":
        return mutated(script, choose, recorded(choose.choice(list(SESSIONS)), "to_client"))
    known = choose.randrange(len(script)) if kind == "noise" else choose.randrange(3, len(script))
    if kind == "noise":
        return [*script[:known], Chunk(0, choose.randbytes(choose.choice([0, 1, 8, 100, 5000])))]
    frames = b"".join(illegal(choose) for _ in range(choose.choice([1, 3, 10, 30])))
    return [*script[:known], Chunk(0, frames), *script[known:]]


@pytest.mark.slow
def test_a_client_that_is_told_nonsense(log: Lines) -> None:
    run(_attack_client, 5, 60, log)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 24))
def test_a_client_that_is_told_much_nonsense(log: Lines, seed: int) -> None:
    run(_attack_client, seed, 400, log)


# into the engine alone, which is quick


def _attack_engine(seed: int, count: int) -> None:
    choose = random.Random(seed)  # noqa: S311 - what is said, not a secret
    scripts = [recorded(name, "to_peer") for name in SESSIONS]
    for number in range(count):
        node = Node(pack_items=4)
        addresses(node)
        engine = Alone()
        engine.side.answer = partial(node._on_attach, Client())
        try:
            script = mutated(choose.choice(scripts), choose, choose.choice(scripts))
            for piece in pieces_of(b"".join(chunk.data for chunk in script[2:])):  # behind SASL
                engine.feed(piece)
            engine.feed(b"")
        finally:
            engine.free()
        now = node.statistics().queues["work"]
        assert now.enqueued == now.ready + now.accepted + now.rejected
        assert (now.unsettled, now.consumers, now.producers, now.credit) == (0, 0, 0, 0), number


@pytest.mark.slow
def test_changed_sessions_into_an_engine() -> None:
    run(_nothing)
    _attack_engine(6, 100)


@pytest.mark.slow
def test_many_changed_sessions_into_an_engine() -> None:
    run(_nothing)
    _attack_engine(7, 3000)


async def _nothing() -> None:
    """Record, and do nothing."""


# memory


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def measure() -> None:
    """Write, for each round of nonsense, how many objects there are of ours, and the bytes of this process."""
    logging.disable(logging.CRITICAL)
    log = Lines()
    rounds: list[tuple[int, int]] = []
    for _ in range(5):
        run(_attack_node, 30, 100, log)
        run(_attack_client, 31, 100, log)
        _attack_engine(32, 300)
        gc.collect()
        ours = sum(type(each).__module__.startswith(("rstreams", "trio")) for each in gc.get_objects())
        rounds.append((ours, _resident_bytes()))
    sys.stdout.write(json.dumps(rounds))


@pytest.mark.slow
def test_nonsense_leaves_nothing_behind() -> None:
    # in a process of its own: pytest keeps lines of log, and the errors in them
    code = "from tests.net.faults.test_fuzz import measure; measure()"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    rounds = json.loads(done.stdout)
    assert rounds[-1][0] - rounds[1][0] < 20, rounds
    assert rounds[-1][1] - rounds[1][1] < 4 * 2**20, rounds
