"""The client against peers written frame by frame: what goes over the wire, and what becomes of a bad peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair

import rstreams
from rstreams import Stream
from rstreams._codec.encode import encode_symbol
from rstreams._demand import UNBOUNDED
from rstreams.errors import (
    AuthenticationFailed,
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    DeliveryFailed,
    IdleTimeout,
    LinkDetached,
    PublisherFailed,
    RemoteProtocolError,
    RStreamsError,
    SessionEnded,
)
from rstreams.net._pump import Pump
from rstreams.net.client import Connection
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.engines import Alone
from tests.net.wire import (
    ACCEPT,
    AMQP_HEADER,
    EMPTY_FRAME,
    SASL_HEADER,
    SASL_MECHANISMS,
    SASL_OUTCOME,
    U32,
    Frame,
    Peer,
    attach_frame,
    begin_frame,
    close_frame,
    condition_of,
    described,
    detach_frame,
    disposition_frame,
    end_frame,
    error,
    flow_frame,
    frame,
    open_frame,
    outcome_of,
    pumped,
    scripted,
    transfer_frame,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")


async def until(happened: Callable[[], object]) -> None:
    """Wait, in virtual time, until something has happened; it is an error if it does not."""
    with trio.fail_after(600):
        while not happened():  # noqa: ASYNC110 - what happens is a signal to some probe
            await trio.sleep(0.01)


class SendingPeer:
    """A peer that sends on one link, strictly within the credit it has been given, by 2.6.7's own arithmetic.

    Attributes:
        credit: What it may send now.
        granted: All credit it was ever given, less what was withdrawn.
        outcomes: By delivery-id, what the client said.
    """

    def __init__(self, peer: Peer, *, first: int = 0) -> None:
        self.peer = peer
        self.delivery_count = first
        self.first = first
        self.sent = 0
        self.credit = 0
        self.outcomes: dict[int, str] = {}
        self.detach: Frame | None = None

    async def attaches(self) -> None:
        """Answer the client's attach; no flow may have come before."""
        await self.peer.begins()
        self.attach = await self.peer.expect("attach")
        assert self.attach["role"] is True
        await self.peer.is_silent()
        await self.peer.send(attach_frame(self.attach["name"], "sender", source="a", initial_delivery_count=self.first))

    async def hear(self) -> None:
        """Take in the next frame."""
        came = await self.peer.frame()
        match came.name:
            case "flow":
                if came["handle"] is not None:
                    credit = (came["delivery-count"] + came["link-credit"] - self.delivery_count) % U32
                    assert credit < 2**31, f"credit below none: {came}"
                    self.credit = credit
            case "disposition":
                for number in range(came["first"], (came["first"] if came["last"] is None else came["last"]) + 1):
                    assert number not in self.outcomes, "settled once"
                    assert number < self.sent
                    self.outcomes[number] = outcome_of(came["state"])
            case "detach":
                self.detach = came
            case other:
                raise AssertionError(other)

    async def send(self, most: int, *, settled: bool = False) -> int:
        """Send up to `most` items within credit; each is its number, as text."""
        count = min(most, self.credit)
        frames = [
            transfer_frame(number, b"%d" % number, settled=settled) for number in range(self.sent, self.sent + count)
        ]
        self.sent += count
        self.credit -= count
        self.delivery_count = (self.delivery_count + count) % U32
        if frames:
            await self.peer.send(*frames)
        return count

    @property
    def unsettled(self) -> int:
        return self.sent - len(self.outcomes)


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


