"""CloudEvents come back as they were sent, in both modes, and as the SDK of CloudEvents reads and writes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.base import BaseCloudEvent
from cloudevents.core.bindings.amqp import AMQPMessage, from_amqp, to_binary_event
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

import rstreams
from rstreams import Message, Node, Stream
from rstreams.cloudevents import decode_event, encode_event
from rstreams.errors import ConfigError
from rstreams.message import encode_item

AT = datetime(2026, 11, 28, 19, 0, 0, 250_000, tzinfo=UTC)

EVENTS = {
    "a map": CloudEvent({"type": "order.made", "source": "/shop", "id": "1", "time": AT}, {"tea": 2}),
    "text": CloudEvent({"type": "t", "source": "/s", "id": "2", "time": AT, "datacontenttype": "text/plain"}, "\u00fc"),
    "bytes": CloudEvent(
        {"type": "t", "source": "/s", "id": "3", "time": AT, "datacontenttype": "application/octet-stream"}, b"\0\xff"
    ),
    "no data": CloudEvent({"type": "t", "source": "/s", "id": "4", "time": AT}, None),
    "extensions": CloudEvent(
        {"type": "t", "source": "/s", "id": "5", "time": AT, "subject": "x", "retry": 3, "last": True}, {}
    ),
}


def parts(event: BaseCloudEvent) -> tuple[dict[str, Any], Any]:
    attributes = dict(event.get_attributes())
    if attributes.get("datacontenttype") == "application/json":
        del attributes["datacontenttype"]
    return attributes, event.get_data()


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("name", EVENTS)
def test_an_event_comes_back(name: str, structured: bool) -> None:  # noqa: FBT001 - a column of the table
    event = EVENTS[name]
    message = encode_event(event, structured=structured)
    attributes, data = parts(decode_event(encode_item(message)))
    assert attributes == parts(event)[0]
    assert data == event.get_data() or (not data and not event.get_data())
    assert parts(decode_event(message)) == (attributes, data)


def test_the_attributes_have_types_of_amqp() -> None:
    message = encode_event(EVENTS["a map"])
    assert message.properties["cloudEvents_time"] == AT
    assert message.properties["cloudEvents_type"] == "order.made"
    assert message.body == b'{"tea": 2}'
    structured = encode_event(EVENTS["a map"], structured=True)
    assert structured.content_type == "application/cloudevents+json"
    assert not structured.properties


def test_what_the_sdk_writes_is_read_and_the_other_way_round() -> None:
    theirs = to_binary_event(EVENTS["a map"])
    message = Message(theirs.application_data, properties=theirs.application_properties)
    assert decode_event(message).get_time() == AT
    ours = encode_event(EVENTS["extensions"])
    read = from_amqp(AMQPMessage({}, dict(ours.properties), bytes(ours.body)), JSONFormat())
    assert read.get_extension("retry") == 3


def test_both_prefixes_are_read() -> None:
    message = encode_event(EVENTS["a map"])
    renamed = {name.replace("cloudEvents_", "cloudEvents:"): each for name, each in message.properties.items()}
    assert decode_event(replace(message, properties=renamed)).get_id() == "1"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (Message(b"{}"), "the message has no CloudEvent: its content type is ''"),
        (Message(b"{}", content_type="application/json"), "its content type is 'application/json'"),
        (Message([1], properties={"cloudEvents_type": "t"}), r"the body of a CloudEvent must be bytes, not \[1\]"),
        (Message(b"{}", properties={"cloudEvents_type": "t"}), "a CloudEvent that is not whole"),
        (Message(b"no json", content_type="application/cloudevents+json"), "a CloudEvent that is not whole"),
        (Message(b"[]", content_type="application/cloudevents+json"), "a CloudEvent that is not whole"),
        (Message(b"{}", properties={"cloudEvents_type": 1}), "a CloudEvent that is not whole"),
    ],
)
def test_a_message_without_a_whole_event_says_so(message: Message, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        decode_event(message)


def test_what_cannot_be_encoded_says_so() -> None:
    with pytest.raises(ConfigError, match="must be an event of the SDK"):
        encode_event({"type": "t"})  # type: ignore[arg-type]
    for data, said in (({1, 2}, "must be a dict, str, bytes or None, not {1, 2}"), ({"a": {1}}, "cannot be encoded: ")):
        event = CloudEvent({"type": "t", "source": "/s", "id": "1"}, data)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=f"the data of the event '1' {said}"):
            encode_event(event)


async def test_events_go_through_a_queue() -> None:
    async with Node() as node:
        node.queue("orders")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("orders", Stream.of(*EVENTS.values()), encode=encode_event)
            received = await connection.stream("orders", decode=decode_event).take(len(EVENTS)).to_list()
    assert [each.get_id() for each in received] == ["1", "2", "3", "4", "5"]
