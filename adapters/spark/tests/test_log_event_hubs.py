"""Event hubs, against a node that plays one."""

from __future__ import annotations

import pytest
import trio
from rstreams_spark._logs.event_hubs import EventHubLogs
from rstreams_spark._logs.logs import Tail
from rstreams_spark._logs.ranges import LogRange, _RangeReader
from rstreams_spark._options import SourceOptions

import rstreams
from rstreams import Message, Node, Stream
from rstreams.message import decode_message

PARTITIONS = {"0": (5, 24), "1": (0, -1)}
GROUP = "hub/ConsumerGroups/billing/Partitions/"


def management(asked: Message) -> Message:
    """Answer as the documentation says that an event hub does."""
    properties = asked.properties
    if properties["name"] != "hub":
        return Message(properties={"status-code": 404})
    assert properties["operation"] == "READ"
    if properties["type"] == "com.microsoft:eventhub":
        return Message({"name": "hub", "partition_ids": list(PARTITIONS)}, properties={"status-code": 200})
    first, last = PARTITIONS[properties["partition"]]
    body = {"begin_sequence_number": first, "last_enqueued_sequence_number": last, "is_partition_empty": last < first}
    return Message(body, properties={"status-code": 200})


class Opened:
    """An open connection, in place of one in a thread of its own."""

    def __init__(self, connection: rstreams.Connection) -> None:
        self.connection = connection


async def test_a_hub_tells_its_partitions_and_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventHubLogs, "management", "management")  # a node takes no $ for addresses of its users
    monkeypatch.setattr(EventHubLogs, "replies", None)  # the node makes an address for them
    events = [Message(b"%d" % n, annotations={"x-opt-sequence-number": n}) for n in range(5, 25)]
    with trio.fail_after(30):
        async with Node() as node:
            node.respond("management", management, decode=decode_message)
            node.serve(f"{GROUP}0", Stream.from_iterable(events))
            url = (await node.listen("127.0.0.1:0")).url
            given = {"url": url, "address": "hub", "dialect": "eventhubs", "consumerGroup": "billing"}
            options = SourceOptions.parse(given)
            async with rstreams.connect(url, dialect="eventhubs") as connection:
                tails = await EventHubLogs(connection, "billing").tails(["hub", "nowhere"])
                assert tails == [Tail("hub", 0, f"{GROUP}0", 5, 25), Tail("hub", 1, f"{GROUP}1", 0, 0)]
                part = LogRange("hub", 0, f"{GROUP}0", 8, 20, 0, options.peer)
                reader = _RangeReader(Opened(connection), options, part, "here", ("body", "offset"))  # type: ignore[arg-type]
                rows = []
                while not reader.ended:
                    for batch in await reader.part():
                        rows += zip(batch.column("body").to_pylist(), batch.column("offset").to_pylist(), strict=True)
                reader.leave()
    assert rows == [(b"%d" % n, n) for n in range(8, 20)]
