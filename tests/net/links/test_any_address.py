"""Messages to any address over one link: each names its own (the anonymous terminus)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import rstreams
from rstreams import Message, Node, Reconnect, Stream
from rstreams.errors import ConfigError, DeliveryFailed
from rstreams.message import ByteStream, decode_message, encode_item
from rstreams.net.connection import Connection
from rstreams.net.dialects import DIALECTS
from rstreams.net.links.connection_links import Links
from rstreams.testing import FaultyNetwork
from tests.net.over_tcp import connected, until
from tests.net.peers import ReceivingPeer
from tests.net.wire import ACCEPT, Peer, detach_frame, disposition_frame, scripted

ADDRESSES = ("one", "two")


def to(number: int) -> Message:
    return Message(number, address=ADDRESSES[number % 2])


@asynccontextmanager
async def two_queues() -> AsyncIterator[tuple[Node, Connection]]:
    async with connected() as (node, connection):
        for address in ADDRESSES:
            node.queue(address)
        yield node, connection


WAYS: dict[str, dict[str, Any]] = {
    "packed": {},
    "one by one": {"pack_items": 1},
    "settled": {"settlement": "at_most_once"},
    "durable": {"durable": True},
    "by a function": {"encode": lambda message: Message(message.body, address=message.address)},
    "encoded": {"encoded": True},
}


@pytest.mark.parametrize("way", WAYS)
async def test_publish_sends_each_message_to_its_own_address(way: str) -> None:
    options = WAYS[way]
    async with two_queues() as (node, connection):
        messages = Stream.range(20).map(to)
        items: Stream[Any] = messages.map(encode_item) if "encoded" in options else messages
        result = await connection.publish(None, items, **options)
        assert (result.accepted, result.complete) == (20, True)
        await until(lambda: all(node.statistics().queues[address].ready == 10 for address in ADDRESSES))
        assert await connection.stream("one").take(10).to_list() == list(range(0, 20, 2))
        assert await connection.stream("two").take(10).to_list() == list(range(1, 20, 2))


async def test_a_body_that_comes_goes_there_too() -> None:
    async with two_queues() as (_, connection):
        await connection.publish(None, Stream.of(Message(ByteStream([b"a", b"b"]), address="two")))
        assert await connection.stream("two").first_or_none() == b"ab"


async def test_a_sender_tells_the_outcome_of_each_message() -> None:
    async with two_queues() as (node, connection), connection.sender(None) as sender:
        assert (sender.address, repr(sender)) == (None, "<rstreams sender to any address>")
        await sender.send(to(0))
        with pytest.raises(DeliveryFailed, match="amqp:not-found: no address 'nowhere' here"):
            await sender.send(Message(1, address="nowhere"))
        await sender.send(to(1))
        assert [node.statistics().queues[address].ready for address in ADDRESSES] == [1, 1]
        assert "to each message's own address: " in str(connection.explain())


NOT_ADDRESSED: dict[str, Callable[[], Stream[Any]]] = {
    "a value": lambda: Stream.of(to(0), "text"),
    "a message without an address": lambda: Stream.of(to(0), Message("text")),
    "a message with an empty one": lambda: Stream.of(to(0), Message("text", address="")),
}


@pytest.mark.parametrize("items", NOT_ADDRESSED)
async def test_an_item_without_an_address_is_named_and_those_before_it_have_arrived(items: str) -> None:
    text = r"^publish\(None\): item 1, .*: address=None: each item must be a Message that names its address"
    async with two_queues() as (node, connection):
        with pytest.raises(ConfigError, match=text) as raised:
            await connection.publish(None, NOT_ADDRESSED[items]())
        assert raised.value.published is not None
        assert (raised.value.published.accepted, raised.value.published.not_sent) == (1, 1)
        with pytest.raises(ConfigError, match=text):
            await connection.publish(None, NOT_ADDRESSED[items]().map(encode_item), encoded=True)
        assert node.statistics().queues["one"].ready == 2
        async with connection.sender(None) as sender:
            with pytest.raises(ConfigError, match="each item must be a Message that names its address"):
                await sender.send("text")
            await sender.send(to(1))


async def test_an_address_that_does_not_exist_ends_publish_at_its_message() -> None:
    async with two_queues() as (node, connection):
        with pytest.raises(DeliveryFailed, match="amqp:not-found") as raised:
            await connection.publish(None, Stream.of(to(0), Message(1, address="nowhere")))
        assert raised.value.published is not None
        assert list(raised.value.published.refused) == [1]
        assert node.statistics().queues["one"].ready == 1


async def test_numbered_messages_need_an_address() -> None:
    async with two_queues() as (_, connection):
        with pytest.raises(ConfigError, match="settlement='effectively_once' needs an address"):
            await connection.publish(None, Stream.of(to(0)), settlement="effectively_once")


async def test_it_goes_on_over_the_next_connection() -> None:
    policy = Reconnect(first_delay_s=0.01, max_delay_s=0.05)
    async with Node() as node:
        for address in ADDRESSES:
            node.queue(address)
        url = (await node.listen("127.0.0.1:0")).url
        async with FaultyNetwork(url) as network, rstreams.connect(network.url, reconnect=policy) as connection:
            network.when("transfer", direction="to_peer", nth=5, at="after").reset()
            result = await connection.publish(None, Stream.range(200).map(to), pack_items=1)
            assert (result.accepted, network.faults["reset"]) == (200, 1)
        assert all(node.statistics().queues[address].enqueued >= 100 for address in ADDRESSES)


@pytest.mark.usefixtures("autojump_clock")
async def test_a_peer_without_such_links_gets_nothing() -> None:
    drawn: list[int] = []

    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.closes()

    async with scripted(script) as connection:
        items = Stream.range(3).do_on_next(drawn.append).map(to)
        text = r"offers no link for messages to any address \(ANONYMOUS-RELAY\): give an address"
        with pytest.raises(ConfigError, match=rf"^publish\(None\): the scripted peer {text}"):
            await connection.publish(None, items)
        with pytest.raises(ConfigError, match=rf"^sender\(None\): the scripted peer {text}"):
            async with connection.sender(None):
                pass
    assert not drawn


@pytest.mark.parametrize("address", ["", 5, b"one", "a\0b"])
async def test_any_other_address_must_be_a_name(address: Any) -> None:  # noqa: ANN401 - what a user may give
    async with two_queues() as (_, connection):
        with pytest.raises(ConfigError, match=r"^address="):
            await connection.publish(address, Stream.empty())


IN_THE_PEERS_WORDS = {
    "rabbitmq4": [("orders", "/queues/orders"), ("topic://a.b", "/exchanges/amq.topic/a.b"), ("/exchanges/e/k",) * 2],
    "activemq": [("orders", "queue://orders"), ("topic://prices", "topic://prices")],
    "artemis": [("orders", "orders")],
    "router": [("queue://orders", "orders")],
    "none": [("queue://orders", "queue://orders")],
}
"""Addresses of messages, and what the peer gets."""


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("dialect", IN_THE_PEERS_WORDS)
async def test_an_address_is_told_in_the_peers_words(dialect: str) -> None:
    addresses = IN_THE_PEERS_WORDS[dialect]
    got: list[str | None] = []

    async def script(peer: Peer) -> None:
        await peer.opens(offers="ANONYMOUS-RELAY")
        taking = ReceivingPeer(peer)
        await taking.attaches(credit=10)
        assert taking.attach["target"].value[:1] in ([], [None]), "a target without an address, not a null target"
        transfers = [await peer.expect("transfer") for _ in addresses]
        got.extend(decode_message(transfer.payload).address for transfer in transfers)
        await peer.send(disposition_frame(0, len(addresses) - 1, ACCEPT))
        await peer.expect("detach")
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        spoken = Connection(Links(connection._links.carrier, "test", DIALECTS[dialect]))
        await spoken.publish(None, Stream.of(*(Message(1, address=address) for address, _ in addresses)))
    assert got == [told for _, told in addresses]


async def test_a_kind_that_only_a_link_can_ask_for_is_refused() -> None:
    async with two_queues() as (_, connection):
        spoken = Connection(Links(connection._links.carrier, "test", DIALECTS["artemis"]))
        with pytest.raises(
            ConfigError, match=r"address='queue://one': a message cannot ask for this kind of address; write 'one'"
        ):
            await spoken.publish(None, Stream.of(Message(1, address="queue://one")))
