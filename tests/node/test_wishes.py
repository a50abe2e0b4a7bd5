"""A message that asks for what its address ignores is taken, and the log says so once; other messages leave no line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

import rstreams
from rstreams import Connection, Message, Node, Stream
from rstreams._codec import Symbol, encode_value
from rstreams._codec.asking import DELAYS, Wish
from rstreams._codec.forwarding import without_delivery_annotations
from rstreams.message import encode_item
from rstreams.node import wishes
from rstreams.node.address import Address
from tests.log_lines import tell_counts
from tests.net.foreign import Foreign, foreign
from tests.net.over_tcp import until
from tests.net.wire import outcome_of, transfer_frame

KINDS: Final[dict[str, Callable[[Node], object]]] = {
    "queue": lambda node: node.queue("a"),
    "durable queue": lambda node: node.queue("a", durable=True),
    "multicast": lambda node: node.multicast("a", overflow="drop_oldest"),
    "durable multicast": lambda node: node.multicast("a", overflow="drop_oldest", durable=True),
    "log": lambda node: node.log("a", retention_items=1000),
    "log with partitions": lambda node: node.log("a", partitions=3, retention_items=1000),
    "log with a function for keys": lambda node: node.log(
        "a", partitions=3, key=lambda message: message.group_id, retention_items=1000
    ),
    "latest": lambda node: node.latest("a"),
    "responding address": lambda node: node.respond("a", lambda _: None),
    "responding address, one at a time": lambda node: node.respond("a", lambda _: None, concurrency=1),
}
"""An address of each kind that takes messages."""

IN_MEMORY: Final = {"queue", "multicast", "responding address", "responding address, one at a time"}
SHARE_A_GROUP: Final = {"queue", "durable queue", "log with partitions", "responding address"}
LET_EXPIRE: Final = {"queue", "durable queue", "responding address", "responding address, one at a time"}


def ignored_by(kind: str, *, has_store: bool) -> set[Wish]:
    """Return what an address of a kind ignores of messages."""
    expected = {Wish.PRIORITY, Wish.DELAY, Wish.COPIES}
    expected |= {Wish.DURABLE} if kind in IN_MEMORY or not has_store else set()
    expected |= {Wish.GROUP} if kind in SHARE_A_GROUP else set()
    return expected if kind in LET_EXPIRE else expected | {Wish.LIFETIME}


SOON: Final = datetime.now(UTC) + timedelta(hours=1)

ASKING: Final[list[tuple[Wish, dict[str, Any]]]] = [
    (Wish.DURABLE, {"durable": True}),
    (Wish.PRIORITY, {"priority": 9}),
    (Wish.PRIORITY, {"priority": 0}),
    (Wish.LIFETIME, {"ttl_s": 3600.0}),
    (Wish.LIFETIME, {"expiry_time": SOON}),
    (Wish.GROUP, {"group_id": "g", "group_sequence": 1}),
    *((Wish.DELAY, {"annotations": {name: 0}}) for name in sorted(DELAYS)),
    (Wish.COPIES, {"annotations": {"x-cc": ["b"]}}),
]
"""All ways to ask for something."""

NOT_ASKING: Final[list[Message]] = [
    Message(b"a body"),
    Message("a value"),
    Message("with properties", id="m", subject="s", creation_time=datetime.now(UTC), properties={"priority": 9}),
    Message("with annotations", annotations={"x-opt-partition-key": "k", "x-opt-a": 1, 7: "b"}),
    Message("null", annotations={"x-cc": None, "x-opt-delivery-delay": None}, group_id=""),
    Message("with a header", delivery_count=3, first_acquirer=True),
]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log tells of wishes that are ignored."""
    return [each.getMessage() for each in caplog.records if " ignores " in each.getMessage()]


def told(caplog: pytest.LogCaptureFixture) -> list[Wish]:
    """Return the wishes that the log tells of, in their order, one for each line."""
    shown = {text: wish for wish, text in wishes.SHOWN.items()}
    found = []
    for line in lines(caplog):
        match = re.fullmatch(
            r"[a-z ]+ 'a(?:-\d)?' ignores (.*): .+; the first to ask is container '.*', link '.*'", line
        )
        assert match, line
        found.append(shown[match[1]])
    return found


def of(node: Node) -> Address:
    return node._addresses["a"]


async def publish(connection: Connection, *messages: Message, address: str = "a") -> None:
    report = await connection.publish(address, Stream.of(*messages))
    assert report.accepted == len(messages), "they are taken nevertheless"


@pytest.mark.parametrize("has_store", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_ignored_is_told_once_and_the_message_is_taken(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, has_store: bool
) -> None:
    if not has_store and kind.startswith("durable"):
        return
    expected = ignored_by(kind, has_store=has_store)
    async with Node(store=tmp_path / "s" if has_store else None, pack_items=8) as node:
        KINDS[kind](node)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="it") as connection:
            await publish(connection, *NOT_ASKING)
            assert lines(caplog) == []
            for wish, fields in ASKING:
                asking = Message(b"please", **fields)
                await publish(connection, *NOT_ASKING, asking, asking)
                assert told(caplog)[-1:] == [wish] or wish not in expected
            assert {*told(caplog)} == expected == {*of(node).ignores} - {Wish.TURN}
            assert len(told(caplog)) == len(expected), "each one once"


