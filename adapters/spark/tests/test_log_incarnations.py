"""Logs that are made anew: the checkpoint tells which log its offsets are of, and a loss has a name."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from rstreams_spark._logs import logs as logs_module
from rstreams_spark._logs.logs import Tail
from rstreams_spark._logs.offsets_at import SeenOffsets
from rstreams_spark._logs.plan import is_log_offset, made_offset, read_incarnations
from rstreams_spark._logs.ranges import LogRange
from rstreams_spark._logs.tails import RabbitMQStreams
from rstreams_spark.errors import SourceFailed

from adapters.spark.tests.test_log_ranges import Opened, numbered, offsets, opened
from adapters.spark.tests.test_log_stream import (
    Offset,
    Reader,
    batches,
    first_offset,
    next_offset,
    part,
    ranges,
    reader_of,
)
from rstreams import Node

AT = 50
NEW = {"empty": 0, "shorter": 3, "as long": AT, "longer": 80}


def of(number: int, end: int, incarnation: str, first: int = 0) -> Tail:
    return part(number, end, first=first)._replace(incarnation=incarnation)


def begun(*, fails: bool, **options: str) -> tuple[Reader, Offset]:
    """Return a reader of two partitions, and the checkpoint behind their messages."""
    reader, logs = made = reader_of(
        of(0, AT, "one"), of(1, 20, "two"), startingOffsets="earliest", failOnDataLoss=str(fails).lower(), **options
    )
    start = first_offset(reader)
    end = next_offset(reader, start)
    while (following := next_offset(reader, end)) != end:
        end = following
    assert read_incarnations(end) == {"a/0": "one", "a/1": "two"}
    assert logs.partitions[0].end == AT
    return made, end


def again(*partitions: Tail, fails: bool, **options: str) -> Reader:
    """Return the reader of a query that is started again."""
    return reader_of(*partitions, failOnDataLoss=str(fails).lower(), **options)


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("limit", [{}, {"maxMessagesPerTrigger": "7"}], ids=["whole", "limited"])
@pytest.mark.parametrize("fails", [False, True])
def test_the_messages_of_the_new_log_are_not_skipped(
    capsys: pytest.CaptureFixture[str], *, fails: bool, limit: dict[str, str], restarted: bool, new: str
) -> None:
    (reader, logs), end = begun(fails=fails, **limit)
    now = of(0, NEW[new], "three"), of(1, 21, "two")
    if restarted:
        reader, logs = again(*now, fails=fails, **limit)
    logs.partitions = now
    told = f"messages are gone: a/0 was made anew, and the checkpoint is at {AT} of the earlier one"
    if fails:
        with pytest.raises(SourceFailed, match=told):
            next_offset(reader, end)
        return
    read: dict[str, list[int]] = {"a-0": [], "a-1": []}
    for batch in batches(reader, end):
        for address, first, last in batch:
            read[address] += range(first, last)
    assert read == {"a-0": list(range(NEW[new])), "a-1": [20]}
    assert capsys.readouterr().err.count(told) == 1


def test_a_new_log_that_has_lost_its_first_messages_is_read_from_what_is_left() -> None:
    (reader, logs), end = begun(fails=False)
    logs.partitions = of(0, 90, "three", first=60), of(1, 20, "two")
    assert list(batches(reader, end)) == [[("a-0", 60, 90)]]


@pytest.mark.parametrize("fails", [False, True])
def test_a_planned_batch_whose_log_was_made_anew_before_it_was_run(
    capsys: pytest.CaptureFixture[str], *, fails: bool
) -> None:
    """Its offsets are of the earlier log, and the next batch begins the new one."""
    (reader, logs), start = begun(fails=fails)
    logs.partitions = of(0, AT + 5, "one"), of(1, 25, "two")
    end = next_offset(reader, start)
    reader, _ = again(of(0, 80, "three"), of(1, 25, "two"), fails=fails)
    told = f"a/0 was made anew, and with it offsets {AT} to {AT + 4} are gone"
    if fails:
        with pytest.raises(SourceFailed, match=told):
            ranges(reader, start, end)
        return
    assert ranges(reader, start, end) == [("", AT, AT + 5), ("a-1", 20, 25)]
    assert told in capsys.readouterr().err
    assert ranges(reader, end, next_offset(reader, end)) == [("a-0", 0, 80)]


@pytest.mark.parametrize("told", ["", "one"])
def test_a_peer_or_a_checkpoint_without_ids_is_read_as_before(told: str) -> None:
    reader, _ = again(of(0, 80, told), fails=True)
    start: Offset = {"a/0": AT}
    end = next_offset(reader, start)
    assert ranges(reader, start, end) == [("a-0", AT, 80)]
    assert read_incarnations(end) == ({"a/0": told} if told else {})
    reader, _ = again(of(0, 90, ""), fails=True)  # an older node
    assert ranges(reader, end, next_offset(reader, end)) == [("a-0", 80, 90)]


def test_an_offset_of_a_checkpoint_has_ids_of_its_partitions_alone() -> None:
    from rstreams_spark._logs.plan import Split

    offset = made_offset({"a/0": 3}, Split(), {}, {"a/0": "x", "a/1": "y", "b/0": ""})
    assert offset == {"a/0": 3, "incarnations": {"a/0": "x"}}
    assert is_log_offset(offset)
    assert not is_log_offset(offset | {"incarnations": {"a/0": 5}})
    assert not is_log_offset(offset | {"incarnations": "x"})


# an executor, at a node


async def ranged(to: Opened, incarnation: str, *, fails: bool) -> list[int]:
    reader = to.reader(2, 5, failOnDataLoss=str(fails).lower())
    place = reader._part
    reader._part = LogRange(place.log, place.number, place.address, 2, 5, 0, place.peer, incarnation)
    return await offsets(reader)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_task_reads_no_other_log_than_the_driver_has_seen(
    capsys: pytest.CaptureFixture[str], *, fails: bool
) -> None:
    async with Node() as node:
        node.log("log", retention_items=100)
        async with opened(node, *numbered(10)) as to:
            (there,) = node.statistics().logs["log"].partitions
            assert await ranged(to, there.incarnation, fails=fails) == [2, 3, 4]
            assert await ranged(to, "", fails=fails) == [2, 3, 4]
            told = "the log was made anew: offsets 2 to 4 are gone; the log has offsets 0 to 9"
            if fails:
                with pytest.raises(SourceFailed, match=told):
                    await ranged(to, "another", fails=fails)
            else:
                assert await ranged(to, "another", fails=fails) == []
                assert told in capsys.readouterr().err


# RabbitMQ, by its first message


class Streams(RabbitMQStreams):
    """A stream of RabbitMQ with the bodies that the test sets, from an offset on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.first = 0
        self.bodies: list[str] = []
        self.asked = 0
        monkeypatch.setattr(logs_module, "offsets_at", self._offsets_at)
        monkeypatch.setattr(self, "answered", self._answered)

    async def _answered(self, _about: str, ask: Any) -> Any:  # noqa: ANN401 - of any question
        return await ask()

    async def _offsets_at(self, _connection: object, _address: str, start: Any, *_: object) -> SeenOffsets:  # noqa: ANN401 - a place
        self.asked += 1
        at = {"first": 0, "last": len(self.bodies) - 1}.get(
            start, start if isinstance(start, str) else start - self.first
        )
        if not self.bodies:
            return SeenOffsets()
        digest = hashlib.blake2b(self.bodies[at].encode(), digest_size=8).hexdigest()
        return SeenOffsets(self.first + at, self.first + at, 1, 10, digest)

    async def now(self) -> Tail:
        tail = await self.tail(Tail("s", 0, "s", 0, 0))
        assert tail is not None
        return tail


