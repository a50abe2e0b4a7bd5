"""A part of a log as a DataFrame: `spark.read`, with filters that choose what is read at all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
from rstreams_spark._logs.plan import Positions, Range, Split, order, ranges_between, tasks_of
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

_NO_END: Final = 2**63

_BOUNDS: Final[dict[type[Filter], Callable[[int], tuple[int, int]]]] = {
    EqualTo: lambda value: (value, value + 1),
    GreaterThan: lambda value: (value + 1, _NO_END),
    GreaterThanOrEqual: lambda value: (value, _NO_END),
    LessThan: lambda value: (0, value),
    LessThanOrEqual: lambda value: (0, value + 1),
}
"""The numbers that a filter lets through: the first one, and the one behind the last."""


@dataclass
class _Wanted:
    """The partitions or the offsets that filters let through.

    Attributes:
        first: The first number.
        end: The number behind the last one.
        among: The only numbers in between; None: all.
    """

    first: int = 0
    end: int = _NO_END
    among: frozenset[int] | None = None

    def note(self, each: Filter, value: object) -> bool:
        """Note a filter; return False for one that is of no such kind."""
        if isinstance(each, In) and isinstance(value, tuple | list) and all(type(number) is int for number in value):
            among = frozenset(value)
            self.among = among if self.among is None else self.among & among
            self._narrow(min(among, default=0), max(among, default=-1) + 1)
            return True
        if type(value) is int and type(each) in _BOUNDS:
            self._narrow(*_BOUNDS[type(each)](value))
            return True
        return False

    def has(self, number: int) -> bool:
        """Return whether all filters let a number through."""
        return self.first <= number < self.end and (self.among is None or number in self.among)

    def _narrow(self, first: int, end: int) -> None:
        self.first = max(self.first, first)
        self.end = min(self.end, end)


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
        self._partitions = _Wanted()
        self._offsets = _Wanted()
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
        survey.require_logs()
        if self._since is not None:
            later = survey.places(self._since, "starting")
            begin = {key: max(at, later[key]) for key, at in begin.items()}
        end = _all_places(survey, log.ending or "latest", "ending")
        chosen = [key for key in end if self._partitions.has(order(key)[1])]
        within = [self._within(each) for each in ranges_between(begin, _ordered(begin, end, chosen))]
        return tasks_of([each for each in within if each.messages > 0], Split(log.min_partitions, log.max_records))

    def _within(self, each: Range) -> Range:
        return Range(each.key, max(each.first, self._offsets.first), min(each.end, self._offsets.end))


class FilteredLogReader(LogBatchReader):
    """A `LogBatchReader` that takes filters on partition, offset and timestamp.

    Spark refuses a reader with this method where pushing filters down is switched off.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Note what the filters let through; return those that Spark must still apply.

        Of a list of offsets those between the least and the greatest are read, and Spark applies the list.

        A filter on time is applied by Spark as well: column timestamp may have the time of a sender's clock, and a log
        is searched by the time at which messages were stored together.
        """
        return [each for each in filters if not self._take(each)]

    def _take(self, each: Filter) -> bool:
        """Note a filter; return whether it needs no further look."""
        column = getattr(each, "attribute", None)
        value: Any = getattr(each, "value", None)
        if column == ("partition",):
            return self._partitions.note(each, value)
        if column == ("offset",):
            return self._offsets.note(each, value) and not isinstance(each, In)
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
