"""The driver's calls for a stream of logs, without Spark: the limits of a batch, and partitions that come later."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from rstreams_spark._logs import stream
from rstreams_spark._logs.logs import Logs, Tail
from rstreams_spark._logs.stream import LogStreamReader
from rstreams_spark._logs.survey import Survey
from rstreams_spark._options import SourceOptions
from trio.testing import MockClock

from adapters.spark.tests.test_log_spark import log_node
from rstreams.errors import ConfigError, RStreamsError
from tests.log_lines import tell_counts

V = TypeVar("V")

Offset = dict[str, Any]
Reader = tuple[LogStreamReader, "PlayedLogs"]
EARLIEST: Offset = {"a/0": 0, "a/1": 0}


class PlayedLogs(Logs):
    """Logs whose partitions are set by the test.

    Attributes:
        partitions: The partitions of the logs that are there.
        lags: How many messages less a replica knows, at the next questions.
    """

    def __init__(self, *partitions: Tail) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        self.partitions = partitions
        self.lags: list[int] = []

    async def kind_of(self, address: str) -> str | None:
        return "log" if any(tail.log == address for tail in self.partitions) else None

    async def matching(self, pattern: str) -> list[str]:
        return sorted({tail.log for tail in self.partitions if re.fullmatch(pattern, tail.log)})

    async def tails(self, names: Sequence[str]) -> list[Tail]:
        lag = self.lags.pop(0) if self.lags else 0
        return [tail._replace(end=tail.end - lag) for tail in self.partitions if tail.log in names]


class PlayedSurvey(Survey):
    """Asks played logs."""

    def __init__(self, options: SourceOptions, logs: PlayedLogs) -> None:
        super().__init__(options)
        self._played = self._logs = logs

    def _connected(self) -> Logs:
        return self._played

    def _run(self, ask: Callable[[Logs], Awaitable[V]]) -> V:
        return trio.run(ask, self._played, clock=MockClock(autojump_threshold=0))


def part(number: int, end: int, *, first: int = 0, mean_bytes: int = 0, log: str = "a") -> Tail:
    return Tail(log, number, f"{log}-{number}", first, end, mean_bytes)


def reader_of(*partitions: Tail, **options: str) -> Reader:
    address = {} if options.keys() & {"addressPattern", "addresses"} else {"address": "a"}
    given = SourceOptions.parse({"url": "amqp://127.0.0.1", **address, **options})
    reader, logs = LogStreamReader(given), PlayedLogs(*partitions)
    reader._survey = PlayedSurvey(given, logs)
    return reader, logs


def next_offset(reader: LogStreamReader, start: Offset) -> Offset:
    """Return the end of the next batch, as Spark has it in its checkpoint."""
    return stored(reader.latestOffset(start, reader.getDefaultReadLimit()))


def first_offset(reader: LogStreamReader) -> Offset:
    """Return the start of the first batch, as Spark hands it over."""
    return stored(reader.initialOffset())


def stored(offset: Offset) -> Offset:
    kept: Offset = json.loads(json.dumps(offset, sort_keys=True))
    return kept


def ranges(reader: LogStreamReader, start: Offset, end: Offset) -> list[tuple[str, int, int]]:
    parts: Any = reader.partitions(start, end)
    return [(part.address, part.first, part.end) for part in parts]


def batches(reader: LogStreamReader, start: Offset) -> Iterator[list[tuple[str, int, int]]]:
    """Yield the ranges of batches until there are no new messages."""
    while (end := next_offset(reader, start)) != start:
        yield ranges(reader, start, end)
        start = end


# maxBytesPerTrigger


@pytest.mark.parametrize(
    ("ends", "sizes", "most", "shares"),
    [
        ((900, 100), (1_000, 1_000), "100000", (90, 10)),
        ((100, 100), (9_000, 1_000), "100000", (10, 10)),
        ((1_000_000, 1), (1_000, 1_000), "100000", (99, 1)),
        ((30, 20), (1_000, 1_000), "50000", (30, 20)),
        ((5, 7), (1_000_000, 1_000_000), "1000", (0, 1)),
        ((1_000, 3_000), (0, 0), "1000", (1_000, 3_000)),  # sizes that the peer does not tell
    ],
)
def test_the_bytes_of_a_batch_are_shared_out_among_the_partitions(
    ends: tuple[int, int], sizes: tuple[int, int], most: str, shares: tuple[int, int]
) -> None:
    tails = [part(number, end, mean_bytes=size) for number, (end, size) in enumerate(zip(ends, sizes, strict=True))]
    reader, _ = reader_of(*tails, maxBytesPerTrigger=most)
    assert next_offset(reader, EARLIEST) == {"a/0": shares[0], "a/1": shares[1]}


def test_the_smaller_limit_of_messages_and_bytes_counts() -> None:
    tails = part(0, 900, mean_bytes=1_000), part(1, 100, mean_bytes=1_000)
    reader, _ = reader_of(*tails, maxBytesPerTrigger="100000", maxMessagesPerTrigger="50")
    assert next_offset(reader, EARLIEST) == {"a/0": 45, "a/1": 5}
    reader, _ = reader_of(*tails, maxBytesPerTrigger="20000", maxMessagesPerTrigger="50")
    assert next_offset(reader, EARLIEST) == {"a/0": 18, "a/1": 2}


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30), st.integers(1, 5_000)), min_size=1, max_size=4),
    st.integers(10_000, 40_000),
)
def test_limited_batches_have_each_message_once_and_end(parts: list[tuple[int, int, int]], most: int) -> None:
    tails = [part(n, first + count, first=first, mean_bytes=size) for n, (first, count, size) in enumerate(parts)]
    reader, _ = reader_of(*tails, maxBytesPerTrigger=str(most), startingOffsets="earliest")
    read: dict[str, list[int]] = {tail.address: [] for tail in tails}
    for each in batches(reader, first_offset(reader)):
        for address, first, end in each:
            read[address] += range(first, end)
        sizes = [(end - first) * tails[int(address[2:])].mean_bytes for address, first, end in each]
        # each partition may have a message more than its share, and one may get the messages that are left over
        means = [tail.mean_bytes for tail in tails]
        assert sum(sizes) <= most + sum(means) + len(means) * max(means)
    assert read == {tail.address: list(range(tail.first, tail.end)) for tail in tails}


# minMessagesPerTrigger and maxTriggerDelay


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which the test moves on."""
    now = [1_000.0]
    monkeypatch.setattr(stream.time, "monotonic", lambda: now[0])
    return now