@pytest.mark.parametrize(
    ("first", "bodies", "anew"),
    [
        (0, "abcdef", False),  # more came
        (0, "abc", False),
        (2, "cdef", False),  # retention has passed, and nothing is known
        (0, "xbcdef", True),
        (0, "x", True),
        (0, "", False),  # it is empty: it ends before the position, which is told of
    ],
)
async def test_a_stream_of_rabbitmq_is_known_by_its_first_message(
    monkeypatch: pytest.MonkeyPatch, first: int, bodies: str, *, anew: bool
) -> None:
    streams = Streams(monkeypatch)
    streams.bodies = list("abc")
    known = (await streams.now()).incarnation
    streams.first, streams.bodies = first, list(bodies)
    assert await streams.is_anew(await streams.now(), known) == anew


async def test_a_stream_of_rabbitmq_whose_first_message_was_deleted_is_compared_where_it_is_still_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replica may have messages that another one has deleted; a new stream has other messages there."""
    streams = Streams(monkeypatch)
    streams.first, streams.bodies = 3, list("def")
    known = (await streams.now()).incarnation
    streams.first, streams.bodies = 0, list("abcdef")
    assert not await streams.is_anew(await streams.now(), known)
    streams.bodies = list("uvwxyz")
    assert await streams.is_anew(await streams.now(), known)


async def test_a_stream_that_is_the_same_costs_no_further_question(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(monkeypatch)
    streams.bodies = list("abc")
    known = await streams.now()
    before = streams.asked
    assert not await streams.is_anew(known, known.incarnation)
    assert not await streams.is_anew(known._replace(incarnation=""), known.incarnation)
    assert not await streams.is_anew(known, "of a node")
    assert streams.asked == before
