"""What a dialect changes in what a peer is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Stream
from rstreams._codec import encode_value
from rstreams._codec.encode import NULL, encode_string
from rstreams._codec.types import Int
from rstreams.errors import ConfigError
from rstreams.message import Described, Symbol
from rstreams.net.connection import Connection
from rstreams.net.dialects import DIALECTS, Dialect, Filters
from rstreams.net.dialects.azure import dead_letter_queue, session_filter
from rstreams.net.links.connection_links import Links
from rstreams.protocol.frames import Attach, Role, Settlement
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.testing import ProbeSubscriber
from tests.net.peers import SendingPeer, until
from tests.net.wire import SOURCE, Peer, attach_frame, described, detach_frame, scripted

pytestmark = pytest.mark.usefixtures("autojump_clock")


def speaking(connection: Connection, dialect: str) -> Connection:
    return Connection(Links(connection._links.carrier, "test", DIALECTS[dialect]))


async def test_an_attach_names_the_address_in_the_peers_words() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        receiving = await peer.expect("attach")
        assert receiving["source"].value[0] == "queue://orders"
        assert receiving["source"].value[-1] == "queue", "its capability"
        await peer.send(attach_frame(receiving["name"], "sender", source="a", initial_delivery_count=0))
        assert (await peer.expect("flow"))["link-credit"] == 1
        await peer.send(detach_frame())
        await peer.expect("detach")
        await peer.closes()

    async with scripted(script) as connection:
        assert await speaking(connection, "activemq").stream("orders").first_or_none() is None


async def test_what_a_peer_has_no_word_for_is_the_streams_error() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.closes()

    async with scripted(script) as connection:
        with pytest.raises(ConfigError, match="bind a queue"):
            await speaking(connection, "rabbitmq4").stream("topic://a").to_list()


async def test_credit_that_is_renewed_only_when_none_is_left() -> None:
    flows: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.opens()
        sending = SendingPeer(peer)
        await sending.attaches()
        await sending.hear()
        assert sending.credit == 8
        await sending.send(7)
        await peer.expect("disposition")
        await peer.is_silent()
        assert sending.credit == 1
        await sending.send(1)
        for _ in range(2):
            came = await peer.frame()
            flows.extend([came["link-credit"]] if came.name == "flow" else [])
        await peer.closes()

    async with scripted(script) as connection:
        probe = ProbeSubscriber[bytes](100)
        speaking(connection, "rabbitmq310").stream("a", window=8).subscribe(probe)
        await until(lambda: flows)
        assert flows == [8]
        assert len(probe.items) == 8


async def test_a_peer_that_answers_no_drain_is_not_drained() -> None:
    suspended, resumed = trio.Event(), trio.Event()

    async def script(peer: Peer) -> None:
        await peer.opens()
        sending = SendingPeer(peer)
        await sending.attaches()
        await sending.hear()
        assert sending.credit == 8
        await suspended.wait()
        await peer.is_silent()
        await sending.send(8)
        await peer.expect("disposition")
        await peer.is_silent()
        resumed.set()
        assert (await peer.expect("flow"))["link-credit"] == 8
        await peer.closes()

    async with scripted(script) as connection:
        probe = ProbeSubscriber[bytes](100)
        speaking(connection, "rabbitmq310").stream("a", window=8).subscribe(probe)
        await until(lambda: probe.subscription)
        assert isinstance(probe.subscription, LinkSubscription)
        with pytest.raises(
            ConfigError, match=r"^drain\(\) of link 'a' \(dialect 'rabbitmq310'\): this peer does not answer drains"
        ):
            probe.subscription.drain(lambda: None)
        probe.subscription.suspend()
        suspended.set()
        await resumed.wait()
        assert len(probe.items) == 8, "what had been granted came, and was handed over"
        probe.subscription.resume()


async def test_paired_links_live_in_one_session() -> None:
    channels: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        channels.extend([(await peer.expect("attach")).channel, (await peer.expect("attach")).channel])
        await peer.closes()

    async with scripted(script) as connection:
        carrier = connection._links.carrier
        frame = Attach("pair", Role.RECEIVER, "a", "a", Settlement.AT_MOST_ONCE, properties={"paired": True})
        receiving = LinkSubscription(ProbeSubscriber[bytes](), ReceivingOptions(decode=bytes, window=1), print)
        carrier.attach(receiving, frame)
        sending = LinkSubscriber(
            Stream.never(),
            SendingOptions(encode=bytes, settlement=Settlement.AT_MOST_ONCE, settle_before_detach=True),
            print,
        )
        carrier.attach(sending, replace(frame, role=Role.SENDER))
        await until(lambda: len(channels) == 2)
    assert channels == [0, 0]


async def test_a_dialect_that_is_none_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(ConfigError, match="dialect='rabbit'"):
        async with rstreams.connect("amqp://127.0.0.1:1", dialect="rabbit"):
            pass


SELECTOR = "apache.org:selector-filter:string"


async def end_the_stream(peer: Peer) -> None:
    """Detach the sender of a stream when it may send, and end the connection."""
    await peer.expect("flow")
    await peer.send(detach_frame())
    await peer.expect("detach")
    await peer.closes()


@pytest.mark.parametrize(
    ("dialect", "address", "source", "capability", "said", "filters"),
    [
        (
            "eventhubs",
            "hub/ConsumerGroups/$Default/Partitions/0",
            "hub/ConsumerGroups/$Default/Partitions/0",
            None,
            lambda dialect: dialect.offset("first"),
            {Symbol(SELECTOR): Described(Symbol(SELECTOR), "amqp.annotation.x-opt-offset > '-1'")},
        ),
        (
            "servicebus",
            "queue://orders",
            "orders",
            None,
            lambda _: session_filter("a"),
            {Symbol("com.microsoft:session-filter"): "a"},
        ),
        (
            "servicebus",
            dead_letter_queue("topic/Subscriptions/all"),
            "topic/Subscriptions/all/$deadletterqueue",
            None,
            lambda _: session_filter(None),
            {Symbol("com.microsoft:session-filter"): None},
        ),
        (
            "artemis",
            "topic://prices::audit",
            "prices::audit",
            "topic",
            lambda dialect: dialect.selector("amount > 3"),
            {Symbol("jms-selector"): Described(Symbol(SELECTOR), "amount > 3")},
        ),
        (
            "activemq",
            "Consumer.audit.VirtualTopic.prices",
            "queue://Consumer.audit.VirtualTopic.prices",
            "queue",
            lambda dialect: dialect.selector("amount > 3"),
            {Symbol("jms-selector"): Described(Symbol(SELECTOR), "amount > 3")},
        ),
        ("router", "topic://prices", "prices", None, lambda _: {}, None),
    ],
)
async def test_what_a_source_is_asked_for_in_the_peers_words(
    *,
    dialect: str,
    address: str,
    source: str,
    capability: str | None,
    said: Callable[[Dialect], Filters],
    filters: dict[Symbol, Any] | None,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        fields = [*(attach := await peer.expect("attach"))["source"].value, *[None] * 11]
        assert fields[0] == source
        assert fields[7] == filters
        assert all(isinstance(name, Symbol) for name in fields[7] or {})
        assert fields[10] == capability
        answer = described(SOURCE, encode_string(source), *[NULL] * 6, encode_value(filters))
        await peer.send(attach_frame(attach["name"], "sender", source=answer, initial_delivery_count=0))
        await end_the_stream(peer)

    async with scripted(script) as connection:
        spoken = speaking(connection, dialect)
        assert await spoken.stream(address, filters=said(spoken.dialect)).first_or_none() is None


@pytest.mark.parametrize(
    ("dialect", "source", "properties"),
    [
        ("rabbitmq4", "/queues/orders", {Symbol("rabbitmq:priority"): Int(5)}),
        ("artemis", "orders", {Symbol("priority"): Int(5)}),
        ("activemq", "queue://orders?consumer.priority=5", {}),
    ],
)
@pytest.mark.parametrize("way", ["stream", "messages", "consume"])
async def test_a_receiver_has_its_priority_in_the_peers_words(
    way: str, dialect: str, source: str, properties: dict[Symbol, Int]
) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        told = attach["properties"] or {}
        assert attach["source"].value[0] == source
        assert told.items() >= properties.items()
        assert all(isinstance(told[name], Int) for name in properties)
        await peer.send(attach_frame(attach["name"], "sender", source=source, initial_delivery_count=0))
        await end_the_stream(peer)

    async with scripted(script) as connection:
        spoken = speaking(connection, dialect)
        if way == "consume":
            await spoken.consume("orders", print, priority=5)
        else:
            receive = spoken.stream if way == "stream" else spoken.messages
            assert await receive("orders", priority=5).first_or_none() is None


async def test_a_peer_without_priorities_of_receivers_is_asked_for_nothing() -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.closes()

    async with scripted(script) as connection:
        for dialect in ("none", "rstreams", "rabbitmq310", "router", "servicebus", "eventhubs"):
            with pytest.raises(ConfigError, match="priority=5: the peer's dialect is"):
                await speaking(connection, dialect).stream("orders", priority=5).to_list()


ALL_MESSAGES: list[dict[str, Any]] = [{"browse": True}, {"start": 0}, {"to_end": True}]
"""Options with which each receiver gets all messages."""


@pytest.mark.parametrize("priority", [True, 1.5, "high", 2**31, -(2**31) - 1])
async def test_a_priority_that_cannot_be_is_refused(priority: Any) -> None:  # noqa: ANN401 - what a user may give
    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.closes()

    async with scripted(script) as connection:
        with pytest.raises(ConfigError, match="priority must be -2147483648 to 2147483647"):
            connection.stream("orders", priority=priority)
        for copies in ALL_MESSAGES:
            with pytest.raises(ConfigError, match="priority=1: not allowed beside"):
                connection.stream("orders", priority=1, **copies)


@pytest.mark.parametrize(
    ("dialect", "address", "target", "capability"),
    [
        ("artemis", "queue://orders", "orders", "queue"),
        ("artemis", "topic://prices", "prices", "topic"),
        ("activemq", "orders", "queue://orders", "queue"),
        ("activemq", "topic://VirtualTopic.prices", "topic://VirtualTopic.prices", "topic"),
        ("servicebus", "topic://prices", "prices", None),
        ("eventhubs", "hub", "hub", None),
        ("router", "queue://orders", "orders", None),
    ],
)
async def test_what_a_target_is_asked_for_in_the_peers_words(
    dialect: str, address: str, target: str, capability: str | None
) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        fields = [*attach["target"].value, *[None] * 7]
        assert (fields[0], fields[6]) == (target, capability)
        await peer.send(attach_frame(attach["name"], "receiver", target="a"))
        await peer.expect("detach")
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        await speaking(connection, dialect).publish(address, Stream.empty())