def test_a_batch_waits_for_enough_messages(clock: list[float]) -> None:
    reader, logs = reader_of(part(0, 3), part(1, 6), minMessagesPerTrigger="10")
    assert next_offset(reader, EARLIEST) == EARLIEST
    logs.partitions = part(0, 4), part(1, 6)
    assert next_offset(reader, EARLIEST) == {"a/0": 4, "a/1": 6}


@pytest.mark.parametrize(("delay", "seconds"), [({"maxTriggerDelay": "5s"}, 5.0), ({}, 900.0)])
def test_a_batch_that_is_held_back_is_released_after_the_delay(
    clock: list[float], delay: dict[str, str], seconds: float
) -> None:
    reader, logs = reader_of(part(0, 3), part(1, 0), minMessagesPerTrigger="10", **delay)
    clock[0] += seconds - 0.1
    assert next_offset(reader, EARLIEST) == EARLIEST
    clock[0] += 0.1
    end = next_offset(reader, EARLIEST)
    assert end == {"a/0": 3, "a/1": 0}
    logs.partitions = part(0, 3), part(1, 2)
    clock[0] += seconds - 0.1
    assert next_offset(reader, end) == end, "the delay begins with each batch"
    clock[0] += 0.1
    assert next_offset(reader, end) == {"a/0": 3, "a/1": 2}
    clock[0] += 10 * seconds
    assert next_offset(reader, {"a/0": 3, "a/1": 2}) == {"a/0": 3, "a/1": 2}, "no batch without messages"


def test_available_now_holds_nothing_back(clock: list[float]) -> None:
    reader, logs = reader_of(part(0, 3), part(1, 6), minMessagesPerTrigger="10")
    reader.prepareForTriggerAvailableNow()
    logs.partitions = part(0, 300), part(1, 6), part(2, 5)
    assert list(batches(reader, EARLIEST)) == [[("a-0", 0, 3), ("a-1", 0, 6)]]


# logs by their names


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_log_of_a_list_that_is_not_there(*, fails: bool, known: bool) -> None:
    """It is refused, unless the checkpoint has it: then its messages are gone."""
    reader, _ = reader_of(part(0, 10), addresses="a, b", failOnDataLoss=str(fails).lower())
    start = first_offset(reader) | ({"b/0": 3} if known else {})
    if not known:
        with pytest.raises(ConfigError, match=r"option addresses: there is no log 'b'; there are a/0$"):
            next_offset(reader, start)
    elif fails:
        with pytest.raises(RStreamsError, match="messages are gone: b/0 is not there"):
            next_offset(reader, start)
    else:
        assert next_offset(reader, start) == start


# partitions that are added


