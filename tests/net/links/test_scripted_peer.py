"""The client against peers written frame by frame: credit as the peer counts it, settled before detached."""

from __future__ import annotations

import pytest
import trio

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.errors import (
    DeliveryFailed,
)
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.peers import ReceivingPeer, SendingPeer, until
from tests.net.wire import (
    ACCEPT,
    U32,
    Peer,
    described,
    detach_frame,
    disposition_frame,
    error,
    flow_frame,
    frame,
    next_frame,
    outcome_of,
    scripted,
    transfer_frame,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")


# credit, as the peer counts it


@pytest.mark.parametrize("first", [0, 1, 0xFFFFFFFB, 0x7FFFFFFB])
@pytest.mark.parametrize("window", [3, 8, 256])
async def test_law_1_credit_is_exact_from_any_initial_delivery_count(first: int, window: int) -> None:
    """RabbitMQ 4.0.5 starts at 0xfffffffb: who grants before its attach is given five more than it asked for."""
    demands = [1, 4, 5, 10]
    probe = ProbeSubscriber[bytes]()
    done = trio.Event()

    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer, first=first)
        await sender.attaches()
        await peer.is_silent()
        demanded = 0
        for demand in demands:
            demanded += demand
            probe.request(demand)
            while sender.sent < demanded:
                await sender.hear()
                assert sender.sent + sender.credit <= demanded, "law 1: no credit beyond demand"
                assert sender.unsettled + sender.credit <= window, "law 2: no more than the window"
                await sender.send(2)
            while sender.unsettled:
                await sender.hear()
            assert sender.credit == 0
            await peer.is_silent()
        assert set(sender.outcomes.values()) == {"accepted"}
        probe.cancel()
        await sender.hear()
        assert sender.detach is not None
        assert sender.detach["closed"] is True
        await peer.send(detach_frame())
        done.set()
        await peer.closes()

    async with scripted(peer) as connection:
        connection.stream("a", window=window).subscribe(probe)
        await done.wait()
    assert probe.items == [b"%d" % number for number in range(20)]
    assert not probe.ended


async def test_take_draws_no_item_too_many() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer, first=0xFFFFFFFB)
        await sender.attaches()
        while sender.detach is None:
            await sender.hear()
            await sender.send(100)
            assert sender.sent + sender.credit <= 10
        assert sender.sent == 10
        assert sender.unsettled == 0
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(peer) as connection:
        items = await connection.stream("a", window=4).take(10).to_list()
    assert items == [b"%d" % number for number in range(10)]


async def test_law_2_what_is_held_is_never_more_than_the_window() -> None:
    probe = ProbeSubscriber[bytes](UNBOUNDED, hold=True)
    done = trio.Event()

    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        while sender.sent < 8:
            await sender.hear()
            await sender.send(100)
        await peer.is_silent()
        assert sender.credit == 0
        for hold in probe.holds[:3]:
            hold.done()
        while not sender.credit:
            await sender.hear()
        assert sender.credit == 3
        assert sender.unsettled == 5
        done.set()
        await peer.closes()

    async with scripted(peer) as connection:
        connection.stream("a", window=8).subscribe(probe)
        await done.wait()


async def test_a_drain_is_one_flow_and_what_is_given_back_is_granted_again() -> None:
    probe = ProbeSubscriber[bytes](10)
    drained: list[int] = []

    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer, first=0xFFFFFFFB)
        await sender.attaches()
        await sender.hear()
        assert sender.credit == 10
        assert isinstance(probe.subscription, LinkSubscription)
        probe.subscription.drain(lambda: drained.append(len(probe.items)))
        flow = await peer.expect("flow")
        assert (flow["link-credit"], flow["drain"]) == (10, True)
        await sender.send(3)
        sender.delivery_count = (sender.delivery_count + 7) % U32
        await peer.send(flow_frame(next_outgoing=3, delivery_count=sender.delivery_count, drain=True))
        while (flow := await peer.frame()).name != "flow":
            assert flow.name == "disposition"
        assert drained == [3]
        assert (flow["delivery-count"], flow["link-credit"], flow["drain"]) == (sender.delivery_count, 7, False)
        await peer.closes()

    async with scripted(peer) as connection:
        connection.stream("a").subscribe(probe)
        await until(lambda: drained)


async def test_a_large_message_comes_in_many_frames_and_counts_as_one() -> None:
    probe = ProbeSubscriber[bytes](3)

    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        first = transfer_frame(0, b"a" * 1000, more=True)
        await peer.send(first)
        await peer.is_silent()
        assert probe.items == [], "half a message is none"
        for last in (False, True):
            await peer.send(
                frame(described(0x14, b"\x43", b"\x40", b"\x40", b"\x40", b"\x40", b"\x42" if last else b"\x41"), b"")
            )
        sender.sent += 1
        while not sender.outcomes:
            await sender.hear()
        assert sender.outcomes == {0: "accepted"}
        await peer.closes()

    async with scripted(peer) as connection:
        connection.stream("a").subscribe(probe)
        await until(lambda: probe.items)
    assert probe.items == [b"a" * 1000]


async def test_settled_and_unsettled_items_may_come_in_turns() -> None:
    probe = ProbeSubscriber[bytes](10)
    done = trio.Event()

    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        settled = [True, True, False, False, True, False, True]
        await peer.send(*[transfer_frame(number, b"%d" % number, settled=each) for number, each in enumerate(settled)])
        sender.sent = len(settled)
        while len(sender.outcomes) < settled.count(False):
            await sender.hear()
        assert sender.outcomes == {number: "accepted" for number, each in enumerate(settled) if not each}
        done.set()
        await peer.closes()

    async with scripted(peer) as connection:
        connection.stream("a").subscribe(probe)
        await done.wait()
    assert probe.items == [b"%d" % number for number in range(7)]