class ReceivingPeer:
    """A peer that receives on one link."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.numbers: list[int] = []

    async def attaches(self, *, credit: int) -> None:
        await self.peer.begins()
        self.attach = await self.peer.expect("attach")
        assert self.attach["role"] is False
        assert self.attach["delivery-count"] is not None, "2.7.3: a sender must say"
        await self.peer.is_silent()
        await self.peer.send(attach_frame(self.attach["name"], "receiver", target="a"))
        await self.grant(credit)

    async def grant(self, credit: int) -> None:
        count = self.attach["delivery-count"] + len(self.numbers)
        await self.peer.send(flow_frame(next_incoming=len(self.numbers), delivery_count=count % U32, credit=credit))

    async def takes(self, count: int) -> None:
        for _ in range(count):
            self.numbers.append((await self.peer.expect("transfer"))["delivery-id"])


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


# refusals and ends


@pytest.mark.parametrize("why", ["amqp:not-found", None])
async def test_a_refused_subscription_is_told_why_and_sends_no_flow(why: str | None) -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        await peer.send(attach_frame(attach["name"], "sender", source=None))
        await peer.is_silent()
        reason = b"\x40" if why is None else error(why, "no address 'a' here", {"tried": 3})
        await peer.send(detach_frame(why=reason))
        await peer.expect("detach")
        await peer.closes()

    async with scripted(peer) as connection:
        with pytest.raises(LinkDetached) as raised:
            await connection.stream("a").to_list()
    if why is None:
        assert "refused" in str(raised.value)
    else:
        assert (raised.value.condition, raised.value.description) == (why, "no address 'a' here")
        assert dict(raised.value.info) == {"tried": 3}


async def test_a_refused_publish_is_told_why_and_subscribes_nothing() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        await peer.send(attach_frame(attach["name"], "receiver", target=None))
        await peer.is_silent()
        await peer.send(detach_frame(why=error("amqp:unauthorized-access", "read only")))
        await peer.expect("detach")
        await peer.closes()

    source = ManualPublisher[int]()
    async with scripted(peer) as connection:
        with pytest.raises(LinkDetached, match="read only") as raised:
            await connection.publish("a", source)
    assert raised.value.condition == "amqp:unauthorized-access"
    assert source.subscriptions == 0


@pytest.mark.parametrize("closed", [True, False])
async def test_a_publishers_failure_arrives_with_condition_description_and_info(closed: bool) -> None:  # noqa: FBT001
    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        await sender.send(2)
        await peer.send(detach_frame(closed=closed, why=error("shop:sold-out", "no more", {"left": 0})))
        while sender.detach is None:
            await sender.hear()
        assert set(sender.outcomes.values()) == {"accepted"}
        await peer.closes()

    items: list[bytes] = []
    async with scripted(peer) as connection:
        with pytest.raises(PublisherFailed) as raised:
            await connection.stream("a").for_each(items.append)
    assert items == [b"0", b"1"], "what was sent before is handed over before"
    assert (raised.value.condition, raised.value.description) == ("shop:sold-out", "no more")
    assert dict(raised.value.info) == {"left": 0}


async def test_a_peer_that_ends_the_session_ends_its_links_and_the_connection_lives() -> None:
    """RabbitMQ 4.0.5 answers a wrong address so."""

    async def peer(peer: Peer) -> None:
        await peer.opens()
        begin = await peer.begins()
        await peer.expect("attach")
        await peer.send(end_frame(error("amqp:not-found", "no queue 'a'"), channel=begin.channel))
        await peer.expect("end")
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        await sender.send(1)
        while sender.detach is None:
            await sender.hear()
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(peer) as connection:
        with pytest.raises(SessionEnded, match="no queue 'a'") as raised:
            await connection.stream("a").to_list()
        assert raised.value.condition == "amqp:not-found"
        assert await connection.stream("b").first_or_none() == b"0"


async def test_a_session_that_ends_takes_no_link_of_another_with_it() -> None:
    first, second = ProbeSubscriber[bytes](5), ProbeSubscriber[bytes](5)
    done = trio.Event()

    async def peer(peer: Peer) -> None:
        await peer.opens()
        channels = []
        for _ in range(2):
            channels.append((await peer.begins()).channel)
            attach = await peer.expect("attach")
            channel = channels[-1]
            await peer.send(
                attach_frame(attach["name"], "sender", source="a", initial_delivery_count=0, channel=channel)
            )
            assert (await peer.expect("flow")).channel == channel
        assert len(set(channels)) == 2
        await peer.send(end_frame(error("amqp:session:errant-link"), channel=channels[0]))
        await peer.send(transfer_frame(0, b"x", channel=channels[1]))
        assert (await peer.expect("end")).channel == channels[0]
        assert (await peer.expect("disposition")).channel == channels[1]
        done.set()
        await peer.closes()

    async with scripted(peer) as connection:
        connection.stream("a").subscribe(first)
        await until(lambda: first.subscription)
        connection.stream("b").subscribe(second)
        await done.wait()
        assert isinstance(first.error, SessionEnded)
        assert second.items == [b"x"]
        assert not second.ended


async def test_a_session_that_ends_without_a_reason() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=5)
        await receiver.takes(2)
        await peer.send(disposition_frame(0, 0, ACCEPT), end_frame())
        await peer.expect("end")
        await peer.closes()

    source = ManualPublisher[int](lambda _: source.next(1, 2))
    async with scripted(peer) as connection:
        with pytest.raises(SessionEnded, match="the peer ended the session") as raised:
            await connection.publish("a", source)
    assert raised.value.outcome_unknown == 1
    assert source.outcomes == ["done", "failed"]


async def test_one_session_and_a_link_of_the_peers_own() -> None:
    """A peer that allows one session, and attaches a link the client refuses and never hears the end of."""

    async def peer(peer: Peer) -> None:
        await peer.opens(channel_max=0)
        await peer.begins()
        attach = await peer.expect("attach")
        await peer.send(attach_frame("mine", "sender", source="x", initial_delivery_count=0, handle=7))
        refusal = await peer.expect("attach")
        assert (refusal["name"], refusal["source"], refusal["target"]) == ("mine", None, None)
        assert condition_of((await peer.expect("detach"))["error"])[0] == "amqp:not-allowed"
        await peer.send(attach_frame(attach["name"], "sender", source="a", initial_delivery_count=0))
        second = await peer.expect("attach")
        assert second["name"] != attach["name"]
        await peer.closes()

    async with scripted(peer) as connection:
        probes = [ProbeSubscriber[bytes](), ProbeSubscriber[bytes]()]
        connection.stream("a").subscribe(probes[0])
        await until(lambda: probes[0].subscription)
        connection.stream("b").subscribe(probes[1])
        await trio.sleep(1)


async def test_a_session_and_a_link_of_the_peers_own_do_not_confuse_the_client() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens(channel_max=1)
        await peer.send(begin_frame(None, channel=1))
        began = await peer.expect("begin")
        await peer.send(attach_frame("mine", "sender", source="x", initial_delivery_count=0, handle=0, channel=1))
        assert (await peer.expect("attach"))["name"] == "mine"
        await peer.expect("detach")
        opened.set()
        found = [came["name"] for _ in range(3) if (came := await self_answering(peer, began.channel)) is not None]
        assert len(set(found)) == 3
        await peer.closes()

    async def self_answering(peer: Peer, used: int) -> Frame:
        while True:
            came = await peer.frame()
            if came.name == "attach":
                return came
            assert came.name == "begin"
            assert came.channel != used
            await peer.send(begin_frame(came.channel, channel=0))

    opened = trio.Event()
    async with scripted(peer) as connection:
        await opened.wait()
        for address in "abc":
            connection.stream(address).subscribe(ProbeSubscriber[bytes]())
            await trio.sleep(1)


async def test_a_peer_that_sends_beyond_credit_is_told_and_the_connection_lives() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        assert sender.credit == 3
        sender.credit = 5
        await sender.send(5)
        while sender.detach is None:
            await sender.hear()
        assert condition_of(sender.detach["error"])[0] == "amqp:link:transfer-limit-exceeded"
        assert set(sender.outcomes.values()) == {"released"}
        await peer.send(detach_frame())
        await peer.closes()

    probe = ProbeSubscriber[bytes](3)
    async with scripted(peer) as connection:
        connection.stream("a").subscribe(probe)
        await until(lambda: probe.error)
    assert isinstance(probe.error, RemoteProtocolError)
    assert probe.error.condition == "amqp:link:transfer-limit-exceeded"


async def test_a_message_that_is_none_is_told_and_the_connection_lives() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        sender = SendingPeer(peer)
        await sender.attaches()
        await sender.hear()
        await peer.send(
            frame(described(0x14, b"\x43", b"\x43", b"\xa0\x01x", b"\x43", b"\x42", b"\x42"), b"\x00\x53\x75\xff")
        )
        sender.sent = 1
        while sender.detach is None:
            await sender.hear()
        assert condition_of(sender.detach["error"])[0] == "amqp:decode-error"
        assert sender.outcomes == {0: "modified"}
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(peer) as connection:
        with pytest.raises(RemoteProtocolError, match="decode"):
            await connection.stream("a").to_list()


async def test_outcomes_that_come_after_the_detach_are_late_and_harm_nobody() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        receiver = ReceivingPeer(peer)
        await receiver.attaches(credit=5)
        await receiver.takes(2)
        await peer.send(detach_frame(why=error("amqp:resource-deleted", "gone")))
        await peer.expect("detach")
        await peer.send(disposition_frame(0, 1, ACCEPT), disposition_frame(0, 1, ACCEPT))
        await peer.closes()

    source = ManualPublisher[int](lambda _: source.next(1, 2))
    async with scripted(peer) as connection:
        with pytest.raises(LinkDetached, match="gone") as raised:
            await connection.publish("a", source)
        assert raised.value.outcome_unknown == 2
        await trio.sleep(1)


async def test_a_peer_that_closes_with_an_error_tells_every_link() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        await peer.send(attach_frame(attach["name"], "sender", source="a", initial_delivery_count=0))
        await peer.expect("flow")
        await peer.send(close_frame(error("amqp:connection:forced", "maintenance", {"until": "noon"})))
        await peer.expect("close")

    async with scripted(peer) as connection:
        with pytest.raises(ConnectionClosed) as raised:
            await connection.stream("a").to_list()
        with pytest.raises(ConnectionClosed):
            await connection.publish("b", Stream.of(1))
        with pytest.raises(ConnectionClosed):
            await connection.stream("c").to_list()
    assert (raised.value.condition, raised.value.description) == ("amqp:connection:forced", "maintenance")
    assert dict(raised.value.info) == {"until": "noon"}


async def test_a_peer_that_closes_without_an_error_is_lost() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        await peer.expect("attach")
        await peer.send(close_frame())
        await peer.expect("close")

    async with scripted(peer) as connection:
        with pytest.raises(ConnectionLost, match="closed the connection"):
            await connection.stream("a").to_list()


async def test_each_publish_of_a_lost_connection_counts_what_is_unknown_of_its_own() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens(channel_max=0)
        await peer.begins()
        for handle in range(2):
            attach = await peer.expect("attach")
            await peer.send(attach_frame(attach["name"], "receiver", target="a", handle=handle))
        await peer.send(flow_frame(handle=0, credit=1), flow_frame(handle=1, credit=3))
        for _ in range(4):
            await peer.expect("transfer")
        await peer.hang_up()

    errors: dict[str, ConnectionLost] = {}

    async def publish(connection: Connection, address: str) -> None:
        try:
            await connection.publish(address, Stream.range(100))
        except ConnectionLost as lost:
            errors[address] = lost

    async with scripted(peer) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(publish, connection, "a")
        await trio.sleep(0.1)
        nursery.start_soon(publish, connection, "b")
    assert {address: lost.outcome_unknown for address, lost in errors.items()} == {"a": 1, "b": 3}


# time


async def test_a_silent_peer_is_given_up() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        assert peer.open is not None
        assert peer.open["idle-time-out"] == 2000, "it is told half of it (2.4.5)"
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            while True:
                await peer.frame()

    started = trio.current_time()
    async with scripted(peer, idle_timeout_s=4.0) as connection:
        with pytest.raises(IdleTimeout, match=r"idle_timeout_s=4"):
            await connection.stream("a").to_list()
        assert 3.9 <= trio.current_time() - started <= 8.1


async def test_a_peer_that_neither_reads_nor_speaks_is_given_up() -> None:
    """The engine's clock stands while the pump waits to send; the receiving task goes on looking at its own."""
    ours, theirs = memory_stream_pair()
    ours.send_stream.send_all_hook = trio.lowlevel.checkpoint

    async def full() -> None:
        await trio.sleep_forever()

    probe = ProbeSubscriber[bytes](5)
    async with pumped(ours, idle_timeout_s=4.0) as (pump, _):
        await theirs.send_all(OPENING)
        await pump.opened.wait()
        ours.send_stream.send_all_hook = full
        Connection(pump, "test").stream("a").subscribe(probe)
        started = trio.current_time()
        await pump._ended.wait()
        assert trio.current_time() - started == pytest.approx(8.0)
    assert isinstance(pump.error, IdleTimeout)
    assert probe.error is pump.error


