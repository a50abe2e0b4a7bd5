"""The stream of a log for Spark's calls: offsets per partition, batches as ranges of offsets.

    initialOffset()         where the options say that a new query begins
    latestOffset(start)     the ends of the partitions, as far as the limits of a batch allow
    partitions(start, end)  the ranges of a batch, one for each task
    rows_with_plan(range)   the rows of a small batch with one range, see `_short_way`
    read(range)             in an executor: the messages of the range, over a link of its own

The driver asks the peer where each partition ends. No message passes it, except those of small batches. Nothing is
settled, therefore `commit` has nothing to do: the offsets in Spark's checkpoint are all that there is. A range has the
same rows wherever it is read.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from rstreams_spark._first_line import reason_first
from rstreams_spark._log import MESSAGES_GONE, say
from rstreams_spark._logs.plan import (
    Positions,
    Split,
    made_offset,
    ranges_between,
    read_firsts,
    read_incarnations,
    read_offset,
    shared_out,
    tasks_of,
)
from rstreams_spark._logs.ranges import LogRange
from rstreams_spark._logs.survey import Survey
from rstreams_spark._options import SourceOptions
from rstreams_spark._short_way import MOST_BYTES
from rstreams_spark.errors import SourceFailed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rstreams_spark._logs.logs import Tail

_Gap: TypeAlias = tuple[int, int | None, str]
"""A position of the query, and the first offset and the incarnation of its partition: messages may be gone."""

_ROW_BYTES: Final = 64
"""How many bytes a row has about beyond those of its message."""

_LONGEST_DELAY_S: Final = 15 * 60.0
"""How long a batch waits for minMessagesPerTrigger, if option maxTriggerDelay does not say it: as Kafka's source."""


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one or more logs; see the module's text.

    Context: The main thread of Spark's runner process; `read` in the executors. Every call blocks.
    """

    def __init__(self, options: SourceOptions, schema: StructType | None = None) -> None:
        """Keep the options; nothing is connected.

        Args:
            options: The options of the source.
            schema: The columns that Spark wants; None: those of a queue.

        Errors: `ConfigError` for an option that a stream of a log does not have.
        """
        options.log.check_log(options.address, batch=False)
        self._options = options
        self._schema = schema
        self._survey = Survey(options)
        self._split = Split(options.log.min_partitions, options.log.max_records)
        self._target: dict[str, Tail] | None = None  # of trigger availableNow
        self._latest: Positions | None = None
        self._gaps: dict[str, _Gap | None] = {}  # of the partitions, when last looked at
        self._must_name_all = False  # whether the options must name each partition, because the query is new
        self._batch_at = time.monotonic()
        limit = "maxMessagesPerTrigger" in options.log.given
        self._limit = options.max_messages_per_trigger if limit else None
        delay = "maxTriggerDelay" in options.log.given
        self._delay_s = options.max_trigger_delay_s if delay else _LONGEST_DELAY_S

    @property
    def where(self) -> str:
        """Names the source in messages."""
        return self._survey.where

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset of a query that starts anew."""
        with reason_first():
            starting = self._options.log.starting or "latest"
            positions = self._survey.places(starting, "starting")
            self._must_name_all = isinstance(starting, Mapping)
            return made_offset(positions, self._split, positions, self._survey.incarnations())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the batch limit; none if no option gives one."""
        return ReadAllAvailable() if self._limit is None else ReadMaxRows(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From now on end at the messages that the logs have now."""
        with reason_first():
            self._target = self._survey.tails()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset of the next batch; `start` if there are no new messages, or fewer than a batch needs.

        Errors: `SourceFailed` if there is no connection, or messages are gone; `ConfigError` for an offset that is not
            one of these logs.
        """
        with reason_first():
            begin, _ = read_offset(start)
            if self._must_name_all:
                self._survey.require_all(begin, "starting")
            if self._target is None:
                tails = self._survey.news_since(begin, self._latest)
            else:
                tails = self._target = self._survey.caught_up(self._target, begin)
            self._latest = {key: tail.end for key, tail in tails.items()}
            known = read_incarnations(start)
            anew = self._survey.anew(known, tails)
            self._check(begin, tails, anew)
            firsts = {key: first for key, first in read_firsts(start).items() if begin[key] == first}
            firsts |= {
                key: tail.first for key, tail in tails.items() if key in anew or self._begins_anew(begin.get(key), tail)
            }
            end = self._next(begin | firsts, tails, limit)
            if end is None:
                return start
            self._batch_at = time.monotonic()
            told = {key: tail.incarnation for key, tail in tails.items() if tail.incarnation}
            return made_offset(end, self._split, firsts, known | told)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the ranges of a batch; they follow from its two offsets alone."""
        self._must_name_all = False  # there is a batch: partitions that the options do not name were added later
        with reason_first():
            (begin, _), (until, split) = read_offset(start), read_offset(end)
            tasks = tasks_of(ranges_between(begin | read_firsts(end), until), split)
            return self._survey.ranges(tasks, read_incarnations(end))

    def rows_with_plan(self, part: InputPartition) -> Iterator[pa.RecordBatch] | None:
        """Return the rows of a small batch with one range; None if its task reads it.

        If they cannot be read here, the task tries also. It has Spark's retries, and fails with the reason.
        """
        assert isinstance(part, LogRange)
        if not part.mean_bytes or (part.end - part.first) * (part.mean_bytes + _ROW_BYTES) > MOST_BYTES:
            return None
        rows: list[pa.RecordBatch] = []
        with suppress(Exception), closing(read_rows(self._options, self._schema, part)) as batches:
            for batch in batches:
                rows.append(batch)
                if sum(each.nbytes for each in rows) > MOST_BYTES:
                    return None
            return iter(rows) if rows else None
        return None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range."""
        assert isinstance(partition, LogRange)
        yield from read_rows(self._options, self._schema, partition)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the ends of the partitions, for `latestOffset` in Spark's progress."""
        return self._latest

    def stop(self) -> None:
        """Close the connection."""
        self._survey.close()

    def _begins_anew(self, at: int | None, tail: Tail) -> bool:
        """Return whether the next batch begins at a partition's first message, and not at its start.

        With failOnDataLoss=true the executors read messages that were deleted while the query runs, or fail: a link
        that has them may still get them.
        """
        skips = not self._options.log.fail_on_data_loss
        return at is None or tail.end < at or (skips and at < tail.first)

    def _next(self, begin: Positions, tails: Mapping[str, Tail], limit: ReadLimit) -> Positions | None:
        """Return where the next batch ends; None if it must wait."""
        waiting = {key: tail.end - begin[key] for key, tail in tails.items()}
        total = sum(waiting.values())
        least = self._options.min_messages_per_trigger
        in_time = time.monotonic() - self._batch_at < self._delay_s
        if not total or (least is not None and total < least and in_time and self._target is None):
            return None
        shares = shared_out(waiting, min(total, self._most(tails, waiting, limit)))
        return begin | {key: begin[key] + share for key, share in shares.items()}

    def _most(self, tails: Mapping[str, Tail], waiting: Positions, limit: ReadLimit) -> int:
        """Return the most messages of a batch: by their number, and by the bytes that they take about."""
        total = sum(waiting.values())
        most = min(limit.max_rows, total) if isinstance(limit, ReadMaxRows) else total
        most_bytes = self._options.max_bytes_per_trigger
        size = sum(waiting[key] * tail.mean_bytes for key, tail in tails.items())
        if most_bytes is not None and size > most_bytes:
            most = min(most, max(1, total * most_bytes // size))
        return most

    def _check(self, begin: Positions, tails: Mapping[str, Tail], anew: set[str]) -> None:
        """Check that the logs have the messages that the query has not read.

        A partition is checked when it is first seen, when it is gone or was made anew, and when it ends before the
        query's position. With failOnDataLoss=false it is also checked when it begins behind that position. Otherwise
        the executors find messages that retention deletes while a query runs.

        Errors: `ConfigError` if the checkpoint belongs to other logs; `SourceFailed` for messages that are gone, with
            failOnDataLoss=true.
        """
        self._survey.require_names(begin)
        places = dict.fromkeys(tails, 0) | begin
        fails = self._options.log.fail_on_data_loss
        gaps = {
            key: _gap(at, tails.get(key), deleted=not fails or key not in self._gaps, anew=key in anew)
            for key, at in places.items()
        }
        changed = {key: places[key] for key, gap in gaps.items() if gap is not None and gap != self._gaps.get(key)}
        lost = self._survey.lost(changed, tails, anew)
        self._gaps = gaps
        if not lost:
            return
        text = f"messages are gone: {'; '.join(lost)}"
        if fails:
            msg = f"{self._survey.where}: {text}. With option failOnDataLoss=false the query goes on without them"
            raise SourceFailed(msg)
        say(MESSAGES_GONE, self._survey.where, f"{text}. The query goes on without them (option failOnDataLoss=false)")


def read_rows(options: SourceOptions, schema: StructType | None, part: LogRange) -> Generator[pa.RecordBatch]:
    """Yield the rows of a range in the columns that Spark wants."""
    from rstreams_spark._logs.ranges import read_range
    from rstreams_spark._logs.rows import with_log_columns
    from rstreams_spark._schema import SOURCE_SCHEMA
    from rstreams_spark._shape import RowShape

    wanted = SOURCE_SCHEMA if schema is None else schema
    names = wanted.fieldNames()
    with reason_first():
        shape = RowShape(wanted, options.body, part.address)
        for batch in read_range(options, part, tuple(names)):
            yield shape.rows_of(with_log_columns(batch, names, part.number))


def _gap(at: int, tail: Tail | None, *, deleted: bool, anew: bool) -> _Gap | None:
    """Return the gap between a position and a partition; None if there is none.

    Args:
        at: The position.
        tail: The partition; None if it is gone.
        deleted: Whether a first message behind the position counts.
        anew: Whether the partition was made anew.
    """
    if tail is None:
        return at, None, ""
    gap = anew or tail.end < at or (deleted and at < tail.first)
    return (at, tail.first, tail.incarnation) if gap else None