@pytest.mark.parametrize("restarted", [False, True])
def test_a_partition_that_is_added_is_read_from_its_first_message(*, restarted: bool) -> None:
    reader, logs = reader_of(part(0, 10), part(1, 10))
    start = first_offset(reader)
    parts = part(0, 12), part(1, 10), part(2, 50)
    if restarted:
        reader, logs = reader_of(*parts)
    logs.partitions = parts
    end = next_offset(reader, start)
    assert ranges(reader, start, end) == [("a-0", 10, 12), ("a-2", 0, 50)]
    logs.partitions = part(0, 12), part(1, 10), part(2, 55, first=5)
    assert list(batches(reader, end)) == [[("a-2", 50, 55)]]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_log_that_begins_to_match_the_pattern_is_read_from_its_first_message(*, restarted: bool) -> None:
    options = {"addressPattern": "a|new.*"}
    reader, logs = reader_of(part(0, 10), part(0, 10, log="old"), **options)
    start = first_offset(reader)
    parts = part(0, 12), part(0, 3, log="new-x"), part(1, 0, log="new-x"), part(0, 15, log="old")
    if restarted:
        reader, logs = reader_of(*parts, **options)
    logs.partitions = parts
    end = next_offset(reader, start)
    assert ranges(reader, start, end) == [("a-0", 10, 12), ("new-x-0", 0, 3)]
    logs.partitions = part(0, 12), part(0, 3, log="new-x"), part(1, 2, log="new-x")
    assert list(batches(reader, end)) == [[("new-x-1", 0, 2)]]


@pytest.mark.parametrize("fails", [False, True])
def test_a_partition_that_is_added_and_has_lost_its_first_messages(
    capsys: pytest.CaptureFixture[str], *, fails: bool
) -> None:
    reader, logs = reader_of(part(0, 10), failOnDataLoss=str(fails).lower())
    start = first_offset(reader)
    logs.partitions = part(0, 10), part(2, 50, first=40)
    if fails:
        with pytest.raises(RStreamsError, match="messages are gone: a/2 from offset 0 to 39"):
            next_offset(reader, start)
    else:
        assert list(batches(reader, start)) == [[("a-2", 40, 50)]]
        assert capsys.readouterr().err.count("a/2 from offset 0 to 39. The query goes on without them") == 1


WITHOUT_LOST: dict[str, str] = {"failOnDataLoss": "false"}


def test_the_batch_with_a_new_partition_is_run_again_as_it_was() -> None:
    """After a crash: although retention has deleted messages since."""
    reader, _ = reader_of(part(0, 10), part(1, 10, first=4), **WITHOUT_LOST)
    start = {"a/0": 10}
    end = next_offset(reader, start)
    again, _ = reader_of(part(0, 10), part(1, 30, first=8), maxMessagesPerTrigger="3", **WITHOUT_LOST)
    assert ranges(again, start, end) == ranges(reader, start, end) == [("a-1", 4, 10)]
    assert list(batches(again, end)) == [[("a-1", number, min(number + 3, 30))] for number in range(10, 30, 3)]


def test_a_new_partition_has_a_share_of_a_limited_batch() -> None:
    reader, _ = reader_of(part(0, 110), part(1, 400, first=100), maxMessagesPerTrigger="40", **WITHOUT_LOST)
    first, *more = batches(reader, {"a/0": 10})
    assert first == [("a-0", 10, 20), ("a-1", 100, 130)]
    read = [
        offset for each in (first, *more) for address, at, end in each if address == "a-1" for offset in range(at, end)
    ]
    assert read == list(range(100, 400))


def test_a_new_partition_without_messages_is_remembered(capsys: pytest.CaptureFixture[str]) -> None:
    reader, logs = reader_of(part(0, 11), part(1, 40, first=40), **WITHOUT_LOST)
    start = {"a/0": 10}
    end = next_offset(reader, start)
    assert ranges(reader, start, end) == [("a-0", 10, 11)]
    logs.partitions = part(0, 11), part(1, 45, first=42)
    capsys.readouterr()
    assert list(batches(reader, end)) == [[("a-1", 42, 45)]]
    tell_counts()
    assert "a/1 from offset 40 to 41." in capsys.readouterr().err


def test_a_checkpoint_of_an_older_version_is_read() -> None:
    """Its offsets do not tell where a batch begins in new partitions."""
    reader, _ = reader_of(part(0, 10), part(1, 10), part(2, 7))
    assert ranges(reader, {"a/0": 4}, {"a/0": 8, "a/1": 9}) == [("a-0", 4, 8), ("a-1", 0, 9)]
    assert list(batches(reader, {"a/0": 8, "a/1": 9})) == [[("a-0", 8, 10), ("a-1", 9, 10), ("a-2", 0, 7)]]