@pytest.mark.parametrize("number", range(len(ASKING)))
async def test_it_is_told_whichever_way_the_message_comes(number: int, caplog: pytest.LogCaptureFixture) -> None:
    """Alone, in a run, in a pack, settled, numbered, with delivery annotations, over the relay, to a partition."""
    wish, fields = ASKING[number]
    asking = Message(b"please", **fields)
    others = [Message(number) for number in range(20)]
    notes = b"\x00\x53\x71" + encode_value({Symbol("x-opt-hop"): "one"})
    encoded = encode_item(asking)
    at = 5 + encoded[4] if encoded.startswith(b"\x00\x53\x70") else 0

    async def by_frames(client: Foreign, payload: bytes, address: str | None) -> None:
        await client.attach("l", "sender", address=address, null_terminus=address is None)
        assert await client.credit()
        await client.send(transfer_frame(0, b"", payload=payload))
        assert outcome_of((await client.due("disposition"))["state"]) == "accepted"

    ways: dict[str, Any] = {
        "alone": lambda connection: publish(connection, asking),
        "in a run": lambda connection: publish(connection, *others, asking, *others),
        "in a pack": lambda connection: connection.publish("a", Stream.of(*others, asking), pack_items=8),
        "settled": lambda connection: connection.publish("a", Stream.of(asking), settlement="at_most_once"),
        "numbered": lambda connection: connection.publish("a", Stream.of(asking), settlement="effectively_once"),
        "of another make": lambda client: by_frames(client, encoded[:at] + notes + encoded[at:], "a"),
        "relayed": lambda client: by_frames(client, encode_item(Message(b"", address="a", **fields)), None),
    }
    for way, send in ways.items():
        tell_counts()
        caplog.clear()
        async with Node(pack_items=8) as node:
            node.log("a", partitions=2, retention_items=100)
            listener = await node.listen("127.0.0.1:0")
            if way in {"of another make", "relayed"}:
                async with foreign(listener) as client:
                    await send(client)
            else:
                async with rstreams.connect(listener.url) as connection:
                    await send(connection)
                    await until(lambda: told(caplog))
        assert told(caplog) == [wish], way


async def test_a_partition_keeps_a_group_together_and_tells_of_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    async with Node() as node:
        node.log("a", partitions=2, retention_items=100)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            for _, fields in ASKING:
                await publish(connection, Message(b"please", **fields), address="a-1")
    assert set(told(caplog)) == ignored_by("log", has_store=False)


@pytest.mark.parametrize("name", ["rabbitmq:priority", "priority"])
async def test_a_consumer_that_wants_to_come_before_others_is_told_of(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Node() as node:
        node.queue("a")
        async with foreign(await node.listen("127.0.0.1:0")) as client:
            for handle, value in enumerate([0, 5, 5]):
                properties = encode_value({Symbol(name): value})
                answer = await client.attach(
                    f"c{handle}", "receiver", address="a", handle=handle, properties=properties
                )
                assert answer["source"] is not None
                assert told(caplog) == [Wish.TURN] * (value > 0)


async def test_what_has_been_told_or_is_not_ignored_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bytes] = []

    def may_ask(encoded: bytes, among: int) -> bool:
        assert among
        looks.append(encoded)
        return True

    monkeypatch.setattr(wishes, "may_ask", may_ask)

    class Asks:
        name, kind = "a", "queue"
        ignores: Mapping[Wish, str] = {Wish.PRIORITY: "no", Wish.DELAY: "no"}

    address = wishes.Wishes(Asks())
    take = address.taking("")
    plain = [encode_item(each) for each in (b"a body", bytes(1000), "a value", [1, 2], Message(properties={"a": 1}))]
    assert list(map(take, plain)) == plain
    assert looks == [], "their first byte tells"
    for message in (Message(priority=9), Message(annotations={"x-delay": 1})):
        encoded = encode_item(message)
        assert take(encoded) is encoded
        assert take(encoded) is encoded
    assert len(looks) == 3
    assert address.untold == 0
    Asks.ignores = {}
    assert wishes.Wishes(Asks()).taking("") is without_delivery_annotations


@pytest.mark.parametrize(("kind", "store"), [*product(["queue", "log"], [False, True])])
async def test_an_address_that_was_made_anew_tells_again(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, store: bool
) -> None:
    async with Node(store=tmp_path / "s" if store else None) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            for times in (1, 2):
                KINDS[kind](node)
                await publish(connection, Message(b"please", priority=9))
                node.remove("a")
                tell_counts()
                assert told(caplog) == [Wish.PRIORITY] * times
