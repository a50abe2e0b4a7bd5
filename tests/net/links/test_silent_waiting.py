"""A publisher that has no credit says so once in the log, and explain names the link that waits."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest
import trio

from rstreams import Connection, DeadLetters, Stream
from rstreams._core import spell
from rstreams.errors import StreamTimeout
from rstreams.net.links.link_info import LinkInfo
from rstreams.net.links.sending_end import TOLD_AFTER_S, TOLD_AGAIN_AFTER_S
from tests.net.over_tcp import connected
from tests.net.peers import ReceivingPeer, until
from tests.net.wire import (
    ACCEPT,
    MANY_FRAMES,
    Peer,
    attach_frame,
    detach_frame,
    disposition_frame,
    flow_frame,
    scripted,
    windowed_flow,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(each.levelno, each.getMessage()) for each in caplog.records if each.name == "rstreams.net"]


async def takes(peer: ReceivingPeer, count: int) -> None:
    first = len(peer.numbers)
    await peer.takes(count)
    await peer.peer.send(disposition_frame(first, first + count - 1, ACCEPT))


async def ends(peer: Peer) -> None:
    await peer.expect("detach")
    await peer.send(detach_frame())
    await peer.closes()


async def test_a_publisher_without_credit_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rstreams.net")
    stream = Stream.range(3)
    shown: list[str] = []

    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=1)
        await takes(receiver, 1)
        await trio.sleep(TOLD_AFTER_S - 0.5)
        assert not told(caplog)
        await trio.sleep(1000)
        shown.append(str(stream.explain()).splitlines()[-1])
        shown.append(str(connection.explain()))
        assert len(told(caplog)) == 1
        await receiver.grant(2)
        await takes(receiver, 2)
        await ends(peer)

    async with scripted(peer, idle_timeout_s=1e5) as connection:
        assert (await connection.publish("a" * 100, stream)).accepted == 3
    (level, warning), (info_level, info) = told(caplog)
    assert (level, info_level) == (logging.WARNING, logging.INFO)
    cut = repr("a" * 100)[:80]
    assert warning.startswith(
        f"{cut} at the scripted peer has granted no credit for 10 s: the stream that is published waits. The address "
        "may be full, or nobody may consume from it or subscribe to it; "
    )
    assert "connection.explain()" in warning
    assert info == f"{cut} at the scripted peer has granted credit again, after 1009.5 s"
    assert shown[0] == (
        "  -> the subscriber stalls: it has all that it requested; "
        f"link to {cut} at the scripted peer: no credit from the peer for 1010 s; the stream that is published waits"
    )
    *lines, culprit = shown[1].splitlines()
    assert culprit.startswith("  -> no credit from 'the scripted peer'")
    assert lines == [
        "connection to the scripted peer: connected",
        f"  to {cut}: no credit from the peer for 1010 s; the stream that is published waits",
    ]


async def test_a_sender_is_told_of_from_when_somebody_waits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rstreams.net")

    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=0)
        await trio.sleep(100)
        assert not told(caplog), "nobody wanted to send"
        wanted.set()
        await trio.sleep(TOLD_AFTER_S + 1)
        assert "1 item waits." in told(caplog)[0][1]
        await receiver.grant(1)
        await takes(receiver, 1)
        await trio.sleep(TOLD_AGAIN_AFTER_S - 1)
        assert len(told(caplog)) == 2, "a second wait of the same link is told later"
        await trio.sleep(2)
        assert len(told(caplog)) == 3
        await receiver.grant(1)
        await takes(receiver, 1)
        await ends(peer)

    wanted = trio.Event()
    async with scripted(peer, idle_timeout_s=1e5) as connection, connection.sender("work") as sender:
        await wanted.wait()
        await sender.send("one")
        await sender.send("two")
    assert [level for level, _ in told(caplog)] == [logging.WARNING, logging.INFO] * 2


async def test_a_publisher_says_once_that_the_window_of_its_session_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """Whether it has credit left or not, and also if it had waited for credit before."""
    caplog.set_level(logging.INFO, "rstreams.net")
    shown: list[str] = []

    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=0)
        await trio.sleep(TOLD_AFTER_S - 1)
        await peer.send(windowed_flow(0, 1, count=0, credit=2))
        await takes(receiver, 1)
        await peer.send(windowed_flow(1, 0))
        await trio.sleep(TOLD_AFTER_S - 0.5)
        assert not told(caplog), "the wait for credit was over"
        await trio.sleep(1000)
        shown.extend(f"  {line}" for line in connection.explain().lines)
        await peer.send(windowed_flow(1, 0, count=0, credit=100))
        await trio.sleep(100)
        assert len(told(caplog)) == 1, "credit does not help"
        await peer.send(windowed_flow(1, MANY_FRAMES))
        await takes(receiver, 9)
        await ends(peer)

    async with scripted(peer, idle_timeout_s=1e5) as connection:
        assert (await connection.publish("a", Stream.range(10))).accepted == 10
    (level, warning), (info_level, info) = told(caplog)
    assert (level, info_level) == (logging.WARNING, logging.INFO)
    time = r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    start = (
        rf"'a' at the scripted peer takes nothing: the peer's session window is closed {time} \(10 s\): 1 item waits\. "
    )
    assert re.match(start, warning)
    assert "credit" not in warning
    assert info == "'a' at the scripted peer has opened the session window again, after 1109.5 s"
    assert len(shown) == 1
    assert re.fullmatch(rf"  to 'a': the peer's session window is closed {time} \(1010 s\); 1 item waits", shown[0])


async def all_at_once(connection: Connection) -> None:
    await connection.publish("a", Stream.range(10))


async def settled(connection: Connection) -> None:
    await connection.publish("a", Stream.range(10), settlement="at_most_once")


async def and_no_end(connection: Connection) -> None:
    with trio.move_on_after(5 * TOLD_AFTER_S):
        await connection.publish("a", Stream.range(10).concat(Stream.never()))


async def by_hand(connection: Connection) -> None:
    async with connection.sender("a") as sender, trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(sender.send, b"x")


async def large(connection: Connection) -> None:
    await connection.publish("a", Stream.of(*[bytes(400_000)] * 10))


@pytest.mark.parametrize("credit", [10, 100])
@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("send", [all_at_once, settled, and_no_end, by_hand, large])
async def test_a_window_that_is_used_up_is_a_closed_one(
    send: Callable[[Connection], Awaitable[None]],
    window: int,
    credit: int,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The peer has never said 0, or says so at once; explain, the log and the numbers of the link tell the same."""
    monkeypatch.setattr(spell, "_machine", SimpleNamespace(monotonic=trio.current_time))
    caplog.set_level(logging.INFO, "rstreams.net")
    shown: list[str] = []
    links: list[LinkInfo] = []

    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=0)
        await peer.send(windowed_flow(0, window, count=0, credit=credit))
        for _ in range(window):
            await peer.expect("transfer")
        await peer.is_silent(3 * TOLD_AFTER_S)
        shown.append(str(connection.explain()))
        links.extend(connection.links())
        await peer.send(windowed_flow(window, MANY_FRAMES))
        delivered = 0
        while (came := await peer.frame()).name == "transfer":
            delivered += came["more"] is not True
            if delivered == 10 - (send is not large) * window:
                shown.append(str(connection.explain()))
                await peer.send(disposition_frame(0, 9, ACCEPT))
        assert came.name == "detach"
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(peer, idle_timeout_s=1e5) as connection:
        await send(connection)
    (_, warning), (_, info) = told(caplog)
    assert "takes nothing: the peer's session window is closed since" in warning
    assert "credit" not in warning
    assert "has opened the session window again" in info
    assert "the peer's session window is closed since" in shown[0]
    assert "window" not in shown[1]
    assert links[0].blocked_by == "session window"
    assert links[0].blocked_for_s >= 2 * TOLD_AFTER_S - 1  # one that is used up is seen after `TOLD_AFTER_S`


