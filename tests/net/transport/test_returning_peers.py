"""A peer that comes back lets clients in before its addresses are ready: what was attached before is tried again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Reconnect, Stream
from rstreams.errors import AnswerTimeout, LinkDetached, PeerClosed, SessionEnded
from rstreams.testing import ProbeSubscriber
from tests.net.over_tcp import until
from tests.net.wire import (
    ACCEPT,
    Peer,
    attach_frame,
    begin_frame,
    close_frame,
    detach_frame,
    disposition_frame,
    end_frame,
    error,
    flow_frame,
    transfer_frame,
)

LIMIT_S = 20.0
NOT_READY = error("amqp:not-found", "no queue yet")
CRASHED = error("amqp:internal-error", "noproc")


async def test_a_node_that_gets_its_queue_late_is_waited_for() -> None:
    told: list[PeerClosed | AnswerTimeout] = []
    policy = Reconnect(first_delay_s=0.0, max_delay_s=0.01, on_detached=told.append)
    async with Node() as first, Node() as second:
        one, two = await first.listen("127.0.0.1:0"), await second.listen("127.0.0.1:0")
        queue = first.queue("a")
        probe = ProbeSubscriber[Any](5)
        async with rstreams.connect([one.url, two.url], reconnect=policy) as connection:
            async with connection.sender("a") as sender:
                connection.stream("a").subscribe(probe)
                await until(lambda: queue.statistics().consumers == queue.statistics().producers == 1)
                await one.close("amqp:connection:forced", "going down")
                await until(lambda: len(told) >= 4)
                second.queue("a")
                await sender.send(1)
            await until(lambda: probe.items == [1])
        assert {each.condition for each in told if isinstance(each, PeerClosed)} == {"amqp:not-found"}


async def test_a_requester_waits_for_a_responder_that_is_late() -> None:
    told: list[PeerClosed | AnswerTimeout] = []
    policy = Reconnect(first_delay_s=0.0, max_delay_s=0.01, on_detached=told.append)
    async with Node() as first, Node() as second:
        one, two = await first.listen("127.0.0.1:0"), await second.listen("127.0.0.1:0")
        first.respond("double", lambda number: 2 * number)
        async with (
            rstreams.connect([one.url, two.url], reconnect=policy) as connection,
            connection.requester("double") as requester,
        ):
            assert await requester.request(1) == 2
            await one.close("amqp:connection:forced", "going down")
            await until(lambda: len(told) >= 2)
            second.respond("double", lambda number: 2 * number)
            assert await requester.request(2) == 4


async def test_a_requester_gives_up_a_responder_that_does_not_come_back() -> None:
    async with Node() as first, Node() as second:
        one, two = await first.listen("127.0.0.1:0"), await second.listen("127.0.0.1:0")
        first.respond("double", lambda number: 2 * number)
        policy = Reconnect(first_delay_s=0.0, max_delay_s=0.01, links_s=0.05)
        async with (
            rstreams.connect([one.url, two.url], reconnect=policy) as connection,
            connection.requester("double") as requester,
        ):
            assert await requester.request(1) == 2
            await one.close("amqp:connection:forced", "going down")
            with pytest.raises(LinkDetached, match="no address 'double' here"):
                await requester.request(2)


class Restarting:
    """A peer of which each connection has a script of its own, the last one for all further connections."""

    def __init__(self, *scripts: Callable[[Peer], Awaitable[None]]) -> None:
        self._scripts = list(scripts)

    async def serve(self, stream: trio.SocketStream) -> None:
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        peer = Peer(stream)
        await peer.opens()
        await script(peer)


async def attaches(peer: Peer, address: str | None = "a") -> tuple[str, int]:
    """Answer the client's session and link; return the peer's role, and the channel."""
    channel = (await peer.expect("begin")).channel
    await peer.send(begin_frame(channel, channel=channel))
    attach = await peer.expect("attach")
    role = "sender" if attach["role"] else "receiver"
    ends: dict[str, Any] = {"source": address, "target": address, "initial_delivery_count": 0, "channel": channel}
    await peer.send(attach_frame(attach["name"], role, **ends))
    return role, channel


async def breaks_off(peer: Peer) -> None:
    await attaches(peer)
    await peer.hang_up()


async def session_refused(peer: Peer, why: bytes) -> None:
    """As RabbitMQ 4.0."""
    begin = await peer.expect("begin")
    await peer.send(begin_frame(begin.channel, channel=begin.channel))
    await peer.expect("attach")
    await peer.send(end_frame(why, channel=begin.channel))
    while (await peer.frame()).name != "end":
        pass


async def refused(peer: Peer, why: bytes) -> None:
    """As RabbitMQ 4.3."""
    _, channel = await attaches(peer, None)
    await peer.send(detach_frame(why=why, channel=channel))
    await peer.expect("detach")


async def is_late(peer: Peer) -> None:
    await session_refused(peer, NOT_READY)
    await session_refused(peer, CRASHED)
    await refused(peer, NOT_READY)
    await works(peer)


async def works(peer: Peer) -> None:
    """Attach the link, move one item, and close."""
    role, channel = await attaches(peer)
    if role == "sender":
        while not (await peer.expect("flow"))["link-credit"]:
            pass
        await peer.send(transfer_frame(0, b"x", channel=channel))
        await peer.expect("disposition")
    else:
        await peer.send(flow_frame(credit=1, delivery_count=0, channel=channel))
        await peer.expect("transfer")
        await peer.send(disposition_frame(0, 0, ACCEPT, channel=channel))
    await peer.closes()


async def silent(peer: Peer, times: int, *, answers: str) -> None:
    """Leave the client's link without an answer, `times` times; then answer late, or only what comes next.

    Args:
        peer: The peer.
        times: How often.
        answers: "begin", which is all that it answers; "" for nothing; "late" for everything, when it is too late.
    """
    for _ in range(times):
        channel = (await peer.expect("begin")).channel
        if answers == "begin":
            await peer.send(begin_frame(channel, channel=channel))
        attach = await peer.expect("attach")
        await peer.expect("detach")  # when the time is over
        if answers == "late":
            role = "sender" if attach["role"] else "receiver"
            ends: dict[str, Any] = {"source": "a", "target": "a", "initial_delivery_count": 0, "channel": channel}
            await peer.send(
                begin_frame(channel, channel=channel),
                attach_frame(attach["name"], role, **ends),
                detach_frame(channel=channel),
            )


async def run(peer: Restarting, policy: Reconnect, use: Callable[[rstreams.Connection], Awaitable[None]]) -> None:
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, peer.serve, [listener])
        url = f"amqp://127.0.0.1:{listener.socket.getsockname()[1]}"
        with trio.fail_after(500):
            times: dict[str, Any] = {"answer_timeout_s": LIMIT_S, "idle_timeout_s": 10_000.0}
            async with rstreams.connect(url, reconnect=policy, **times) as connection:
                await use(connection)
        nursery.cancel_scope.cancel()


async def publishes(connection: rstreams.Connection) -> None:
    assert (await connection.publish("a", Stream.of(b"x"))).accepted == 1


async def reads(connection: rstreams.Connection) -> None:
    assert await connection.stream("a").take(1).to_list() == [b"x"]


async def sends(connection: rstreams.Connection) -> None:
    async with connection.sender("a") as sender:
        await sender.send(b"x")


async def consumes(connection: rstreams.Connection) -> None:
    def handle(item: object) -> None:
        assert item == b"x"
        raise EOFError

    with pytest.raises(EOFError):
        await connection.consume("a", handle)


@pytest.mark.parametrize("use", [publishes, reads])
async def test_each_kind_of_passing_refusal_is_waited_out(
    use: Callable[[rstreams.Connection], Awaitable[None]],
    autojump_clock: object,
) -> None:
    await run(Restarting(breaks_off, is_late), Reconnect(), use)


async def never(peer: Peer) -> None:
    with suppress(AssertionError):  # it was a close
        while True:
            await session_refused(peer, NOT_READY)
    await peer.send(close_frame())


@pytest.mark.parametrize("links_s", [None, 0.0, 7.0])
async def test_a_peer_that_never_gets_ready_is_given_up(links_s: float | None, autojump_clock: object) -> None:
    took: list[float] = []

    async def waits(connection: rstreams.Connection) -> None:
        begin = trio.current_time()
        with pytest.raises(SessionEnded, match="no queue yet"):
            await publishes(connection)
        took.append(trio.current_time() - begin)

    await run(Restarting(breaks_off, never), Reconnect(links_s=links_s), waits)
    limit = 60.0 if links_s is None else links_s
    assert limit <= took[0] <= limit + 2


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("answers", ["", "begin", "late"])
@pytest.mark.parametrize("use", [publishes, sends, consumes, reads])
async def test_a_peer_that_comes_back_and_does_not_answer_is_waited_for(
    use: Callable[[rstreams.Connection], Awaitable[None]], answers: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[PeerClosed | AnswerTimeout] = []

    async def back(peer: Peer) -> None:
        await silent(peer, 2, answers=answers)
        await works(peer)

    await run(Restarting(breaks_off, back), Reconnect(on_detached=told.append), use)
    assert caplog.text.count("has not answered the attach within") == 2, "once an attempt"
    assert [type(error) for error in told] == [AnswerTimeout] * 2
    assert "has not answered the attach within 20 s" in str(told[0])


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("use", [publishes, sends, consumes, reads])
async def test_the_connection_behind_a_silent_one_may_answer(
    use: Callable[[rstreams.Connection], Awaitable[None]],
) -> None:
    async def hangs(peer: Peer) -> None:
        await silent(peer, 1, answers="")
        await peer.hang_up()

    await run(Restarting(breaks_off, hangs, works), Reconnect(), use)


async def answers_nothing(peer: Peer) -> None:
    while (await peer.frame()).name != "close":
        pass
    await peer.send(close_frame())


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("links_s", [None, 0.0, 7.0, 100.0])
async def test_a_peer_that_never_answers_is_given_up(links_s: float | None) -> None:
    took: list[float] = []

    async def waits(connection: rstreams.Connection) -> None:
        begin = trio.current_time()
        with pytest.raises(AnswerTimeout, match="has not answered the attach within 20 s"):
            await publishes(connection)
        took.append(trio.current_time() - begin)

    await run(Restarting(breaks_off, answers_nothing), Reconnect(links_s=links_s), waits)
    limit = 60.0 if links_s is None else links_s
    assert LIMIT_S + limit <= took[0] <= 2 * LIMIT_S + limit + 2, "it begins when the first answer is due"
