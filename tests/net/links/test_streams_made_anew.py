"""A stream of RabbitMQ that is made anew while its reader is away: the broker tells no id, and its messages tell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeAlias

import pytest

import rstreams
from rstreams import Connection, Message, Reconnect
from rstreams.errors import MADE_ANEW, LinkDetached
from rstreams.net.dialects import DIALECTS, Offset
from rstreams.testing import ProbeSubscriber
from tests.net.over_tcp import until
from tests.net.rabbitmq_stream import PlayedStream, played_stream

AT_ONCE: Final = Reconnect(first_delay_s=0.0, max_delay_s=0.0, jitter=0.0)
OLD: Final = 10
FILTER: Final = DIALECTS["rabbitmq4"].properties({"color": "red"})

Settled: TypeAlias = Literal["at_least_once", "at_most_once", "effectively_once"]
SETTLEMENTS: Final[list[Settled]] = ["at_least_once", "at_most_once", "effectively_once"]


@asynccontextmanager
async def reading(
    demand: int = 1000,
    *,
    start: Offset = "first",
    hold: bool = False,
    **options: Any,  # noqa: ANN401 - of `stream`
) -> AsyncIterator[tuple[PlayedStream, ProbeSubscriber[Any], Connection]]:
    """Have a stream with old messages, and a reader of it."""
    async with played_stream() as stream:
        stream.fill(f"old {number}" for number in range(OLD))
        async with rstreams.connect(stream.url, reconnect=AT_ONCE) as connection:
            probe = ProbeSubscriber[Any](demand, hold=hold)
            connection.stream("events", start=start, **options).subscribe(probe)
            yield stream, probe, connection
            probe.cancel()


def old(count: int = OLD) -> list[str]:
    return [f"old {number}" for number in range(count)]


def refused(probe: ProbeSubscriber[Any], condition: str, *texts: str) -> None:
    assert isinstance(probe.error, LinkDetached)
    assert probe.error.condition == condition
    for text in (*texts, "'/queues/events'"):
        assert text in str(probe.error)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log says about the stream."""
    told = (each.getMessage() for each in caplog.records if each.name == "rstreams.net")
    return [each for each in told if "offset" in each]


# what the stream is, when the reader comes back


@pytest.mark.parametrize("settlement", SETTLEMENTS)
async def test_the_same_stream_goes_on(settlement: Settled, caplog: pytest.LogCaptureFixture) -> None:
    async with reading(settlement=settlement) as (stream, probe, _):
        for loss in range(1, 4):
            await until(lambda: len(probe.items) == OLD)
            await stream.hang_up()
            await until(lambda: len(stream.asked) == loss + 1)  # noqa: B023 - called at once
        stream.messages[OLD] = Message("new")
        await stream.send()
        await until(lambda: len(probe.items) == OLD + 1)
        assert probe.items == [*old(), "new"]
        assert stream.asked == ["first", 9, 9, 9]
        if settlement != "at_most_once":
            await until(lambda: stream.outcomes == {0: "accepted", 1: "accepted"})
        assert not lines(caplog)


@pytest.mark.parametrize("new", [OLD, OLD + 1, 3 * OLD])
@pytest.mark.parametrize("settlement", SETTLEMENTS)
async def test_a_new_one_that_is_as_long_is_named(settlement: Settled, new: int) -> None:
    async with reading(settlement=settlement) as (stream, probe, _):
        await until(lambda: len(probe.items) == OLD)
        stream.fill(f"new {number}" for number in range(new))
        await stream.hang_up()
        await until(lambda: probe.ended)
        refused(probe, MADE_ANEW, "made anew", "offset 9")
        assert probe.items == old(), "no item of the new one came before"


