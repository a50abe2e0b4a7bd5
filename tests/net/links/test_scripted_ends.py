"""The client against peers written frame by frame: refusals, ends, and peers that break the rules."""

from __future__ import annotations

import pytest
import trio

from rstreams import Stream
from rstreams.errors import (
    ConnectionClosed,
    ConnectionLost,
    LinkDetached,
    PublisherFailed,
    RemoteProtocolError,
    SessionEnded,
)
from rstreams.net.connection import Connection
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.peers import ReceivingPeer, SendingPeer, until
from tests.net.wire import (
    ACCEPT,
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
    scripted,
    transfer_frame,
)

pytestmark = pytest.mark.usefixtures("autojump_clock")


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
        await peer.opens(channel_max=0)
        begin = await peer.begins()
        await peer.expect("attach")
        await peer.end(end_frame(error("amqp:not-found", "no queue 'a'"), channel=begin.channel))
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
        await peer.end(end_frame(error("amqp:session:errant-link"), channel=channels[0]))
        await peer.send(transfer_frame(0, b"x", channel=channels[1]))
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
        await peer.send(disposition_frame(0, 0, ACCEPT))
        await peer.end(end_frame())
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