async def test_what_is_attached_when_the_connection_is_cut_hears_of_it() -> None:
    ours, theirs = memory_stream_pair()
    probe, source, finished = ProbeSubscriber[bytes](5), ManualPublisher[int](), trio.Event()

    async def publish(connection: Connection) -> None:
        with pytest.raises(ConnectionLost, match="this side"):
            await connection.publish("a", source)
        finished.set()

    async with trio.open_nursery() as nursery:
        async with pumped(ours) as (pump, _):
            await theirs.send_all(OPENING)
            await pump.opened.wait()
            connection = Connection(pump, "test")
            connection.stream("a").subscribe(probe)
            nursery.start_soon(publish, connection)
        await finished.wait()
    assert isinstance(probe.error, ConnectionLost)
    assert source.subscriptions == 0


async def test_what_is_attached_while_a_cut_connection_tells_its_links_hears_of_it() -> None:
    ours, theirs = memory_stream_pair()
    again = ProbeSubscriber[bytes](1)

    class Again(ProbeSubscriber[bytes]):
        def on_error(self, error: BaseException) -> None:
            super().on_error(error)
            connection.stream("a").subscribe(again)

    first = Again(1)
    async with pumped(ours) as (pump, _):
        await theirs.send_all(OPENING)
        await pump.opened.wait()
        connection = Connection(pump, "test")
        connection.stream("a").subscribe(first)
        await trio.sleep(1)
    assert isinstance(first.error, ConnectionLost)
    assert again.signals == ["on_subscribe", "on_error"]


