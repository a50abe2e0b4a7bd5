"""A part of a log as a DataFrame: `spark.read`.

It takes no filters from Spark. Spark 4.3 keeps the reader with the filters of a DataFrame's first action, and also uses
it for its later actions, which would have wrong rows. The options say what is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

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
        end = _all_places(survey, log.ending or "latest", "ending")
        _require_order(begin, end)
        return tasks_of(ranges_between(begin, end), Split(log.min_partitions, log.max_records))


def _all_places(survey: Survey, bound: Bound, which: str) -> Positions:
    """Return the offset of each partition where the read begins or ends.

    Errors: `ConfigError` if the options do not name each partition.
    """
    places = survey.places(bound, which)
    survey.require_all(places, which)
    return places


def _require_order(begin: Positions, end: Positions) -> None:
    """Check that no partition ends before it begins.

    Errors: `ConfigError` naming the partition.
    """
    for key, at in end.items():
        if at < begin[key]:
            msg = f"the end of {key}, offset {at}, is before its begin, offset {begin[key]}"
            raise ConfigError(msg)


def _no_batch_of(address: str, kind: str) -> ConfigError:
    return ConfigError(
        f"a {kind} has no spark.read, and {address!r} is a {kind}: it is read as a stream. Use spark.readStream, with "
        "trigger(availableNow=True) to read the messages queued now and stop"
    )
