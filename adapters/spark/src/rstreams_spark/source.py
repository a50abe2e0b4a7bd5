"""The data source that Spark knows as `rstreams`: its columns, its reader and its writers.

Spark imports this module to look up a format by its name. Therefore modules that need more than pyspark are imported in
the methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader

    from rstreams_spark._logs.choice import AddressReader
    from rstreams_spark._reader import RefusedReader
    from rstreams_spark._writer import BatchWriter, StreamWriter

__all__ = ["RStreamsDataSource"]


class RStreamsDataSource(DataSource):
    """AMQP 1.0 addresses as a streaming source and as a sink: `format("rstreams")`.

    `readStream` receives from a queue with `maxMessagesPerTrigger` as link credit, or reads logs by their offsets.
    `read` reads a part of a log. `writeStream` and `write` send rows as messages, and wait until the receiver has
    settled each.

    The guide `docs/guides/spark-options.md` has all options in tables.

    Credit: The source's link never has more than `maxMessagesPerTrigger` messages granted, received and unsettled.
    Errors: `ConfigError` for an option or column that cannot work, before anything is sent or received.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rstreams"

    def schema(self) -> StructType | str:
        """Return the columns of the source; the options are checked here, when the DataFrame is made."""
        from rstreams_spark._first_line import reason_first
        from rstreams_spark._options import SourceOptions
        from rstreams_spark._schema import source_schema

        with reason_first():
            options = SourceOptions.parse(self.options)
            return source_schema(options.columns, options.body)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a log as a batch; it refuses a queue, which has no end, when Spark plans the read."""
        from rstreams_spark._first_line import reason_first
        from rstreams_spark._logs.batch import LogBatchReader
        from rstreams_spark._options import SourceOptions
        from rstreams_spark._schema import check_source_schema
        from rstreams_spark._shape import RowShape

        with reason_first():
            options = SourceOptions.parse(self.options)
            check_source_schema(schema, options.body)
            RowShape(schema, options.body, options.address)
            return LogBatchReader(options, schema)

    def streamReader(self, schema: StructType) -> AddressReader | RefusedReader:  # noqa: N802 - Spark's name
        """Return the streaming reader; it connects when the query asks for its first batch.

        A wrong option or schema makes a reader that raises the error in its first call: PySpark 4.3 shows an error from
        this method as an error of its own.
        """
        from rstreams.errors import ConfigError
        from rstreams_spark._logs.choice import AddressReader
        from rstreams_spark._options import SourceOptions
        from rstreams_spark._reader import RefusedReader
        from rstreams_spark._schema import check_source_schema
        from rstreams_spark._shape import RowShape

        try:
            options = SourceOptions.parse(self.options)
            check_source_schema(schema, options.body)
            RowShape(schema, options.body, options.address)
        except ConfigError as error:
            return RefusedReader(error)
        return AddressReader(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: FBT001, N802 - Spark's
        """Return the writer of a micro-batch."""
        from rstreams_spark._first_line import reason_first
        from rstreams_spark._options import SinkOptions
        from rstreams_spark._writer import StreamWriter

        with reason_first():
            return StreamWriter(SinkOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:  # noqa: FBT001 - Spark's signature
        """Return the writer of a batch DataFrame."""
        from rstreams.errors import ConfigError
        from rstreams_spark._first_line import reason_first
        from rstreams_spark._options import SinkOptions
        from rstreams_spark._writer import BatchWriter

        with reason_first():
            if overwrite:
                msg = "mode('overwrite') cannot work: sent messages cannot be taken back. Use mode('append')"
                raise ConfigError(msg)
            return BatchWriter(SinkOptions.parse(self.options), schema)
