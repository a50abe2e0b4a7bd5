"""A filter that is not in force at the peer ends the subscription, before anything is handed over (3.5.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import pytest
import trio

from rstreams import Connection, Message, Node, Stream
from rstreams._codec import Described, Symbol, encode_value
from rstreams._codec.encode import NULL, encode_string
from rstreams.errors import LinkDetached
from rstreams.message import encode_item
from rstreams.net.dialects import DIALECTS, PeerDescription
from rstreams.net.links.connection_links import Links
from rstreams.testing import ProbeSubscriber
from tests.net.over_tcp import connected, until
from tests.net.wire import (
    SOURCE,
    Peer,
    attach_frame,
    described,
    detach_frame,
    outcome_of,
    scripted,
    transfer_frame,
)

SELECTOR: Final = {"color": Described(Symbol("apache.org:selector-filter:string"), "color = 'red'")}
SIZE: Final = {"size": Described(Symbol("x:size"), 3)}

WAYS: Final[dict[str, Callable[[Connection, Mapping[str, Any]], Any]]] = {
    "stream": lambda connection, filters: connection.stream("a", filters=filters),
    "messages": lambda connection, filters: connection.messages("a", filters=filters),
    "manual": lambda connection, filters: connection.stream("a", settlement="manual", filters=filters),
    "streamed_messages": lambda connection, filters: connection.streamed_messages("a", filters=filters),
    "browse": lambda connection, filters: connection.stream("a", filters=filters, browse=True),
}


def source_with(filters: Mapping[str, Any], distribution: str | None = "copy") -> bytes:
    told = encode_value({Symbol(name): value for name, value in filters.items()})
    mode = NULL if distribution is None else encode_value(Symbol(distribution))
    return described(SOURCE, encode_string("a"), *[NULL] * 5, mode, told)


@pytest.mark.parametrize(
    ("answered", "missing"),
    [({}, "'color' and 'size'"), (SIZE, "'color'"), (SELECTOR, "'size'"), ({"x": "y"}, "'color' and 'size'")],
)
@pytest.mark.parametrize("way", WAYS)
async def test_what_the_peer_does_not_answer_with_ends_it(
    way: str,
    answered: Mapping[str, Any],
    missing: str,
    autojump_clock: object,
) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        while (attach := await peer.frame()).name != "attach":
            assert attach["handle"] is None
        await peer.send(
            attach_frame(attach["name"], "sender", source=source_with(answered), initial_delivery_count=0),
            transfer_frame(0, b"x"),  # as a peer that does not wait for credit
        )
        while (detach := await peer.frame()).name != "detach":
            assert detach.name == "disposition"
            assert outcome_of(detach["state"]) == "released"
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        probe = ProbeSubscriber[Any](5)
        WAYS[way](connection, {**SELECTOR, **SIZE}).subscribe(probe)
        await until(lambda: probe.ended)
        assert isinstance(probe.error, LinkDetached)
        assert f"has not put the filter {missing} in force" in str(probe.error)
        assert probe.items == []


@pytest.mark.parametrize("way", WAYS)
async def test_what_the_peer_answers_with_goes_on(way: str, autojump_clock: object) -> None:
    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        while (attach := await peer.frame()).name != "attach":
            assert attach["handle"] is None
        answer = source_with({**SELECTOR, **SIZE, "more": None})
        await peer.send(attach_frame(attach["name"], "sender", source=answer, initial_delivery_count=0))
        assert (await peer.expect("flow"))["link-credit"] in (1, 2)
        await peer.expect("detach")
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        probe = ProbeSubscriber[Any](2)
        WAYS[way](connection, {**SELECTOR, **SIZE}).subscribe(probe)
        await trio.sleep(1)
        assert not probe.ended
        probe.cancel()


KINDS: Final[dict[str, Callable[[Node], object]]] = {
    "queue": lambda node: node.queue("a"),
    "multicast": lambda node: node.multicast("a"),
    "log": lambda node: node.log("a", retention_items=9),
    "latest": lambda node: node.latest("a"),
    "served": lambda node: node.serve("a", Stream.range(3)),
    "served from an offset": lambda node: node.serve("a", from_offset=lambda first: Stream.range(first, 3)),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_node_answers_with_what_it_does(kind: str) -> None:
    async with connected() as (node, connection):
        KINDS[kind](node)
        if "served" not in kind and kind != "multicast":
            await connection.publish("a", Stream.of(1))
        with pytest.raises(LinkDetached, match="has not put the filter 'color' in force"):
            await connection.stream("a", filters=SELECTOR).to_list()
        if kind == "queue":
            assert await connection.messages("a").map(lambda message: message.delivery_count).take(1).to_list() == [0]
        if kind == "log":
            assert await connection.stream("a", start="first").take(1).to_list() == [1]


OFFSET: Final = DIALECTS["rabbitmq4"].offset("first")
SQL: Final = DIALECTS["rabbitmq4"].selector("a = 1")
PROPERTIES: Final = DIALECTS["rabbitmq4"].properties({"a": 1})


@pytest.mark.parametrize(
    ("version", "distribution", "known"),
    [
        ("4.0.5", "", [OFFSET]),
        ("4.1.0", "", [OFFSET, PROPERTIES]),
        ("4.2.1", "", [OFFSET, PROPERTIES, SQL]),
        ("4.3.6", "copy", [OFFSET, PROPERTIES, SQL]),
        ("4.3.6", "move", []),
        ("5.0", "copy", [OFFSET, PROPERTIES, SQL]),
        ("", "copy", [OFFSET, PROPERTIES, SQL]),
        ("", "move", []),
    ],
)
def test_rabbitmq_answers_with_more_than_it_does(
    version: str, distribution: str, known: list[Mapping[str, Any]]
) -> None:
    peer = PeerDescription({"product": "RabbitMQ", "version": version})
    answered = {**OFFSET, **SQL, **PROPERTIES, **SELECTOR}
    in_force = DIALECTS["rabbitmq4"].in_force(answered, distribution, peer)
    assert in_force is not None
    assert set(in_force) == {name for each in known for name in each}


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("settlement", ["at_least_once", "at_most_once"])
async def test_the_first_message_tells_where_the_attach_does_not(
    *,
    is_stream: bool,
    settlement: Literal["at_least_once", "at_most_once"],
    autojump_clock: object,
) -> None:
    """As at RabbitMQ 4.0, whose queues answer as its streams do."""
    message = Message(b"x", annotations={"x-stream-offset": 7} if is_stream else {})

    async def script(peer: Peer) -> None:
        await peer.opens()
        await peer.begins()
        attach = await peer.expect("attach")
        answer = source_with(OFFSET, distribution=None)
        await peer.send(attach_frame(attach["name"], "sender", source=answer, initial_delivery_count=0))
        assert (await peer.expect("flow"))["link-credit"] == 2
        frames = [transfer_frame(number, b"", payload=encode_item(message)) for number in range(2)]
        await peer.send(*frames)
        while (came := await peer.frame()).name != "detach":
            if came.name == "disposition":
                assert outcome_of(came["state"]) == ("accepted" if is_stream else "released")
        await peer.send(detach_frame())
        await peer.closes()

    async with scripted(script) as connection:
        spoken = Connection(Links(connection._links.carrier, "test", DIALECTS["rabbitmq4"]))
        probe = ProbeSubscriber[Any](2)
        spoken.stream("a", filters=OFFSET, settlement=settlement).subscribe(probe)
        await trio.sleep(1)
        if is_stream:
            assert (probe.items, probe.ended) == ([b"x", b"x"], False)
            probe.cancel()
        else:
            assert (probe.items, probe.ended) == ([], True)
            assert "has not put the filter 'rabbitmq:stream-offset-spec' in force" in str(probe.error)
