"""FastAPI with traces: one trace from a request to the parcel that is made of its order, or to its dead letter.

    AMQP_URL=amqp://127.0.0.1:5672 uvicorn examples.frameworks.fastapi_traces:app

The node has the queues `orders`, with dead letters, and `parcels`. Orders are packed in the background; an order of
nothing is rejected. Give OpenTelemetry's SDK an exporter, as its documentation says, to see the traces: the request,
and what it caused in this service, at the node's other clients and in Spark.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI, Request
from opentelemetry.trace import get_tracer

import rstreams.aio as rstreams
from rstreams import telemetry

tracer = get_tracer("shop")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keep a traced connection open as long as the application runs, and pack orders meanwhile."""
    async with rstreams.connect(os.environ["AMQP_URL"], reconnect=rstreams.Reconnect(at_start=True)) as connection:
        telemetry.instrument(connection)
        async with connection.sender("orders") as orders:
            app.state.orders = orders
            packing = asyncio.create_task(pack_orders(connection))
            yield
            packing.cancel()
            with suppress(asyncio.CancelledError):
                await packing


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def order(item: dict[str, Any], request: Request) -> dict[str, str]:
    """Answer when the queue has accepted the order."""
    await request.app.state.orders.send(item)  # in the span that FastAPI has for the request
    return {"order": "accepted"}


async def pack_orders(connection: rstreams.Connection) -> None:
    """Make parcels of orders; a parcel goes to its queue in the trace of its order."""
    orders = connection.stream("orders", on_failure="reject")
    await connection.publish("parcels", orders.map_async(pack, concurrency=4).retry())


async def pack(ordered: dict[str, Any]) -> dict[str, Any]:
    """Return the parcel of an order."""
    with tracer.start_as_current_span("pack"):  # in the trace of the request that has sent the order
        await asyncio.sleep(0.01)
        return {"parcel": ordered["article"]}