# the first batch, whose start is not in Spark's checkpoint: Spark asks for it again


@pytest.mark.parametrize("limit", [{}, {"maxMessagesPerTrigger": "6"}])
@pytest.mark.parametrize("starting", ["earliest", "latest", '{"a": {"0": 7, "1": 2}}'])
def test_the_first_batch_is_run_again_as_it_was(starting: str, limit: dict[str, str]) -> None:
    options = {"startingOffsets": starting, **limit, **WITHOUT_LOST}
    reader, logs = reader_of(part(0, 10), part(1, 10), **options)
    start = first_offset(reader)
    logs.partitions = part(0, 20), part(1, 10), part(2, 5)
    end = next_offset(reader, start)
    planned = ranges(reader, start, end)
    assert planned
    again, _ = reader_of(part(0, 90, first=9), part(1, 80, first=3), part(2, 5), part(3, 5), **options)
    for reads in (reader, again):
        assert ranges(reads, first_offset(again), end) == planned
    following = [each for batch in batches(again, end) for each in batch]
    assert sum(until - at for address, at, until in following if address == "a-3") == 5


@pytest.mark.parametrize("address", [{}, {"addressPattern": "a|b"}])
def test_offsets_of_a_new_query_name_each_partition(address: dict[str, str]) -> None:
    reader, _ = reader_of(part(0, 10), part(1, 10), startingOffsets='{"a": {"0": 7}}', **address)
    start = first_offset(reader)
    for _ in range(2):
        with pytest.raises(ConfigError, match="the peer also has a/1, which it must name; there are a/0, a/1"):
            next_offset(reader, start)


def test_a_first_batch_without_messages_is_run_again_after_a_partition_was_added() -> None:
    starting = {"startingOffsets": '{"a": {"0": 10}}'}
    reader, _ = reader_of(part(0, 10), **starting)
    end = next_offset(reader, first_offset(reader))
    again, _ = reader_of(part(0, 12), part(1, 3), **starting)
    assert ranges(again, first_offset(again), end) == []
    assert list(batches(again, end)) == [[("a-0", 10, 12), ("a-1", 0, 3)]]


def test_a_first_batch_without_messages_stays_without() -> None:
    reader, logs = reader_of(part(0, 10), part(1, 10))
    end = next_offset(reader, first_offset(reader))
    logs.partitions = part(0, 20), part(1, 10)
    assert ranges(reader, first_offset(reader), end) == []
    assert list(batches(reader, end)) == [[("a-0", 10, 20)]]


def test_messages_that_come_between_the_end_and_the_start_of_available_now_wait() -> None:
    reader, logs = reader_of(part(0, 10), startingOffsets="latest")
    reader.prepareForTriggerAvailableNow()
    logs.partitions = (part(0, 12),)
    assert list(batches(reader, first_offset(reader))) == []


# messages that retention has deleted


def test_deleted_messages_take_no_batches(capsys: pytest.CaptureFixture[str]) -> None:
    tails = part(0, 1_000_025, first=1_000_000), part(1, 55)
    reader, logs = reader_of(*tails, maxMessagesPerTrigger="20", **WITHOUT_LOST)
    start = {"a/0": 100, "a/1": 50}
    end = next_offset(reader, start)
    assert ranges(reader, start, end) == [("a-0", 1_000_000, 1_000_017), ("a-1", 50, 53)]
    logs.partitions = part(0, 1_000_025, first=1_000_020), part(1, 55)
    assert list(batches(reader, end)) == [[("a-0", 1_000_020, 1_000_025), ("a-1", 53, 55)]]
    tell_counts()
    said = re.findall(r"(?<=messages are gone: ).*(?=\. The)", capsys.readouterr().err)
    assert said == ["a/0 from offset 100 to 999999", "a/0 from offset 1000017 to 1000019"]


def test_a_batch_behind_deleted_messages_is_run_again_as_it_was() -> None:
    start = {"a/0": 100}
    reader, _ = reader_of(part(0, 1_025, first=1_000), maxMessagesPerTrigger="10", **WITHOUT_LOST)
    end = next_offset(reader, start)
    again, _ = reader_of(part(0, 1_030, first=1_004), **WITHOUT_LOST)
    assert ranges(again, start, end) == ranges(reader, start, end) == [("a-0", 1_000, 1_010)]
    assert list(batches(again, end)) == [[("a-0", 1_010, 1_030)]]


