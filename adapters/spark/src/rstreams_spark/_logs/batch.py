"""A part of a log as a DataFrame: `spark.read`, with filters that choose what is read at all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from rstreams.errors import ConfigError
from rstreams_spark._first_line import reason_first
from rstreams_spark._logs.bounds import Bound
from rstreams_spark._logs.plan import Positions, Range, Split, ranges_between, tasks_of
from rstreams_spark._logs.ranges import LogRange
from rstreams_spark._logs.stream import read_rows
from rstreams_spark._logs.survey import Survey
from rstreams_spark._options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"

CLOCKS_DIFFER: Final = timedelta(hours=1)
"""How much earlier than a filter on time a read begins: messages have the times of their senders' clocks."""

_BOUNDS: Final[dict[type[Filter], Callable[[int], tuple[int | None, int | None]]]] = {
    EqualTo: lambda value: (value, value + 1),
    GreaterThan: lambda value: (value + 1, None),
    GreaterThanOrEqual: lambda value: (value, None),
    LessThan: lambda value: (None, value),
    LessThanOrEqual: lambda value: (None, value + 1),
}
"""The offsets that a filter lets through: the first one, and the one behind the last."""


class LogBatchReader(DataSourceReader):
    """Reads the messages of logs between two places; see the module's text.

    Context: The planner's process; `read` in the executors. Every call blocks.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """Keep the options; nothing is connected.

        Errors: `ConfigError` for an option that a batch does not have, or if the address must be a queue.
        """
        if options.log.read_as == "queue":
            raise _no_batch_of(options.address, "queue")
        options.log.check_log(options.address, batch=True)
        self._options = options
        self._schema = schema
        self._numbers: set[int] | None = None
        self._first = 0
        self._end: int | None = None
        self._since: datetime | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which only reads: without passwords. A range has its own."""
        return self.__dict__ | {"_options": self._options.without_secrets()}

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges, one for each task.

        Errors: `ConfigError` if the address is not a log, or an option names a place that is not there.
        """
        with reason_first():
            survey = Survey(self._options)
            try:
                return survey.ranges(self._tasks(survey))
            finally:
                survey.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range; none if there are no ranges, for which Spark calls this once, with None."""
        if not isinstance(partition, LogRange):
            return iter(())
        return read_rows(self._options, self._schema, partition)

    def _tasks(self, survey: Survey) -> list[Range]:
        log = self._options.log
        if not log.addresses and log.pattern is None:
            kind = survey.kind()
            if kind not in ("log", None):
                raise _no_batch_of(self._options.address, kind)
        begin = _all_places(survey, log.starting or "earliest", "starting")
        if self._since is not None:
            later = survey.places(self._since, "starting")
            begin = {key: max(at, later[key]) for key, at in begin.items()}
        end = _all_places(survey, log.ending or "latest", "ending")
        chosen = [key for key in end if self._numbers is None or int(key.rpartition("/")[2]) in self._numbers]
        within = [self._within(each) for each in ranges_between(begin, _ordered(begin, end, chosen))]
        return tasks_of([each for each in within if each.messages > 0], Split(log.min_partitions, log.max_records))

    def _within(self, each: Range) -> Range:
        end = each.end if self._end is None else min(each.end, self._end)
        return Range(each.key, max(each.first, self._first), end)


class FilteredLogReader(LogBatchReader):
    """A `LogBatchReader` that takes filters on partition, offset and timestamp.

    Spark refuses a reader with this method where pushing filters down is switched off.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Note what the filters let through; return those that Spark must still apply.

        A filter on time is applied by Spark as well: column timestamp may have the time of a sender's clock, and a log
        is searched by the time at which messages were stored together.
        """
        return [each for each in filters if not self._take(each)]

    def _take(self, each: Filter) -> bool:
        """Note a filter; return whether it needs no further look."""
        column = getattr(each, "attribute", None)
        value: Any = getattr(each, "value", None)
        if column == ("partition",) and isinstance(each, EqualTo | In):
            wanted = set(value if isinstance(value, tuple | list) else (value,))
            self._numbers = wanted if self._numbers is None else self._numbers & wanted
            return True
        if column == ("offset",) and type(value) is int and type(each) in _BOUNDS:
            first, end = _BOUNDS[type(each)](value)
            self._first = max(self._first, first or 0)
            if end is not None:
                self._end = end if self._end is None else min(self._end, end)
            return True
        if column == ("timestamp",) and isinstance(value, datetime) and isinstance(each, _SINCE):
            since = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)) - CLOCKS_DIFFER
            self._since = since if self._since is None else max(self._since, since)
        return False


_SINCE: Final = (EqualTo, GreaterThan, GreaterThanOrEqual)


def batch_reader(options: SourceOptions, schema: StructType) -> LogBatchReader:
    """Return the reader of a batch, with filters if Spark pushes them down: it then plans in a process of its own."""
    pushes = _PUSHDOWN_WORKER in sys.modules
    return FilteredLogReader(options, schema) if pushes else LogBatchReader(options, schema)


def _all_places(survey: Survey, bound: Bound, which: str) -> Positions:
    """Return the offset of each partition where the read begins or ends.

    Errors: `ConfigError` if the options do not name each partition.
    """
    places = survey.places(bound, which)
    survey.require_all(places, which)
    return places


def _ordered(begin: Positions, end: Positions, keys: list[str]) -> Positions:
    """Return the ends of some partitions.

    Errors: `ConfigError` if one is before its beginning.
    """
    for key in keys:
        if end[key] < begin[key]:
            msg = f"the options end {key} at offset {end[key]}, before they begin, at {begin[key]}"
            raise ConfigError(msg)
    return {key: end[key] for key in keys}


def _no_batch_of(address: str, kind: str) -> ConfigError:
    return ConfigError(
        f"a {kind} has no spark.read, and {address!r} is a {kind}: it is read as a stream. Use spark.readStream, with "
        "trigger(availableNow=True) to read the messages queued now and stop"
    )
