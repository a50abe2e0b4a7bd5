"""One trace, seen whole: from an endpoint of FastAPI through a queue, `map_async`, dead letters and Spark."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rstreams_spark import telemetry as spark_telemetry

import rstreams.blocking
from rstreams import Node, telemetry
from rstreams.runtime.portal import start_portal

if TYPE_CHECKING:
    from conftest import Eventually
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore"),  # Spark's own, about the versions of others
]

GOOD = "0af7651916cd43dd8448eb211c80319c"
BAD = "1bf7651916cd43dd8448eb211c80319d"


@contextmanager
def shop(url: str) -> Iterator[str]:
    """Run the example in a thread; give its address."""
    import uvicorn

    from examples.frameworks.fastapi_traces import app

    ready: Future[str] = Future()
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))

    async def main() -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.05)
        ready.set_result(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}")
        await serving

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AMQP_URL", url)
        thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
        thread.start()
        try:
            yield ready.result(60)
        finally:
            server.should_exit = True
            thread.join(60)


def test_one_trace_is_seen_whole(spark: SparkSession, tmp_path: Path, eventually: Eventually) -> None:
    import httpx

    seen = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(seen))
    trace.set_tracer_provider(provider)
    batches: list[int] = []

    def work(batch: DataFrame, number: int) -> None:
        with spark_telemetry.batch_span(batch, "parcels"), provider.get_tracer("job").start_as_current_span("count"):
            batches.append(batch.count() + 0 * number)

    with start_portal("node") as portal, portal.enter(Node()) as node:
        node.queue("failed")
        node.queue("orders", dead_letters="failed")
        node.queue("parcels")
        node.queue("shipped")
        url = portal.run(node.listen, "127.0.0.1:0").url
        with shop(url) as address, rstreams.blocking.connect(url) as connection:
            telemetry.instrument(connection)
            for trace_id, order in ((BAD, {"nothing": 1}), (GOOD, {"article": "a lamp"})):
                headers = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
                assert httpx.post(f"{address}/orders", json=order, headers=headers).status_code == 202
            failed = connection.messages("failed").take(1).to_list()
            eventually(lambda: named(seen, GOOD, "send parcels"), "the parcel is sent")
        options = {"url": url, "address": "parcels"}
        rows = spark.readStream.format("rstreams").options(**options).load()
        checkpoint = str(tmp_path / "work")
        query = rows.writeStream.foreachBatch(work).option("checkpointLocation", checkpoint)
        assert query.trigger(availableNow=True).start().awaitTermination(180)
        sink = spark.createDataFrame([("a", f"00-{GOOD}-b7ad6b7169203331-01")], "body string, parent string")
        sink = sink.selectExpr("body", "map('traceparent', parent) as properties")
        sink.write.format("rstreams").mode("append").options(url=url, address="shipped").save()
        with rstreams.blocking.connect(url) as connection:
            (shipped,) = connection.messages("shipped").take(1).to_list()

    assert str(failed[0].properties["traceparent"])[3:35] == BAD
    assert str(shipped.properties["traceparent"])[3:35] == GOOD
    assert sum(batches) == 1
    scopes = {span.name: span.instrumentation_scope.name for span in of(seen, GOOD) if span.instrumentation_scope}
    assert "POST /orders" in scopes  # FastAPI's own, with others
    assert {name: scope for name, scope in scopes.items() if scope in ("job", "rstreams", "shop")} == {
        **dict.fromkeys(
            ("accept orders", "process orders", "process parcels", "send orders", "send parcels"), "rstreams"
        ),
        "count": "job",
        "pack": "shop",
    }
    assert {"POST /orders", "send orders", "process orders", "process failed", "accept failed"} <= set(names(seen, BAD))
    assert "process parcels" not in names(seen, BAD)
    (process,) = named(seen, GOOD, "process parcels")
    (sent,) = named(seen, GOOD, "send parcels")
    assert sent.context is not None
    assert [link.context.span_id for link in process.links] == [sent.context.span_id]


def named(seen: InMemorySpanExporter, trace_id: str, name: str) -> list[ReadableSpan]:
    """Return the spans of a trace that have a name."""
    return [span for span in of(seen, trace_id) if span.name == name]


def names(seen: InMemorySpanExporter, trace_id: str) -> list[str]:
    """Return the names of the spans of a trace."""
    return sorted(span.name for span in of(seen, trace_id))


def of(seen: InMemorySpanExporter, trace_id: str) -> list[ReadableSpan]:
    """Return the spans of a trace."""
    spans = seen.get_finished_spans()
    return [span for span in spans if span.context and f"{span.context.trace_id:032x}" == trace_id]
