"""Traces through Spark: a span for each batch, with links to the spans that sent its messages.

    from rstreams_spark import telemetry

    def work(batch, number):
        with telemetry.batch_span(batch, "orders"):
            ...

    rows.writeStream.foreachBatch(work).start()

It needs `pip install "rstreams[telemetry]"`. The context of a message is in column `properties` of the source, and the
sink sends that column: so it goes on with each row that keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry.trace import Span, TracerProvider
from pyspark.sql import DataFrame

from rstreams import telemetry

__all__ = ["batch_span"]

MAX_CONTEXTS: Final = 128
"""The most contexts of a batch that are looked at: a span has no more links."""


@contextmanager
def batch_span(batch: DataFrame, address: str, tracer_provider: TracerProvider | None = None) -> Iterator[Span]:
    """Have a process span for the block, which links to the spans that sent the messages of a batch; it is current.

    Args:
        batch: The batch of `foreachBatch`, with the column `properties` of the source. Spark reads it once more for
            this: call its `persist()` before, if that is slow.
        address: Where the messages come from.
        tracer_provider: Makes the tracer; None: the global one.

    Errors: Those of Spark, if it cannot read the batch. An exception of the block gives the span the status "error".
    Context: The thread that calls the function of `foreachBatch`.
    """
    of = batch["properties"]
    names = [of[name].alias(name) for name in ("traceparent", "tracestate", "Diagnostic-Id")]
    rows = batch.select(*names).where(of["traceparent"].isNotNull() | of["Diagnostic-Id"].isNotNull())
    found = [row.asDict() for row in rows.distinct().limit(MAX_CONTEXTS).collect()]
    with telemetry.processing(found, address, count=0, tracer_provider=tracer_provider) as span:
        yield span


def __dir__() -> list[str]:
    return __all__