async def test_who_gives_up_before_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=0)
        await ends(peer)

    async with scripted(peer, idle_timeout_s=1e5) as connection, connection.sender("work") as sender:
        with trio.move_on_after(1):
            await sender.send("one")
        await trio.sleep(100)
        assert not told(caplog)


async def test_a_peer_that_does_not_answer_the_attach(caplog: pytest.LogCaptureFixture) -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        await trio.sleep(TOLD_AFTER_S + 1)
        assert "  to 'work': the peer has not answered the attach for 11 s" in str(connection.explain())
        await peer.send(attach_frame(attach["name"], "receiver", target="work"))
        await peer.send(flow_frame(next_incoming=0, delivery_count=attach["delivery-count"], credit=9))
        await peer.expect("transfer")
        await peer.send(disposition_frame(0, 0, ACCEPT))
        await ends(peer)

    async with scripted(peer, idle_timeout_s=1e5) as connection:
        await connection.publish("work", Stream.of(1))
    ((_, warning),) = told(caplog)
    assert warning.startswith("'work' at the scripted peer has not answered the attach for 10 s")


async def test_a_publisher_that_has_credit_and_no_items_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=10)
        await peer.expect("detach")
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(peer, idle_timeout_s=1e5) as connection:
        with trio.move_on_after(1000):
            await connection.publish("work", Stream.never())
    assert not told(caplog)


