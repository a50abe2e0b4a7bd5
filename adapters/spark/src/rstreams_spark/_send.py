"""`foreachBatch` in one line: the rows of each batch are sent as messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID: Final = "sql.streaming.queryId"
"""The name under which Spark tells the id of a query to its tasks."""


def send(**options: object) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that sends the rows of each batch, for output modes update and complete.

        maxima.writeStream.outputMode("update").foreachBatch(rstreams_spark.send(url=url, address="maxima")).start()

    A row without a message id gets `queryId-batchId-partition-row`. The id is the same when the batch is run again, as
    long as the rows come in the same order. For rows of an aggregation make an id of their keys. With Spark Connect
    such a row is sent without an id.

    Args:
        options: The options of the sink, by their names. True and False are written as Spark writes them. None: as if
            the option were not given.

    Errors: `ConfigError` that names each wrong option, at the call.
    Context: The function is called by Spark; it returns when the receiver has accepted all rows of a batch.
    """
    from rstreams.errors import ConfigError
    from rstreams_spark._options import SinkOptions

    given = {name: _text(value) for name, value in options.items() if value is not None}
    if SinkOptions.parse(given).message_id_prefix is not None:
        msg = "option messageIdPrefix: send() makes one for each batch; leave it out, or give each row a message_id"
        raise ConfigError(msg)

    def send_batch(batch: DataFrame, batch_id: int) -> None:
        query = _query_of(batch)
        named = given if query is None else given | {"messageIdPrefix": f"{query}-{batch_id}"}
        batch.write.format("rstreams").options(**named).mode("append").save()

    return send_batch


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _query_of(batch: DataFrame) -> str | None:
    """Return the id of the query whose batch this is; None with Spark Connect, which does not tell it."""
    context = getattr(batch.sparkSession, "_sc", None)
    return None if context is None else context.getLocalProperty(QUERY_ID)