async def test_an_aborted_delivery_is_none() -> None:
    probe = ProbeSubscriber[bytes](3)

    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        aborted = described(
            0x14, b"\x43", b"\x40", b"\x40", b"\x40", b"\x40", b"\x42", b"\x40", b"\x40", b"\x40", b"\x41"
        )
        await peer.send(transfer_frame(0, b"half", more=True), frame(aborted), transfer_frame(1, b"whole"))
        while (came := await peer.frame()).name != "disposition":
            pass
        assert (came["first"], outcome_of(came["state"])) == (1, "accepted")
        await peer.closes()

    async with scripted(peer) as connection:
        connection.stream("a").subscribe(probe)
        await until(lambda: probe.items)
    assert probe.items == [b"whole"]


# law 5: settle before detach


async def test_credit_that_aborted_deliveries_have_used_up_is_granted_again() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        assert sender.credit == 4
        await peer.send(*(transfer_frame(n, b"", payload=b"", more=True) + next_frame(aborted=True) for n in range(4)))
        sender.sent = sender.delivery_count = 4
        await sender.hear()
        assert sender.credit == 4
        assert await sender.send(4) == 4
        while sender.detach is None:
            await sender.hear()
        assert set(sender.outcomes) == {4, 5, 6, 7}
        await peer.closes()

    async with scripted(peer) as connection:
        assert await connection.stream("a").take(4).to_list() == [b"4", b"5", b"6", b"7"]


async def test_law_5_a_sender_detaches_when_all_is_settled() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=3)
        await receiver.takes(3)
        await peer.is_silent()
        await receiver.grant(10)
        await receiver.takes(2)
        for number in (1, 0, 3, 4):
            await peer.is_silent()
            await peer.send(disposition_frame(number, number, ACCEPT))
        await peer.is_silent()
        await peer.send(disposition_frame(2, 2, ACCEPT))
        detach = await peer.expect("detach")
        assert (detach["closed"], detach["error"]) == (True, None)
        await peer.is_silent()
        assert not published, "the end is told when the peer has answered"
        await peer.send(detach_frame())
        await peer.closes()

    published: list[int] = []
    async with scripted(peer) as connection:
        result = await connection.publish("a", Stream.range(5))
        published.append(result.accepted)
    assert published == [5]


async def test_a_disposition_that_is_not_settled_yet_is_an_outcome() -> None:
    """A peer may say the outcome first and settle when it has heard ours."""

    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=2)
        await receiver.takes(2)
        await peer.send(disposition_frame(0, 1, ACCEPT, settled=False))
        while (came := await peer.frame()).name == "disposition":
            assert came["settled"] is True
        assert came.name == "detach"
        await peer.send(disposition_frame(0, 1, ACCEPT), detach_frame())
        await peer.closes()

    async with scripted(peer) as connection:
        assert (await connection.publish("a", Stream.of(1, 2))).accepted == 2


async def test_at_most_once_nothing_waits_for_outcomes() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=5)
        assert receiver.attach["snd-settle-mode"] == 1
        for _ in range(3):
            assert (await peer.expect("transfer"))["settled"] is True
        await peer.expect("detach")
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(peer) as connection:
        result = await connection.publish("a", Stream.of(1, 2, 3), settlement="at_most_once")
        assert result.accepted == 3


async def test_a_refused_item_ends_the_publish_with_what_the_peer_said() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=3)
        await receiver.takes(3)
        await peer.send(disposition_frame(0, 0, ACCEPT))
        await peer.send(disposition_frame(1, 1, described(0x25, error("shop:closed", "come back tomorrow"))))
        await peer.is_silent()
        await peer.send(disposition_frame(2, 2, described(0x26)))
        await peer.expect("detach")
        await peer.send(detach_frame())
        await peer.closes()

    source = ManualPublisher[int](lambda n: source.next(*range(n)))
    async with scripted(peer) as connection:
        with pytest.raises(DeliveryFailed, match="come back tomorrow") as raised:
            await connection.publish("a", source)
    assert (raised.value.outcome, raised.value.condition, raised.value.accepted) == ("rejected", "shop:closed", 1)
    assert source.cancelled
    assert source.outcomes == ["done", "failed", "released"]


async def test_law_5_a_receiver_answers_a_detach_when_it_has_settled_all_it_holds() -> None:
    probe = ProbeSubscriber[bytes](10, hold=True)

    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        await sender.send(3)
        await peer.send(detach_frame())
        await peer.is_silent()
        assert probe.completed
        for hold, settle in zip(probe.holds, ("done", "release", "done"), strict=True):
            await peer.is_silent()
            assert sender.detach is None
            getattr(hold, settle)()
            await sender.hear()
        assert sender.outcomes == {0: "accepted", 1: "released", 2: "accepted"}
        await sender.hear()
        assert sender.detach is not None
        await peer.closes()

    async with scripted(peer) as connection:
        connection.stream("a").subscribe(probe)
        await until(lambda: probe.completed)
        await trio.sleep(10)


async def test_a_loop_that_breaks_accepts_what_it_had_and_releases_the_rest() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        await sender.send(5)
        while sender.detach is None:
            await sender.hear()
        assert sender.outcomes == {0: "accepted", 1: "accepted", 2: "released", 3: "released", 4: "released"}
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(peer) as connection, connection.stream("a").open() as items:
        async for item in items:
            if item == b"1":
                break