async def test_a_peer_that_sends_only_heartbeats_is_alive() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        for _ in range(20):
            await trio.sleep(3)
            await peer.send(EMPTY_FRAME)
        done.set()
        await peer.closes()

    done = trio.Event()
    probe = ProbeSubscriber[bytes](1)
    async with scripted(peer, idle_timeout_s=4.0) as connection:
        connection.stream("a").subscribe(probe)
        await done.wait()
        assert not probe.ended


@pytest.mark.parametrize("idle_ms", [100, 999, 1001, 2002, 4006, 15_000])
async def test_heartbeats_go_out_in_time_whatever_the_clock_shows(idle_ms: int) -> None:
    """Also where the next deadline is no whole number of milliseconds: the pump must wait for it, not spin."""

    async def peer(peer: Peer) -> None:
        await peer.opens(idle_ms=idle_ms)
        for _ in range(50):
            before = peer.heartbeats
            await peer.send(EMPTY_FRAME)
            with trio.move_on_after(idle_ms / 1000):
                await peer.frame()
            assert peer.heartbeats > before
        await peer.closes()

    await trio.sleep(0.0007)
    async with scripted(peer):
        await trio.sleep(55 * idle_ms / 1000)


async def test_a_peer_that_never_answers_the_close_is_left_after_a_while() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.expect("close")
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            await peer.frame()

    started = trio.current_time()
    async with scripted(peer):
        pass
    assert 2.9 <= trio.current_time() - started <= 3.1


