"""Whether the address of a streaming query is a queue or a log: its runner asks the peer once, when it starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from rstreams.errors import ConfigError
from rstreams_spark._first_line import reason_first
from rstreams_spark._last_words import Witness, take_witness
from rstreams_spark._logs.plan import is_log_offset, of_another_source, read_offset
from rstreams_spark._options import SourceOptions
from rstreams_spark._reader import QueueReader, is_queue_offset
from rstreams_spark._short_way import ShortWay

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rstreams_spark._logs.stream import LogStreamReader


class AddressReader(ShortWay, SupportsTriggerAvailableNow):
    """Reads a queue or a log, by what the address is; the call goes to the `QueueReader` or the `LogStreamReader`.

    Context: As for these.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        """Keep the options; nothing is connected."""
        self._options = options
        self._schema = schema
        self._chosen: QueueReader | LogStreamReader | None = None
        self._witness: Witness | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which only reads: without passwords. A range of a log has its own."""
        options = self._options.without_secrets()
        return {"_options": options, "_schema": self._schema, "_chosen": None, "_witness": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset of a query that starts anew."""
        return self._reader().initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the batch limit."""
        return self._reader().getDefaultReadLimit()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From now on read only the messages that are there."""
        self._reader().prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset of the next batch.

        Errors: `ConfigError` also if the address has become a log, or has become a queue, since the checkpoint.
        """
        self.end_hand_over()
        return self._reader(start).latestOffset(start, limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the parts of a batch; the rows of a small batch wait for Spark then.

        Errors: As `latestOffset`.
        """
        self.end_hand_over()
        reader = self._reader(start, end)
        parts = reader.partitions(start, end)
        if self.may_hand_over(parts):
            self.hand_over(reader.rows_with_plan(parts[0]))
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part of a batch; the part of a queue is a file, and needs no network."""
        from rstreams_spark._spool import SpooledRange

        if isinstance(partition, SpooledRange):
            return QueueReader(self._options, self._schema).read(partition)
        from rstreams_spark._logs.stream import LogStreamReader

        return LogStreamReader(self._options, self._schema).read(partition)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return the `latestOffset` in Spark's progress."""
        return None if self._chosen is None else self._chosen.reportLatestOffset()

    def stop(self) -> None:
        """Close the connection; messages of a queue that are not settled are given back."""
        if self._chosen is not None:
            self._chosen.stop()
        if self._witness is not None:
            self._witness.dismiss()

    def _reader(self, *offsets: Mapping[str, Any]) -> QueueReader | LogStreamReader:
        with reason_first():
            for offset in offsets:
                if not is_log_offset(offset) and not is_queue_offset(offset):
                    raise of_another_source(offset, "the rstreams source")
            if self._chosen is None:
                self._chosen = self._choose()
                if not isinstance(self._chosen, QueueReader):  # which has a witness of its own
                    self._witness = take_witness(
                        self._chosen.where, "the same offsets are read again when the query is started again"
                    )
            for offset in offsets:
                self._require_same_kind(offset)
        return self._chosen

    def _choose(self) -> QueueReader | LogStreamReader:
        from rstreams_spark._logs.stream import LogStreamReader

        options, log = self._options, self._options.log
        if log.read_as == "log" or log.addresses or log.pattern is not None:
            return LogStreamReader(options, self._schema)
        why = f"{options.address!r} is read as a queue (option readAs='queue')"
        if log.read_as is None:
            kind = _kind_of(options)
            if kind == "log":
                return LogStreamReader(options, self._schema)
            why = (
                f"the peer tells of no log {options.address!r}" if kind is None else f"{options.address!r} is a {kind}"
            )
        log.check_queue(self._schema.fieldNames(), why)
        return QueueReader(options, self._schema)

    def _require_same_kind(self, offset: Mapping[str, Any]) -> None:
        was_log = is_log_offset(offset)
        if was_log and isinstance(self._chosen, QueueReader):
            msg = (
                f"the checkpoint belongs to a query that reads a log, with offsets {read_offset(offset)[0]!r}, and "
                f"{self._options.address!r} is a queue: use a new checkpoint"
            )
            raise ConfigError(msg)
        if not was_log and not isinstance(self._chosen, QueueReader):
            msg = (
                f"the checkpoint belongs to a query that reads a queue, {offset.get('address')!r}, and "
                f"{self._options.address!r} is a log: use a new checkpoint"
            )
            raise ConfigError(msg)


def _kind_of(options: SourceOptions) -> str | None:
    """Ask the peer what the address is; a peer that does not tell has a queue there."""
    from rstreams_spark._logs.survey import Survey

    survey = Survey(options)
    try:
        return survey.kind()
    finally:
        survey.close()
