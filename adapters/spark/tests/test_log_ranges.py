"""Ranges of a log, as an executor reads them, against a node in the same process."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from rstreams_spark._logs import link as links
from rstreams_spark._logs.ranges import LogRange, _kept, _RangeReader
from rstreams_spark._logs.rows import link_columns
from rstreams_spark._options import SourceOptions
from rstreams_spark.errors import SourceFailed, UnparsableMessage

import rstreams
from rstreams import Message, Node, Reconnect, Stream
from rstreams._core.claims import NOTHING
from rstreams._core.run import Run
from rstreams.message import encode_item
from rstreams.net.dialects import RStreamsNode
from rstreams.testing.probes import ManualPublisher


class Opened:
    """An open connection, in place of one in a thread of its own."""

    def __init__(self, connection: rstreams.Connection, url: str) -> None:
        self.connection = connection
        self.url = url

    def reader(self, first: int, end: int, address: str = "log", **more: str) -> _RangeReader:
        options = SourceOptions.parse({"url": self.url, "address": "log"} | more)
        part = LogRange("log", 0, address, first, end, 0, options.peer)
        return _RangeReader(self, options, part, "here", ("body", "offset"))  # type: ignore[arg-type]


async def offsets(reader: _RangeReader) -> list[int]:
    rows: list[int] = []
    with trio.fail_after(30):
        while not reader.ended:
            for batch in await reader.part():
                rows += batch.column("offset").to_pylist()
    return rows


@asynccontextmanager
async def opened(node: Node, *messages: Message) -> AsyncIterator[Opened]:
    """A connection to a node, whose log has these messages."""
    url = (await node.listen("127.0.0.1:0")).url
    async with rstreams.connect(url, reconnect=Reconnect()) as connection:
        if messages:
            await connection.publish("log", Stream.from_iterable(messages))
        yield Opened(connection, url)


def numbered(count: int) -> list[Message]:
    return [Message(b"%d" % n, subject=f"k{n % 31}" if n % 3 else f"u{n}") for n in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("compact", [False, True])
async def test_any_range_has_the_messages_that_are_there(monkeypatch: pytest.MonkeyPatch, *, compact: bool) -> None:
    monkeypatch.setattr(links, "QUIET_S", 0.001)
    chance = random.Random(1)  # noqa: S311 - a test
    async with Node() as node:
        retention = None if compact else 10_000
        node.log("log", key=lambda message: message.subject, compact=compact, retention_items=retention)
        async with opened(node, *numbered(1_000)) as to:
            (part,) = node.statistics().logs["log"].partitions
            stream = to.connection.messages("log", start="first").take(part.messages)
            there = [message.annotations["x-stream-offset"] for message in await stream.to_list()]
            assert (len(there) < 1_000) == compact
            for _ in range(50):
                first = chance.randrange(1_000)
                end = chance.randrange(first, 1_001)
                reader = to.reader(first, end)
                assert await offsets(reader) == [offset for offset in there if first <= offset < end]
                reader.leave()


@pytest.mark.slow
async def test_no_message_is_missing_though_each_request_is_drained_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    request = links.LogLink._request

    def request_and_drain(link: links.LogLink) -> None:
        request(link)
        link._drain()

    monkeypatch.setattr(links.LogLink, "_request", request_and_drain)
    chance = random.Random(2)  # noqa: S311 - a test
    async with Node() as node:
        node.log("log", retention_items=100_000)
        async with opened(node) as to:
            at = end = 0
            for _ in range(40):
                more = chance.choice((1, 30, 300))
                await to.connection.publish("log", Stream.from_iterable(numbered(more)))
                end += more
                while at < end:
                    first, at = at, min(end, at + chance.choice((1, 64, 150)))
                    reader = to.reader(first, at)
                    assert await offsets(reader) == list(range(first, at))
                    reader.leave()


class Subscribed:
    """The subscription of a link that the test plays.

    Attributes:
        losses: How often the link was lost.
        requested: How many messages were requested.
        drains: The drains that have not been answered.
    """

    def __init__(self) -> None:
        self.losses = self.requested = 0
        self.drains: list[Callable[[], None]] = []

    def request(self, n: int) -> None:
        self.requested += n

    def drain(self, on_drained: Callable[[], None]) -> None:
        self.drains.append(on_drained)

    def cancel(self) -> None:
        raise AssertionError


async def test_the_answer_to_a_drain_of_an_earlier_read_tells_nothing_of_this_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    link = links.LogLink(
        "log", 0, links.LinkOptions(link_columns(("body",)), "x-stream-offset", 1_000, skips_unparsable=False)
    )
    subscription = Subscribed()
    link.on_subscribe(subscription)

    def sent(*offsets: int) -> None:
        messages = [encode_item(Message(b"", annotations={"x-stream-offset": offset})) for offset in offsets]
        link.on_run(Run(NOTHING, 0, range(len(messages)), iter(messages)))

    async def read(end: int, found: list[int]) -> None:
        part = await link.read(end, drains=True)
        assert not part.exhausted
        found += (offset for batch in part.batches for offset in batch.column("offset").to_pylist())

    rows: list[int] = []
    for first, end in ((0, 2), (2, 5)):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, end, rows)
            await trio.sleep(2.5 * links.QUIET_S)
            assert subscription.requested == end
            assert len(subscription.drains) == 1, "that of the first read has not been answered"
            if first:
                subscription.drains.pop()()
                await trio.sleep(2.5 * links.QUIET_S)
                assert len(subscription.drains) == 1
            sent(*range(first, end))
    assert rows == list(range(5))


async def test_the_next_range_goes_on_over_the_same_link() -> None:
    async with Node() as node:
        node.log("log", retention_items=10_000)
        async with opened(node, *numbered(900)) as to:
            for first in (0, 300, 600):
                reader = to.reader(first, first + 300)
                assert await offsets(reader) == list(range(first, first + 300))
                reader.leave()
                assert len(_kept[to]) == 1  # type: ignore[index]
            assert node.statistics().logs["log"].readers == 1
            (link,) = _kept[to]  # type: ignore[index]
            assert link.is_idle


class Numbered(ManualPublisher[Message]):
    """Messages with offsets that are there when they are requested.

    Attributes:
        most: The most messages that were requested and not sent.
        sent: How many messages were sent.
    """

    def __init__(self, there: Sequence[int]) -> None:
        super().__init__()
        self._left = list(there)
        self.most = self.sent = 0

    def request(self, n: int) -> None:
        super().request(n)
        self.most = max(self.most, self.outstanding)
        while self._left and self.outstanding:
            self.sent += 1
            self.next(Message(b"", annotations={"x-stream-offset": self._left.pop(0)}))


async def test_credit_is_never_more_than_what_is_left_of_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RStreamsNode, "offset", lambda _self, _offset: {})  # a peer that has none
    publisher = Numbered(range(100, 2_000))
    async with Node() as node:
        node.serve("numbered", publisher)
        async with opened(node) as to:
            reader = to.reader(105, 800, "numbered")
            assert await offsets(reader) == list(range(105, 800)), "rows before the range are dropped"
            reader.leave()
    assert publisher.most <= 695


async def test_messages_of_a_delivery_behind_the_range_wait_for_the_next_one() -> None:
    async with Node() as node:
        node.log("log", retention_items=10_000)
        async with opened(node, *numbered(900)) as to:
            reader = to.reader(0, 100)
            assert await offsets(reader) == list(range(100))
            link = reader._link
            assert link is not None
            waiting = link._subscription.counts().buffered  # type: ignore[union-attr]
            assert 0 < waiting < links.PACK_ITEMS, "the second delivery has more than the range"
            reader.leave()
            for first, end in ((100, 101), (101, 900)):
                reader = to.reader(first, end)
                assert await offsets(reader) == list(range(first, end))
                assert reader._link is link
                reader.leave()


async def test_a_range_goes_on_after_a_loss_of_the_connection() -> None:
    async with Node() as node:
        node.log("log", retention_items=100_000)
        async with opened(node, *numbered(5_000)) as to:
            reader = to.reader(0, 5_000)
            rows = [offset for batch in await reader.part() for offset in batch.column("offset").to_pylist()]
            assert 0 < len(rows) < 5_000
            lost = reader._link
            assert lost is not None
            lost.on_complete()
            rows += await offsets(reader)
            assert rows == list(range(5_000))
            assert reader._link is not lost


@pytest.mark.parametrize("fails", [True, False])
async def test_messages_that_retention_has_deleted(capsys: pytest.CaptureFixture[str], *, fails: bool) -> None:
    async with Node() as node:
        node.log("log", retention_items=100)
        async with opened(node) as to:
            for first in range(0, 1_000, 50):
                await to.connection.publish("log", Stream.from_iterable(numbered(1_000)[first : first + 50]))
            first = node.statistics().logs["log"].partitions[0].first
            assert first > 0
            reader = to.reader(0, 1_000, failOnDataLoss=str(fails).lower())
            text = f"offsets 0 to {first - 1} are gone; the log has offsets {first} to 999"
            if fails:
                with pytest.raises(SourceFailed, match=text):
                    await offsets(reader)
            else:
                assert await offsets(reader) == list(range(first, 1_000))
                assert text in capsys.readouterr().err


async def test_a_message_that_cannot_become_a_row() -> None:
    async with Node() as node:
        node.log("log", retention_items=1_000)
        async with opened(node, *numbered(10), Message(b"x" * 5_000), *numbered(10)) as to:
            given: dict[str, Any] = {"maxMessageSize": "1000"}
            with pytest.raises(UnparsableMessage, match="a message behind offset 9 of 'log' cannot be made"):
                await offsets(to.reader(0, 21, **given))
            reader = to.reader(0, 21, onUnparsable="reject", **given)
            assert await offsets(reader) == [*range(10), *range(11, 21)]
            assert reader._link is not None
            assert reader._link.skipped == 1