# what speaks no AMQP


OPENING = SASL_HEADER + SASL_MECHANISMS + SASL_OUTCOME + AMQP_HEADER + open_frame()
ATTACHING = begin_frame(0) + attach_frame("test/1", "sender", source="a", initial_delivery_count=0)
SENDING = transfer_frame(0, b"0") + transfer_frame(1, b"1")


async def run_against(*said: bytes) -> tuple[Pump, ProbeSubscriber[bytes]]:
    """Return what becomes of a client whose peer says these things, each when it is its turn, and hangs up."""
    ours, theirs = memory_stream_pair()
    probe = ProbeSubscriber[bytes](5)
    with trio.fail_after(60):
        async with pumped(ours) as (pump, _):
            Connection(pump, "test").stream("a").subscribe(probe)
            for each in said:
                await theirs.send_all(each)
                await trio.sleep(0.1)  # until the client has said what this was waiting for
            await theirs.send_eof()
            await pump._ended.wait()
    return pump, probe


async def test_a_peer_that_hangs_up_while_the_connection_opens() -> None:
    for length in range(len(OPENING)):
        pump, probe = await run_against(OPENING[:length])
        assert type(pump.error) is ConnectFailed, length
        assert probe.error is pump.error
        assert "scripted peer" in str(probe.error)
        assert "hung up" in str(probe.error)
        assert probe.signals == ["on_subscribe", "on_error"]