@pytest.mark.parametrize("new", [0, 1, OLD - 1])
@pytest.mark.parametrize("settlement", SETTLEMENTS)
async def test_a_new_one_that_is_shorter_is_named_when_it_is_as_long(
    settlement: Settled, new: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with reading(settlement=settlement) as (stream, probe, connection):
        await until(lambda: len(probe.items) == OLD)
        assert "offset" not in str(connection.explain())
        stream.fill(f"new {number}" for number in range(new))
        await stream.hang_up()
        await until(lambda: "offset 9" in str(connection.explain()))
        assert "has not come again" in str(connection.explain())
        await until(lambda: lines(caplog))
        assert not probe.ended
        stream.fill(f"new {number}" for number in range(OLD))
        await stream.send()
        await until(lambda: probe.ended)
        refused(probe, MADE_ANEW, "made anew", "offset 9")
        assert probe.items == old()
        (line,) = lines(caplog)
        assert "offset 9" in line
        assert "has not come again" in line
        assert "offset" not in str(connection.explain())


@pytest.mark.parametrize("first", [OLD, OLD + 1, 5 * OLD])
@pytest.mark.parametrize("settlement", SETTLEMENTS)
async def test_retention_that_took_the_last_message_is_named(settlement: Settled, first: int) -> None:
    """It may have taken later ones, too; and the stream may be another one."""
    async with reading(settlement=settlement) as (stream, probe, _):
        await until(lambda: len(probe.items) == OLD)
        stream.fill(["later"], first)
        await stream.hang_up()
        await until(lambda: probe.ended)
        refused(probe, "amqp:not-found", "offset 9", f"offset {first}", "made anew")
        assert probe.items == old()


async def test_a_message_at_an_earlier_offset_than_asked_for_is_of_another_stream() -> None:
    async with reading() as (stream, probe, _):
        await until(lambda: len(probe.items) == OLD)
        stream.begins_at = 3
        await stream.hang_up()
        await until(lambda: probe.ended)
        refused(probe, MADE_ANEW, "offset 9", "offset 3")
        assert probe.items == old()


# where the reader was


@pytest.mark.parametrize(("start", "first"), [("first", 0), (7, 7), ("next", OLD)])
async def test_a_reader_that_had_nothing_begins_again(start: Offset, first: int) -> None:
    async with reading(0, start=start) as (stream, probe, _):
        await until(lambda: stream.asked == [start])
        stream.fill(f"new {number}" for number in range(2 * OLD))
        await stream.hang_up()
        await until(lambda: stream.asked == [start, start])
        probe.request(1)
        if start == "next":
            first = 2 * OLD
            stream.messages[first] = Message(f"new {first}")
            await stream.send()
        await until(lambda: probe.items == [f"new {first}"])


@pytest.mark.parametrize("settlement", SETTLEMENTS)
async def test_what_came_and_was_not_handed_over_has_the_place_that_counts(settlement: Settled) -> None:
    """What came settled is handed over later; the rest comes again."""
    async with reading(3, settlement=settlement) as (stream, probe, _):
        await until(lambda: len(probe.items) == 3)
        await stream.hang_up()
        await until(lambda: stream.asked == ["first", 2])
        probe.request(100)
        await until(lambda: len(probe.items) == OLD)
        assert probe.items == old()


@pytest.mark.parametrize("answered", [True, False])
async def test_a_link_that_is_lost_before_the_message_came_again(answered: bool) -> None:  # noqa: FBT001
    async with reading() as (stream, probe, _):
        await until(lambda: len(probe.items) == OLD)
        stream.most = 0
        await stream.hang_up()
        if answered:
            await until(lambda: len(stream.asked) == 2)
        await stream.has_client()
        stream.most = 100
        stream.messages[OLD] = Message("new")
        await stream.hang_up()
        await until(lambda: len(probe.items) == OLD + 1)
        assert probe.items == [*old(), "new"]
        assert set(stream.asked[1:]) == {9}


@pytest.mark.parametrize("size", [0, 1, 100_000, 1_000_000])
async def test_messages_of_any_size_are_compared(size: int) -> None:
    async with reading() as (stream, probe, _):
        stream.messages[OLD] = Message(bytes(size))
        await stream.send()
        await until(lambda: len(probe.items) == OLD + 1)
        await stream.hang_up()
        stream.messages[OLD + 1] = Message("new")
        await until(lambda: len(probe.items) == OLD + 2)
        stream.messages[OLD + 1] = Message(bytes(size) + b"x")
        await stream.hang_up()
        await until(lambda: probe.ended)
        refused(probe, MADE_ANEW)
        assert len(probe.items) == OLD + 2


@pytest.mark.parametrize(
    "other",
    [
        Message("old 9", id="another"),
        Message("old 9", subject="another"),
        Message("old 9", properties={"a": 1}),
        Message(b"old 9"),
    ],
    ids=["id", "subject", "properties", "body"],
)
async def test_all_that_its_sender_wrote_is_compared(other: Message) -> None:
    async with reading() as (stream, probe, _):
        await until(lambda: len(probe.items) == OLD)
        stream.messages[OLD - 1] = other
        await stream.hang_up()
        await until(lambda: probe.ended)
        refused(probe, MADE_ANEW)


# how the reader reads


@pytest.mark.parametrize("same", [True, False])
async def test_a_filter_in_force(same: bool) -> None:  # noqa: FBT001
    async with reading(filters=FILTER) as (stream, probe, _):
        await until(lambda: len(probe.items) == OLD)
        if same:
            stream.messages[OLD + 5] = Message("new")
        else:
            stream.fill(f"new {number}" for number in range(OLD))
        await stream.hang_up()
        if same:
            await until(lambda: len(probe.items) == OLD + 1)
            assert probe.items == [*old(), "new"]
        else:
            await until(lambda: probe.ended)
            refused(probe, MADE_ANEW)


async def test_behind_a_filter_a_message_that_is_gone_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing may have matched since then: the reader goes on, as it could not go on otherwise."""
    async with reading(filters=FILTER) as (stream, probe, _):
        await until(lambda: len(probe.items) == OLD)
        stream.fill(["new"], 5 * OLD)
        await stream.hang_up()
        await until(lambda: len(probe.items) == OLD + 1)
        assert probe.items == [*old(), "new"]
        (line,) = lines(caplog)
        assert "offset 9" in line
        assert "offset 50" in line


@pytest.mark.parametrize(
    "options", [{"window": 1}, {"window": 2}, {"window_bytes": 1}, {"window_bytes": 1000}], ids=str
)
@pytest.mark.parametrize("settlement", SETTLEMENTS)
async def test_the_message_that_came_again_takes_no_room(settlement: Settled, options: dict[str, Any]) -> None:
    if settlement == "effectively_once":
        options = {**options, "dedup_window": 300}
    async with reading(settlement=settlement, **options) as (stream, probe, _):
        for count in range(3):
            await until(lambda: len(probe.items) == OLD + count)  # noqa: B023 - called at once
            stream.messages[OLD + count] = Message(f"old {OLD + count}")
            await stream.hang_up()
        await until(lambda: len(probe.items) == OLD + 3)
        assert probe.items == old(OLD + 3)


async def test_take_draws_no_message_too_many() -> None:
    async with reading(OLD) as (stream, probe, _):
        await until(lambda: len(probe.items) == OLD)
        await stream.hang_up()
        await until(lambda: len(stream.asked) == 2)
        probe.request(2)
        stream.fill(old(2 * OLD))
        await stream.send()
        await until(lambda: len(probe.items) == OLD + 2)
        assert probe.items == old(OLD + 2)
        await until(lambda: stream.outcomes == dict.fromkeys(range(3), "accepted"))


async def test_items_in_hand_are_settled_after_the_loss(caplog: pytest.LogCaptureFixture) -> None:
    """Until then there is no room, and the link gets no credit."""
    async with reading(hold=True, window=OLD) as (stream, probe, _):
        await until(lambda: len(probe.items) == OLD)
        await stream.hang_up()
        await until(lambda: len(stream.asked) == 2)
        stream.messages[OLD] = Message("new")
        for hold in probe.holds:
            hold.done()
        await until(lambda: len(probe.items) == OLD + 1)
        probe.holds[-1].done()
        await until(lambda: stream.outcomes == {0: "accepted", 1: "accepted"})
        assert not lines(caplog)


async def test_deliveries_by_hand_are_compared_alike() -> None:
    async with reading(settlement="manual") as (stream, probe, _):
        await until(lambda: len(probe.items) == OLD)
        stream.messages[OLD] = Message("new")
        await stream.hang_up()
        await until(lambda: len(probe.items) == OLD + 1)
        assert [each.item for each in probe.items] == [*old(), "new"]
        stream.messages[OLD] = Message("another")
        await stream.hang_up()
        await until(lambda: probe.ended)
        refused(probe, MADE_ANEW)