async def test_a_requester_says_so_too(caplog: pytest.LogCaptureFixture) -> None:
    async def never(_request: object) -> None:
        await trio.sleep_forever()

    async with connected() as (node, connection):
        node.respond("slow", never, concurrency=1)
        async with connection.requester("slow", timeout_s=20) as requester, trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(StreamTimeout):
                    await requester.request("anything")

            nursery.start_soon(ask)
            nursery.start_soon(ask)
    ((_, warning),) = told(caplog)
    assert warning.startswith("'slow' at 127.0.0.1:")
    assert "has granted no credit for 10 s: 1 item waits." in warning


async def test_dead_letters_that_wait_say_so_too(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        node.queue("dead", capacity=1)
        node.serve("numbers", Stream.range(3))

        async def consume() -> None:
            await connection.consume("numbers", refuse, on_failure=DeadLetters("dead"))

        def refuse(item: int) -> None:
            raise ValueError(item)

        nursery.start_soon(consume)
        await trio.sleep(TOLD_AFTER_S + 1)
        assert ["'dead' at" in text and "2 items wait." in text for _, text in told(caplog)].count(True) == 1
        nursery.cancel_scope.cancel()


async def test_explain_of_a_connection_names_what_each_link_waits_for() -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        node.queue("full", capacity=2)
        node.serve("numbers", Stream.range(100))
        nursery.start_soon(connection.publish, "full", Stream.range(9))
        taken = connection.stream("numbers", window=4, settlement="manual")
        async with taken.open() as numbers, connection.stream("full").open(window=1):
            kept = [await anext(numbers) for _ in range(4)]
            await until(lambda: "ready 0" not in str(node.explain()) and "2 of 2" in str(node.explain()))
            shown = connection.explain()
            lines = shown.lines
            assert shown.heading.endswith(": connected")
            assert len(lines) == 3
            assert {culprit.kind for culprit in shown.culprits} == {"slow_handler", "no_credit"}
            assert any("from 'numbers': it waits for the outcomes of 4 items" in line for line in lines)
            assert any("to 'full': no credit from the peer" in line for line in lines)
            assert "queue 'full' is full: 2 of 2 stored, 1 ready, 1 unsettled at 1 consumer; 1 producer waits" in str(
                node.explain()
            )
            for delivery in kept:
                delivery.accept()
        nursery.cancel_scope.cancel()


async def test_explain_of_a_stream_into_a_queue_of_this_process_names_the_queue() -> None:
    async with connected() as (node, _):
        queue = node.queue("orders", capacity=2)
        stream = Stream.of(*[b"order"] * 9)
        stream.subscribe(queue.producer())
        assert str(stream.explain()).endswith(
            "it has all that it requested; queue 'orders' is full: 2 of 2 stored, 2 ready, 0 unsettled at 0 consumers; "
            "1 producer waits"
        )


async def test_the_clock_may_round_a_wait_down(caplog: pytest.LogCaptureFixture) -> None:
    rounds_down = next(
        at for at in (number / 10 for number in range(10, 10_000)) if at + TOLD_AFTER_S - at < TOLD_AFTER_S
    )

    async def peer(peer: Peer) -> None:
        await peer.opens()
        await ReceivingPeer(peer).attaches(credit=0)
        await ends(peer)

    async with scripted(peer, idle_timeout_s=1e5) as connection:
        await trio.sleep_until(rounds_down)
        with trio.move_on_after(100):
            await connection.publish("a", Stream.range(3))
    assert [level for level, _ in told(caplog)] == [logging.WARNING]
