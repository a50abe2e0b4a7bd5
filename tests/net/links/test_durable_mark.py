"""Messages are marked as durable for a broker, whichever way they are sent, unless the user says otherwise (3.2.1)."""

from __future__ import annotations

from typing import Any

import pytest

from rstreams import DeadLetters, Message, Stream
from rstreams.errors import ConfigError
from rstreams.message import ByteStream, decode_message, encode_item
from rstreams.net.connection import Connection
from rstreams.net.dialects import Dialect
from tests.net.over_tcp import connected, until
from tests.net.peers import ReceivingPeer
from tests.net.wire import ACCEPT, Peer, detach_frame, disposition_frame, scripted

ITEMS: dict[str, Any] = {
    "bytes": b"x",
    "long bytes": b"x" * 300,
    "text": "x",
    "null": None,
    "message": Message(b"x", subject="s", ttl_s=5.0, priority=7, properties={"a": 1}),
    "durable message": Message(b"x", durable=True),
    "streamed message": Message(ByteStream([b"x"]), subject="s"),
}
WAYS = ["publish", "publish encode", "publish effectively_once", "sender", "sender encode", "submit"]


async def send(connection: Connection, how: str, item: Any, durable: dict[str, Any]) -> None:  # noqa: ANN401 - any item
    call, _, variant = how.partition(" ")
    options: dict[str, Any] = dict(durable)
    if variant == "encode":
        options["encode"] = lambda _: item
    elif variant:
        options["settlement"] = variant
    if call == "publish":
        await connection.publish("a", Stream.of(0 if variant == "encode" else item), **options)
        return
    async with connection.sender("a", **options) as sender:
        if call == "submit":
            await (await sender.submit(item)).wait()
        else:
            await sender.send(item)


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("durable", [{}, {"durable": None}, {"durable": True}, {"durable": False}], ids=str)
@pytest.mark.parametrize("how", WAYS)
async def test_a_broker_gets_durable_messages(how: str, durable: dict[str, bool | None]) -> None:
    marks: dict[str, bool] = {}
    others: dict[str, Message] = {}

    for name, item in ITEMS.items():
        if name == "streamed message" and "effectively_once" in how:
            continue

        async def peer(peer: Peer, name: str = name) -> None:
            receiving = ReceivingPeer(peer)
            await peer.opens()
            await receiving.attaches(credit=1)
            payload, more = b"", True
            while more:
                transfer = await peer.expect("transfer")
                payload, more = payload + transfer.payload, bool(transfer["more"])
            await peer.send(disposition_frame(0, 0, ACCEPT))
            await peer.expect("detach")
            await peer.send(detach_frame())
            others[name] = decode_message(payload)
            marks[name] = others[name].durable
            await peer.closes()

        async with scripted(peer) as connection:
            await send(connection, how, item, durable)
    expected = durable.get("durable") is not False
    assert marks == {name: expected or name == "durable message" for name in marks}
    kept = others["message"]
    assert (kept.body, kept.subject, kept.ttl_s, kept.priority, kept.properties) == (b"x", "s", 5.0, 7, {"a": 1})
    assert others["text"].body == "x"
    assert others["null"].body is None


@pytest.mark.parametrize("durable", [None, True, False])
@pytest.mark.parametrize("how", WAYS)
async def test_the_addresses_of_a_node_decide_themselves(how: str, durable: bool | None) -> None:  # noqa: FBT001
    async with connected() as (node, connection):
        node.queue("a")
        for item in ITEMS.values():
            if "effectively_once" not in how or item is not ITEMS["streamed message"]:
                await send(connection, how, item, {"durable": durable})
        count = node.statistics().queues["a"].ready
        messages = await connection.messages("a").take(count).to_list()
        assert [message.durable for message in messages] == [
            durable is True or item is ITEMS["durable message"] for item in list(ITEMS.values())[:count]
        ]


@pytest.mark.parametrize("marks", [True, False])
async def test_a_dead_letter_is_as_safe_as_what_was_accepted_for_it(marks: bool) -> None:  # noqa: FBT001
    async with connected() as (node, connection):
        node.queue("work")
        dead = node.queue("dead")
        if marks:
            connection._links._dialect = Dialect()
        async with connection.sender("work", durable=False) as sender:
            await sender.send("x")

        def fail(_item: object) -> None:
            msg = "bad"
            raise ValueError(msg)

        node_consumer = connection.stream("work", on_failure=DeadLetters("dead")).take(1).map(fail)
        with pytest.raises(ValueError, match="bad"):
            await node_consumer.to_list()
        await until(lambda: dead.statistics().ready == 1)
        [letter] = await connection.messages("dead").take(1).to_list()
        assert letter.durable is marks


async def test_what_cannot_be_is_refused() -> None:
    async with connected() as (_node, connection):
        with pytest.raises(ConfigError, match=r"publish\(durable='yes'\): durable must be True, False or None"):
            await connection.publish("a", Stream.of(1), durable="yes")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="encoded=True: not allowed beside durable=True"):
            await connection.publish("a", Stream.of(encode_item(1)), durable=True, encoded=True)
        with pytest.raises(ConfigError, match="durable=1"):
            async with connection.sender("a", durable=1):  # type: ignore[arg-type]
                pass
