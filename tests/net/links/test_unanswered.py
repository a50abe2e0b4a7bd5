"""No call waits for ever for a peer that lives and does not answer: every wait for an answer has a limit."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, PublishResult, Reconnect, Stream
from rstreams.errors import AnswerTimeout, ConfigError, ConnectFailed, ConnectionLost
from rstreams.net.connection import Connection
from rstreams.net.rabbitmq_management import rabbitmq_management
from rstreams.testing import FaultyNetwork
from tests.loops import Loop, over_both_loops
from tests.net.wire import (
    ACCEPT,
    AMQP_HEADER,
    SASL_HEADER,
    SASL_MECHANISMS,
    SASL_OUTCOME,
    Frame,
    Peer,
    attach_frame,
    begin_frame,
    close_frame,
    detach_frame,
    disposition_frame,
    flow_frame,
    scripted,
    transfer_frame,
)

LIMIT_S = 5.0


class Answering:
    """A peer that answers everything but the frames of one kind, until it is told to answer those as well."""

    def __init__(self, silent: str) -> None:
        self.silent = silent
        self.kept: list[Frame] = []
        self.transfers: Counter[int] = Counter()
        self.peer: Peer

    async def run(self, peer: Peer) -> None:
        self.peer = peer
        await peer.opens()
        while True:
            came = await peer.frame()
            link = (came.channel, came["handle"])
            behind = {(frame.channel, None if frame.name == "begin" else frame["handle"]) for frame in self.kept}
            # A peer answers the frames of a session, and those of a link, in their order.
            if came.name == self.silent or behind & {link, (came.channel, None)}:
                self.kept.append(came)
            elif not await self.answer(came):
                return

    async def answer(self, came: Frame) -> bool:
        send = self.peer.send
        match came.name:
            case "begin":
                await send(begin_frame(came.channel, channel=came.channel))
            case "attach":
                handle, receives = came["handle"], came["role"]
                if receives:
                    await send(attach_frame(came["name"], "sender", source="a", handle=handle, channel=came.channel))
                else:
                    await send(
                        attach_frame(came["name"], "receiver", target="a", handle=handle, channel=came.channel),
                        flow_frame(
                            next_incoming=self.transfers[came.channel],
                            delivery_count=0,
                            credit=10,
                            handle=handle,
                            channel=came.channel,
                        ),
                    )
            case "flow" if came["handle"] is not None and came["link-credit"]:
                await send(transfer_frame(0, b"x", handle=came["handle"], channel=came.channel))
            case "transfer":
                self.transfers[came.channel] += 1
                if not came["settled"]:
                    await send(
                        disposition_frame(came["delivery-id"], came["delivery-id"], ACCEPT, channel=came.channel)
                    )
            case "detach":
                await send(detach_frame(handle=came["handle"], channel=came.channel))
            case "close":
                await send(close_frame())
                return False
            case _:
                pass
        return True

    async def answer_late(self) -> None:
        """Answer what it has kept, and everything else from now on."""
        kept, self.silent, self.kept = self.kept, "", []
        for frame in kept:
            await self.answer(frame)


async def publish(connection: Connection) -> object:
    return await connection.publish("a", Stream.of(1, 2))


async def publish_settled(connection: Connection) -> object:
    return await connection.publish("a", Stream.of(1, 2), settlement="at_most_once")


async def publish_nothing(connection: Connection) -> object:
    return await connection.publish("a", Stream.empty())


async def send(connection: Connection) -> object:
    async with connection.sender("a") as sender:
        await sender.send(1)
    return None


async def send_nothing(connection: Connection) -> object:
    async with connection.sender("a"):
        pass
    return None


async def collect(connection: Connection) -> object:
    return await connection.stream("a").take(1).to_list()


async def loop(connection: Connection) -> object:
    async with connection.stream("a").open() as items:
        async for item in items:
            return item
    return None


async def consume(connection: Connection) -> object:
    def handle(_item: object) -> None:
        raise EOFError

    with pytest.raises(EOFError):
        await connection.consume("a", handle)
    return "raised"


async def manage(connection: Connection) -> object:
    async with rabbitmq_management(connection) as management:
        await management.declare_queue("q")
    return None


async def unsubscribe(connection: Connection) -> object:
    await connection.unsubscribe("a", "mine")
    return None


CALLS: list[Callable[[Connection], Awaitable[object]]] = [
    publish,
    publish_settled,
    publish_nothing,
    send,
    send_nothing,
    collect,
    loop,
    consume,
    manage,
    unsubscribe,
]
DETACHED: dict[str, Any] = {  # what comes of a call whose detach is not answered; None: it does not wait for that
    "publish": (LIMIT_S, PublishResult(2)),  # the outcomes are all there
    "publish_settled": (LIMIT_S, AnswerTimeout),  # nothing else says that the items have arrived
    "publish_nothing": (LIMIT_S, PublishResult(0)),
    "send": (LIMIT_S, None),
    "send_nothing": (LIMIT_S, None),
    "collect": (0, [b"x"]),
    "loop": (0, b"x"),
    "consume": (0, "raised"),
    "manage": (LIMIT_S, AnswerTimeout),  # the peer knows nothing of management, and answers no request
}


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize(
    ("call", "silent"),
    [
        (call, silent)
        for call in CALLS
        for silent in ("begin", "attach", "detach")
        if silent != "detach" or call.__name__ in DETACHED
    ],
)
async def test_a_call_ends_at_a_peer_that_does_not_answer(
    call: Callable[[Connection], Awaitable[object]], silent: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    answering = Answering(silent)
    async with scripted(answering.run, idle_timeout_s=1000, answer_timeout_s=LIMIT_S) as connection:
        began = trio.current_time()
        seconds, result = (LIMIT_S, AnswerTimeout) if silent != "detach" else DETACHED[call.__name__]
        with trio.fail_after(LIMIT_S + 1):
            if result is AnswerTimeout:
                with pytest.raises(AnswerTimeout, match=r"has not answered .* within 5 s") as raised:
                    await call(connection)
                if silent != "detach":
                    assert str(raised.value).startswith("the scripted peer")
            else:
                assert await call(connection) == result
        assert trio.current_time() - began == pytest.approx(seconds, abs=0.1)
        if silent == "detach" and seconds and result is not AnswerTimeout:
            assert "has not answered the detach within 5 s" in caplog.text

        await trio.sleep(3 * LIMIT_S)
        assert connection.status.state == "connected"
        await answering.answer_late()  # which is passed over
        await trio.sleep(1)
        assert connection.status.state == "connected"
        if call is not manage:
            assert await publish(connection) == PublishResult(2)
        assert not connection._links.carrier.engine.links.drivers  # type: ignore[attr-defined]


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("steps", range(5))
async def test_connect_ends_at_a_peer_that_falls_silent_at_any_step(steps: int) -> None:
    said = (SASL_HEADER, SASL_MECHANISMS, SASL_OUTCOME, AMQP_HEADER)[:steps]

    async def falls_silent(stream: trio.SocketStream) -> None:
        await stream.send_all(b"".join(said))
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, falls_silent, [listener])
        port, began = listener.socket.getsockname()[1], trio.current_time()
        with pytest.raises(ConnectFailed, match=r"within connect_timeout_s=3 \(SASL and open\)"):
            async with rstreams.connect(f"amqp://127.0.0.1:{port}", connect_timeout_s=3):
                pass
        assert trio.current_time() - began == pytest.approx(3, abs=0.1)
        nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("wait", ["credit", "outcome", "items"])
async def test_what_may_take_any_time_has_no_limit(wait: str) -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        role = "sender" if wait == "items" else "receiver"
        await peer.send(attach_frame(attach["name"], role, source="a", target="a"))
        if wait == "outcome":
            await peer.send(flow_frame(next_incoming=0, delivery_count=0, credit=1))
        await peer.closes()

    async with scripted(peer, idle_timeout_s=10_000, answer_timeout_s=LIMIT_S) as connection:
        with trio.move_on_after(100 * LIMIT_S) as scope:
            if wait == "items":
                await connection.stream("a").take(1).to_list()
            else:
                await connection.publish("a", Stream.of(1))
        assert scope.cancelled_caught


@pytest.mark.parametrize("seconds", [0, -1, math.nan, "5", True])
async def test_a_limit_that_is_none_is_refused(seconds: Any) -> None:  # noqa: ANN401 - of a wrong type
    with pytest.raises(ConfigError, match="answer_timeout_s"):
        async with rstreams.connect("amqp://127.0.0.1:1", answer_timeout_s=seconds):
            pass


@over_both_loops
async def test_a_peer_that_falls_silent_for_one_link_ends_only_that(on: Loop) -> None:
    async with Node() if on.name == "trio" else on.Node() as node:
        node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with on.connect(listener.url, answer_timeout_s=0.2, reconnect=Reconnect()) as connection:
            assert await connection.publish("work", on.Stream.of(1)) == PublishResult(1)
            await on.sleep(1)
            assert await connection.stream("work").take(1).to_list() == [1]


@over_both_loops
async def test_a_lost_connection_interrupts_no_block_and_every_call_in_it_fails(on: Loop) -> None:
    async with on.Node() as node, FaultyNetwork((await node.listen("127.0.0.1:0")).url) as network:
        node.queue("work")
        ended = False
        async with on.connect(network.url) as connection:
            waiting = on.start(lambda: connection.stream("work").to_list())
            await on.until(lambda: node.statistics().queues["work"].demand)
            network.reset()
            assert isinstance(await waiting.ended(), ConnectionLost)
            await on.sleep(5)  # the block itself goes on
            for _ in range(2):
                with pytest.raises(ConnectionLost):
                    await connection.publish("work", on.Stream.of(1))
            assert connection.status.state == "closed"
            ended = True
        assert ended
