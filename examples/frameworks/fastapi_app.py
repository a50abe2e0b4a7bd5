"""FastAPI: one connection for the application, an endpoint that publishes, and server-sent events with demand.

    AMQP_URL=amqp://127.0.0.1:5672 uvicorn examples.frameworks.fastapi_app:app

A slow browser slows its own stream down: an item is requested when the one before has been sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import StreamingResponse

import rstreams.aio as rstreams


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keep a connection open as long as the application runs."""
    async with (
        rstreams.connect(os.environ["AMQP_URL"], reconnect=rstreams.Reconnect()) as connection,
        connection.sender("orders") as orders,
    ):
        app.state.connection, app.state.orders = connection, orders
        yield


app = FastAPI(lifespan=lifespan)


def connection_of(request: Request) -> rstreams.Connection:
    """Return the connection of the application."""
    return request.app.state.connection  # type: ignore[no-any-return] # starlette's state is of any type


@app.post("/orders", status_code=202)
async def order(item: dict[str, Any], request: Request) -> dict[str, str]:
    """Answer when the queue has accepted the order."""
    await request.app.state.orders.send(item)
    return {"order": "accepted"}


@app.get("/prices")
async def prices(connection: Annotated[rstreams.Connection, Depends(connection_of)]) -> StreamingResponse:
    """Stream the prices, as long as the client listens."""

    async def events() -> AsyncIterator[str]:
        async with connection.stream("prices").open(window=16) as items:
            async for price in items:
                yield f"data: {json.dumps(price)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