async def test_a_peer_that_hangs_up_anywhere_later() -> None:
    for length in range(len(ATTACHING + SENDING) + 1):
        pump, probe = await run_against(OPENING, ATTACHING[:length], SENDING[: max(0, length - len(ATTACHING))])
        assert type(pump.error) is ConnectionLost, length
        assert probe.error is pump.error
        assert "scripted peer" in str(probe.error)
        assert "this side" not in str(probe.error), "it was not us"
        whole = sum(length >= len(ATTACHING) + len(SENDING) * n // 2 for n in (1, 2))
        assert probe.items == [b"0", b"1"][:whole]


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n<html>no</html>",
        b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n",
        b"AMQP\x00\x00\x09\x01",  # RabbitMQ's 0-9-1, which answers so
        b"AMQP\x02\x01\x00\x00",  # wants TLS
        b"\x15\x03\x01\x00\x02\x02\x46",  # a TLS alert
        b"\x00" * 100,
        SASL_HEADER + b"\x00\x00\x00\x04\x02\x01\x00\x00",  # a frame shorter than its header
        SASL_HEADER + b"\xff\xff\xff\xff\x02\x01\x00\x00",  # a frame of 4 GiB
        SASL_HEADER + frame(described(0x40, encode_symbol("GSSAPI")), kind=1)[:20],
    ],
)
async def test_a_peer_that_speaks_no_amqp(said: bytes) -> None:
    pump, probe = await run_against(said)
    assert isinstance(pump.error, ConnectFailed)
    assert isinstance(probe.error, ConnectFailed)
    assert probe.items == []


async def test_a_peer_that_offers_no_mechanism_of_ours() -> None:
    offered = frame(described(0x40, encode_symbol("SCRAM-SHA-256")), kind=1)
    pump, _ = await run_against(SASL_HEADER + offered)
    assert isinstance(pump.error, AuthenticationFailed)