def test_deleted_messages_are_told_once_while_a_batch_waits(
    capsys: pytest.CaptureFixture[str], clock: list[float]
) -> None:
    reader, _ = reader_of(part(0, 1_003, first=1_000), minMessagesPerTrigger="5", **WITHOUT_LOST)
    start = {"a/0": 100}
    assert next_offset(reader, start) == next_offset(reader, start) == start
    assert capsys.readouterr().err.count("a/0 from offset 100 to 999.") == 1


@pytest.mark.parametrize("now", [False, True])
def test_a_partition_whose_messages_are_all_deleted_has_no_batch(*, now: bool) -> None:
    reader, logs = reader_of(part(0, 1_000, first=1_000), **WITHOUT_LOST)
    start = {"a/0": 100}
    if now:
        reader.prepareForTriggerAvailableNow()
    assert next_offset(reader, start) == start
    if not now:
        logs.partitions = (part(0, 1_002, first=1_000),)
        assert list(batches(reader, start)) == [[("a-0", 1_000, 1_002)]]


def test_executors_find_messages_that_are_deleted_while_a_query_runs() -> None:
    """With failOnDataLoss=true: a link that has the deleted file open may still read it."""
    reader, logs = reader_of(part(0, 50))
    start = {"a/0": 10}
    end = next_offset(reader, start)
    assert ranges(reader, start, end) == [("a-0", 10, 50)]
    logs.partitions = (part(0, 90, first=70),)
    assert list(batches(reader, end)) == [[("a-0", 50, 90)]]


# logs that end before the position of the query


@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_replica_that_lags_behind_is_asked_again(*, fails: bool, now: bool) -> None:
    reader, logs = reader_of(part(0, 50), part(1, 20), failOnDataLoss=str(fails).lower())
    logs.has_replicas = True
    start = first_offset(reader)
    logs.partitions = part(0, 51), part(1, 20)
    logs.lags = [9, 5, 2]
    if now:
        reader.prepareForTriggerAvailableNow()
    assert list(batches(reader, start)) == [[("a-0", 50, 51)]]
    assert logs.lags == []


@pytest.mark.parametrize("replicas", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_log_that_is_made_anew_while_the_query_runs(
    capsys: pytest.CaptureFixture[str], *, fails: bool, replicas: bool
) -> None:
    reader, logs = reader_of(part(0, 50), part(1, 20), failOnDataLoss=str(fails).lower())
    logs.has_replicas = replicas
    start = first_offset(reader)
    assert next_offset(reader, start) == start
    logs.partitions = part(0, 3), part(1, 20)
    told = "messages are gone: a/0 ends at 3, and the checkpoint is at 50"
    if fails:
        with pytest.raises(RStreamsError, match=told):
            next_offset(reader, start)
        return
    end = next_offset(reader, start)
    assert ranges(reader, start, end) == [("a-0", 0, 3)]
    logs.partitions = part(0, 5), part(1, 20)
    assert list(batches(reader, end)) == [[("a-0", 3, 5)]]
    assert capsys.readouterr().err.count(told) == 1


def test_a_partition_that_is_gone_fails_the_query_or_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    start = {"a/0": 3, "a/1": 3}
    for fails in (True, False):
        reader, logs = reader_of(part(0, 10), part(1, 10), failOnDataLoss=str(fails).lower())
        end = next_offset(reader, start)
        logs.partitions = (part(0, 12),)
        if fails:
            with pytest.raises(RStreamsError, match="messages are gone: a/1 is not there"):
                next_offset(reader, end)
            continue
        assert list(batches(reader, end)) == [[("a-0", 10, 12)]]
        assert "a/1 is not there. The query goes on without them" in capsys.readouterr().err


@pytest.mark.slow
def test_a_new_log_of_a_node_that_has_lost_its_first_messages_is_read_from_its_beginning() -> None:
    with log_node() as node:
        node.append("one", 0, 10)
        given = {
            "url": node.url,
            "addressPattern": "one|short",
            "columns": "body,offset",
            "failOnDataLoss": "false",
            "maxMessagesPerTrigger": "1000",
        }
        reader = LogStreamReader(SourceOptions.parse(given))
        start = {"one/0": 4}
        for first in range(0, 1_000, 50):
            node.append("short", first, first + 50)
        (kept,) = node.first("$statistics")["logs"]["short"]["partitions"]
        assert kept["first"] > 0
        try:
            end = next_offset(reader, start)
            bodies = [
                int(body)
                for each in reader.partitions(start, end)
                for batch in reader.read(each)
                for body in batch.column("body").to_pylist()
            ]
        finally:
            reader.stop()
    assert bodies == [*range(4, 10), *range(kept["first"], 1_000)]
