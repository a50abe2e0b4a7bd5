"""The end of a stream through an address that keeps messages: sent as a marker, turned back into a signal."""

from __future__ import annotations

import pytest

from rstreams import Message, Stream
from rstreams.errors import PublisherFailed
from rstreams.net.end_of_stream import until_end_marker, with_end_marker
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.over_tcp import connected, until


async def test_a_stream_completes_at_the_other_end_of_a_queue() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", with_end_marker(Stream.range(5)))
        came = await until_end_marker(connection.messages("work")).map(lambda message: message.body).to_list()
        assert came == [0, 1, 2, 3, 4]
        await until(lambda: queue.statistics().accepted == 6)


@pytest.mark.parametrize(("expose", "text"), [(False, "the publisher failed"), (True, "ValueError: spilled")])
async def test_a_stream_fails_at_both_ends_of_a_queue(expose: bool, text: str) -> None:  # noqa: FBT001
    async with connected() as (node, connection):
        queue = node.queue("work")
        source = Stream.range(2).concat(Stream.fail(ValueError("spilled")))
        with pytest.raises(ValueError, match="spilled"):
            await connection.publish("work", with_end_marker(source, expose_errors=expose))
        probe = ProbeSubscriber[Message](10)
        until_end_marker(connection.messages("work")).subscribe(probe)
        await until(lambda: probe.error)
        assert [message.body for message in probe.items] == [0, 1]
        assert isinstance(probe.error, PublisherFailed)
        assert (probe.error.condition, probe.error.description) == ("amqp:internal-error", text)
        await until(lambda: queue.statistics().accepted == 3)


def test_the_marker_waits_for_demand() -> None:
    probe = ProbeSubscriber[object](2)
    with_end_marker(Stream.range(2)).subscribe(probe)
    assert probe.items == [0, 1]
    assert not probe.ended
    probe.request(1)
    assert probe.completed
    assert len(probe.items) == 3


def test_nothing_follows_the_marker() -> None:
    source, probe = ManualPublisher[Message](), ProbeSubscriber[Message](5)
    until_end_marker(source).subscribe(probe)
    source.next(Message(1), Message(properties={"rstreams:end": "completed"}), Message(2))
    assert [message.body for message in probe.items] == [1]
    assert probe.signals == ["on_subscribe", "on_next", "on_complete"]
    assert source.cancelled
    assert source.outcomes[:2] == ["done", "done"]


def test_a_marker_that_says_nothing_more_is_a_failure() -> None:
    source, probe = ManualPublisher[Message](), ProbeSubscriber[Message](5)
    until_end_marker(source).subscribe(probe)
    source.next(Message(properties={"rstreams:end": 7, "rstreams:condition": 1, "rstreams:description": b""}))
    assert isinstance(probe.error, PublisherFailed)
    assert (probe.error.condition, probe.error.description) == ("amqp:internal-error", "")
