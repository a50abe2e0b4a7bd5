"""The intake against a link played by hand, in virtual time: options minMessagesPerTrigger and maxBytesPerTrigger."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from rstreams_spark._columns import COLUMNS

from adapters.spark.tests.played_link import Queue, bodies, collect, linked
from rstreams.message import Message, encode_item

BODY = COLUMNS[:1]
"""One column: a row of it has 4 bytes more than its body."""


async def test_a_batch_with_enough_messages_waits_for_no_others(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(10, enough=3)
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            await trio.sleep(0.05)
            link.send(b"1")
            await trio.sleep(2)
            link.send(b"2", b"3", b"4")

        nursery.start_soon(send)
        got = await collect(intake, 0, 10, 5.0)
    assert got[:3] == [b"1", b"2", b"3"]
    assert trio.current_time() == pytest.approx(2.05)


async def test_fewer_messages_wait_for_the_delay(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(10, enough=3)
    await collect(intake, 0, 10, 0.0)
    begin = trio.current_time()
    link.send(b"1", b"2")
    assert await collect(intake, 0, 10, 5.0) == [b"1", b"2"]
    assert trio.current_time() == pytest.approx(begin + 5)


@pytest.mark.parametrize("most_rows", [10_000, 1])
async def test_a_batch_has_no_more_bytes_than_the_limit_except_for_one_row(
    autojump_clock: trio.testing.MockClock, most_rows: int
) -> None:
    link, intake = linked(100, most_bytes=23, most_rows=most_rows, columns=BODY)
    await collect(intake, 0, 100, 0.0)
    begin = trio.current_time()
    link.send(b"1234", b"12345", b"123", b"x" * 50, b"1")
    taken = 0
    for batch in ([b"1234", b"12345"], [b"123"], [b"x" * 50]):
        got: list[object] = []
        part = await intake.collect(taken, 100, 5.0)
        got += bodies(part)
        while not part.ends:
            part = await intake.collect(taken, 100 - len(got), 5.0, goes_on=True)
            got += bodies(part)
        assert got == batch
        taken += len(batch)
    assert trio.current_time() == begin, "a full batch waits for nothing"
    assert await collect(intake, taken, 100, 5.0) == [b"1"]


async def test_queued_messages_come_in_batches_of_bytes_to_the_last(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(100, most_bytes=23, columns=BODY)
    Queue(link, *[b"1234"] * 5)
    batches = []
    taken = 0
    while rows := bodies(await intake.collect_queued(taken, 100, 1.0)):
        batches.append(len(rows))
        taken += len(rows)
    assert batches == [2, 2, 1]


async def test_the_counters(autojump_clock: trio.testing.MockClock) -> None:
    link, intake = linked(10)
    await collect(intake, 0, 10, 0.0)
    link.next(*(encode_item(Message(b"x", delivery_count=count)) for count in (0, 1, 2)))
    assert len(await collect(intake, 0, 10, 0.0)) == 3
    link.send(b"y")
    counts = intake.counts()
    assert (counts.taken, counts.waiting, counts.credit, counts.unsettled) == (3, 1, 6, 4)
    assert counts.redelivered == 2
