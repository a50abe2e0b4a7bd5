"""A pause of a link: its credit goes back, nothing comes, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.operators.pausable import Valve, pausable
from rstreams.protocol.driver import Driver
from rstreams.protocol.link import Link
from rstreams.protocol.sender import LinkSubscriber
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.over_tcp import connected, until
from tests.net.peers import SendingPeer
from tests.net.wire import Peer, flow_frame, scripted


@pytest.fixture
def senders(monkeypatch: pytest.MonkeyPatch) -> list[LinkSubscriber[Any]]:
    """The sending ends made in this program, both of the client and of the node."""
    made: list[LinkSubscriber[Any]] = []
    bind = LinkSubscriber[Any].bind

    def note(self: LinkSubscriber[Any], name: str, driver: Driver) -> Link:
        made.append(self)
        return bind(self, name, driver)

    monkeypatch.setattr(LinkSubscriber, "bind", note)
    return made


async def test_over_tcp_a_pause_takes_the_credit_back_and_a_resume_loses_nothing(
    senders: list[LinkSubscriber[Any]],
) -> None:
    source, probe, valve = ManualPublisher[int](), ProbeSubscriber[int](10, hold=True), Valve()
    async with connected() as (node, connection):
        node.serve("numbers", source)
        pausable(connection.stream("numbers", window=16), valve).subscribe(probe)
        await until(lambda: source.requested == 10)
        (sender,) = senders
        source.next(1, 2, 3)
        await until(lambda: len(probe.items) == 3)
        assert sender._driver.credit() == 7

        valve.pause()
        await until(lambda: sender._driver.credit() == 0)
        probe.request(5)
        source.next(4, 5)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert sender._driver.credit() == 0
        assert probe.items == [1, 2, 3]

        valve.resume()
        await until(lambda: len(probe.items) == 5)
        await until(lambda: source.requested == 15)
        source.next(*range(6, 16))
        source.complete()
        await until(lambda: probe.completed)
        for hold in probe.holds:
            hold.done()
        await until(lambda: None not in source.outcomes)

    assert probe.items == list(range(1, 16))
    assert source.outcomes == ["done"] * 15


async def test_over_tcp_a_queue_is_read_whole_with_many_pauses() -> None:
    valve, total = Valve(), 1000
    probe = ProbeSubscriber[int](UNBOUNDED, on_item=lambda item: valve.pause() if item % 100 == 99 else None)
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(total))
        pausable(connection.stream("work", window=64), valve, size=50).subscribe(probe)
        while len(probe.items) < total:
            await until(lambda: valve.paused)
            assert len(probe.items) % 100 == 0
            assert queue.statistics().unsettled <= 64
            valve.resume()
        await until(lambda: queue.statistics().accepted == total)

    assert probe.items == list(range(total))


async def test_over_tcp_a_paused_consumer_leaves_the_work_to_others(senders: list[LinkSubscriber[Any]]) -> None:
    valve = Valve()
    paused, other = ProbeSubscriber[int](100), ProbeSubscriber[int](UNBOUNDED)
    async with connected() as (node, connection):
        queue = node.queue("work")
        pausable(connection.stream("work"), valve).subscribe(paused)
        await until(lambda: queue.statistics().demand)
        (sender,) = senders
        valve.pause()
        await until(lambda: sender._driver.credit() == 0)

        await connection.publish("work", Stream.range(50))
        connection.stream("work").subscribe(other)
        await until(lambda: len(other.items) == 50)
        assert other.items == list(range(50))
        other.cancel()
        await until(lambda: queue.statistics().consumers == 1)

        valve.resume()
        await connection.publish("work", Stream.range(50, 60))
        await until(lambda: len(paused.items) == 10)

    assert paused.items == list(range(50, 60))


@pytest.mark.usefixtures("autojump_clock")
async def test_on_the_wire_it_is_a_drain_and_what_comes_during_it_is_kept() -> None:
    probe, valve = ProbeSubscriber[bytes](10), Valve()
    done = trio.Event()

    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        valve.pause()
        flow = await peer.expect("flow")
        assert (flow["link-credit"], flow["drain"]) == (10, True)
        await sender.send(3)
        sender.delivery_count += 7
        await peer.send(flow_frame(next_outgoing=3, delivery_count=sender.delivery_count, drain=True))
        probe.request(5)
        await peer.is_silent()
        assert probe.items == []
        assert sender.unsettled == 3, "kept, and held"

        valve.resume()
        while (heard := await peer.frame()).name != "flow" or heard["link-credit"] < 12:
            assert heard.name in {"disposition", "flow"}
        assert (heard["delivery-count"], heard["drain"]) == (10, False)
        assert len(probe.items) == 3
        done.set()
        await peer.closes()

    async with scripted(peer) as connection:
        pausable(connection.stream("a"), valve).subscribe(probe)
        await done.wait()
