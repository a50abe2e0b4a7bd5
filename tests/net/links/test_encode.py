"""`encode`: what is sent instead of an item, and what becomes of an item that cannot be encoded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rstreams import Message
from rstreams.errors import ConfigError, LinkDetached, RequestFailed
from rstreams.message import ByteStream, decode_body, encode_item
from rstreams.net.connection import SettlementName
from rstreams.testing import ManualPublisher
from tests.loops import Loop, over_both_loops


def to_json(item: object) -> bytes:
    return json.dumps(item).encode()


def from_json(encoded: bytes) -> Any:  # noqa: ANN401 - whatever it was
    return json.loads(decode_body(encoded))


@pytest.mark.parametrize("settlement", ["at_most_once", "at_least_once", "effectively_once"])
@over_both_loops
async def test_what_is_published_is_what_encode_returns(on: Loop, settlement: SettlementName) -> None:
    async with on.connected() as (node, connection):
        node.queue("work")
        items = on.Stream.of({"a": (1, 2)}, [3])
        result = await connection.publish("work", items, encode=to_json, settlement=settlement)
        assert result.accepted == 2
        assert await connection.stream("work", decode=from_json).take(2).to_list() == [{"a": [1, 2]}, [3]]


@pytest.mark.parametrize("settlement", ["at_most_once", "at_least_once", "effectively_once"])
@over_both_loops
async def test_encoded_messages_are_sent_as_they_are(on: Loop, settlement: SettlementName) -> None:
    messages = [Message(b"a", id="one"), Message("b", properties={"n": 2})]
    async with on.connected() as (node, connection):
        node.queue("work")
        items = on.Stream.of(*map(encode_item, messages))
        result = await connection.publish("work", items, encoded=True, settlement=settlement)
        assert result.accepted == 2
        assert await connection.messages("work").take(2).to_list() == messages


@over_both_loops
async def test_what_is_not_an_encoded_message_is_refused(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.queue("work")
        with pytest.raises(
            ConfigError, match=r"^publish\('work'\): item 1, .*: an encoded message must be bytes, not str$"
        ):
            await connection.publish("work", on.Stream.of(encode_item(1), "2"), encoded=True)
        with pytest.raises(ConfigError, match=r"^publish: encoded=True: not allowed beside encode, because the items"):
            await connection.publish("work", on.Stream.of(1), encoded=True, encode=to_json)


@over_both_loops
async def test_a_message_may_be_what_is_sent_also_one_whose_body_is_sent_while_it_comes(on: Loop) -> None:
    def message(item: int) -> Message:
        return Message(ByteStream([b"a", b"b" * item]), subject=str(item))

    async with on.connected() as (node, connection):
        node.queue("work")
        await connection.publish("work", on.Stream.of(2), encode=message)
        async with connection.sender("work", encode=message) as sender:
            await sender.send(3)
        came = await connection.messages("work").take(2).to_list()
        assert [(each.subject, each.body) for each in came] == [("2", b"abb"), ("3", b"abbb")]


@over_both_loops
async def test_an_item_that_cannot_be_encoded_is_named_and_fails(on: Loop) -> None:
    source = ManualPublisher[object](lambda n: source.next(*[1, "two", {3}][:n]))
    async with on.connected() as (node, connection):
        queue = node.queue("work", capacity=1024)
        with pytest.raises(
            ConfigError,
            match=r"^publish\('work'\): item 2, counted from 0 \(2 before it were accepted\): encode raised TypeError",
        ) as raised:
            await connection.publish("work", source, encode=to_json)
        assert isinstance(raised.value.__cause__.__cause__, TypeError)  # type: ignore[union-attr]
        assert queue.statistics().enqueued == 2
        assert source.outcomes[2] == "failed"


@over_both_loops
async def test_a_sender_names_the_address_and_goes_on(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.queue("work")
        async with connection.sender("work", encode=to_json) as sender:
            with pytest.raises(ConfigError, match=r"^a message to 'work': encode raised TypeError: "):
                await sender.send({3})
            await sender.send([4])
        assert await connection.stream("work", decode=from_json).take(1).to_list() == [[4]]


@over_both_loops
async def test_a_served_stream_is_encoded_for_each_subscriber(on: Loop, caplog: pytest.LogCaptureFixture) -> None:
    async with on.connected() as (node, connection):
        node.serve("good", on.Stream.of((1, 2)), encode=to_json)
        node.serve("bad", on.Stream.of(1, {2}), encode=to_json)
        for _ in range(2):
            assert await connection.stream("good", decode=from_json).to_list() == [[1, 2]]
            got: list[object] = []
            with pytest.raises(LinkDetached, match="internal-error"):
                await connection.stream("bad", decode=from_json).for_each(got.append)
            assert got == [1]
        assert node.statistics().served["bad"].failed == 2
    said = [each.getMessage() for each in caplog.records if "subscription to 'bad'" in each.getMessage()]
    assert said[0].startswith("item 1 of a subscription to 'bad', counted from 0: encode raised TypeError: ")


@over_both_loops
async def test_requests_and_replies_are_encoded(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.respond("add", sum, decode=from_json, encode=lambda total: to_json({"total": total}))
        async with connection.requester("add", encode=to_json, decode=from_json) as requester:
            assert await requester.request((1, 2)) == {"total": 3}
            assert await requester.stream((1, 2)).to_list() == [{"total": 3}]
            with pytest.raises(ConfigError, match=r"^a request to 'add': encode raised TypeError: "):
                await requester.request({1})
        node.respond("set", set, decode=from_json, encode=to_json, expose_errors=True)
        async with connection.requester("set", encode=to_json, decode=from_json) as requester:
            with pytest.raises(RequestFailed, match="not JSON serializable"):
                await requester.request((1, 2))


@over_both_loops
async def test_several_replies_are_encoded(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.respond("count", on.Stream.range, encode=to_json)
        async with connection.requester("count", decode=from_json) as requester:
            assert await requester.stream(3).to_list() == [0, 1, 2]


@pytest.mark.parametrize("wrong", ["utf-8", 3])
@over_both_loops
async def test_encode_must_be_a_plain_function(on: Loop, wrong: Any) -> None:  # noqa: ANN401 - a wrong one
    async def later(item: object) -> object:
        return item

    async with on.connected() as (node, connection):
        for bad, said in ((wrong, "encode must be a function"), (later, "encode must not be an async function")):
            with pytest.raises(TypeError, match=rf"^publish\(encode\): {said}"):
                await connection.publish("work", on.Stream.of(1), encode=bad)
            with pytest.raises(TypeError, match=rf"^sender\(encode\): {said}"):
                async with connection.sender("work", encode=bad):
                    pass
            with pytest.raises(TypeError, match=rf"^requester\(encode\): {said}"):
                connection.requester("work", encode=bad)
            with pytest.raises(TypeError, match=rf"^respond\(encode\): {said}"):
                await connection.respond("work", print, encode=bad)
            with pytest.raises(TypeError, match=rf"^respond\(encode\): {said}"):
                node.respond("work", print, encode=bad)
            with pytest.raises(TypeError, match=rf"^serve\(encode\): {said}"):
                node.serve("work", on.Stream.of(1), encode=bad)