@pytest.mark.parametrize("code", [1, 2, 3, 4])
async def test_a_peer_that_refuses_the_credentials(code: int) -> None:
    outcome = frame(described(0x44, bytes([0x50, code])), kind=1)
    pump, probe = await run_against(SASL_HEADER + SASL_MECHANISMS + outcome)
    assert isinstance(pump.error, AuthenticationFailed)
    assert probe.error is pump.error


BROKEN = {
    "a frame larger than was allowed": b"\x00\x02\x00\x00\x02\x00\x00\x00",
    "a performative there is none of": frame(described(0x77)),
    "no performative": frame(b"\x40"),
    "half a list": frame(b"\x00\x53\x12\xc0\x40\x0a\xa1\x20abc"),
    "an attach in no session": attach_frame("x", "sender", source="a", channel=9),
    "a transfer on no link": transfer_frame(0, b"x", handle=9),
    "a flow on no link": flow_frame(handle=9, credit=1),
    "a detach of no link": detach_frame(handle=9),
    "a second open": open_frame(),
    "a second begin on the channel": begin_frame(0),
    "an end of no session": end_frame(channel=9),
    "a transfer to a sender": attach_frame("x", "receiver", target="a", handle=3) + transfer_frame(0, b"x", handle=3),
    "text that is no utf-8": frame(
        described(0x12, b"\xa1\x02\xff\xfe", b"\x43", b"\x42", b"\x40", b"\x40", b"\x40", b"\x40")
    ),
    "a detach whose reason is no utf-8": detach_frame(why=described(0x1D, b"\xa3\x03a:b", b"\xa1\x02\xff\xfe")),
    "a close whose reason is a number": close_frame(b"\x54\x05"),
    "a disposition of what was never sent": disposition_frame(5, 9, ACCEPT),
    "a disposition from back to front": disposition_frame(9, 5, ACCEPT),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_peer_that_breaks_amqp_ends_nothing_but_its_connection(what: str) -> None:
    """Whatever it is, it ends as an error of ours that names the peer, or does no harm."""
    pump, probe = await run_against(OPENING, ATTACHING, BROKEN[what])
    assert isinstance(pump.error, RStreamsError)
    assert isinstance(probe.error, RStreamsError)
    assert probe.signals == ["on_subscribe", "on_error"]


@given(st.data())
def test_random_bytes_never_raise(data: st.DataObject) -> None:
    """Any bytes, also behind a good beginning: the engine's events are all that comes of them."""
    good = AMQP_HEADER + open_frame() + begin_frame(None) + attach_frame("x", "receiver", source="a")
    start = data.draw(st.sampled_from([0, 8, 8 + len(open_frame()), len(good)]))
    noise = data.draw(
        st.one_of(st.binary(max_size=200), st.binary(max_size=100).map(lambda body: frame(b"\x00\x53" + body)))
    )
    engines = Alone()
    try:
        engines.feed(good[:start] + noise)
        engines.feed(b"")
    finally:
        engines.free()


async def test_a_peer_that_closes_at_once_is_told_from_connect() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        peer = Peer(stream)
        await peer.opens()
        await peer.send(close_frame(error("amqp:resource-limit-exceeded", "too many connections")))
        await peer.closes()
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        port = listener.socket.getsockname()[1]
        with pytest.raises(ConnectionClosed, match="too many connections"):
            async with rstreams.connect(f"amqp://127.0.0.1:{port}") as connection:
                await connection.stream("a").to_list()
        nursery.cancel_scope.cancel()


def test_the_script_itself_is_checked() -> None:
    """A peer that expects what does not come fails its test."""

    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.expect("attach")

    async def main() -> None:
        async with scripted(peer) as connection:
            connection.stream("a").subscribe(ProbeSubscriber[Any]())
            await trio.sleep(1)

    with pytest.raises(AssertionError, match="attach was due"):
        trio.run(main, clock=MockClock(autojump_threshold=0))
