"""FastAPI: one connection for the application, an endpoint that publishes, and server-sent events with demand.

    AMQP_URL=amqp://127.0.0.1:5672 uvicorn --timeout-graceful-shutdown 5 examples.frameworks.fastapi_app:app

`orders` is a queue of the node. `prices` is a served stream, or a multicast with `overflow="drop_oldest"`: with the
default of a multicast, publishers would wait while no browser listens. A slow browser slows only its own stream down:
an item is requested when the one before has been sent.

At SIGTERM uvicorn waits for its responses, and ends the lifespan behind them. A response without end must therefore
hear of the signal itself. The time limit is for browsers that do not read any more.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import FrameType
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import StreamingResponse

import rstreams.aio as rstreams


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keep a connection open as long as the application runs."""
    async with (
        rstreams.connect(os.environ["AMQP_URL"], reconnect=rstreams.Reconnect(at_start=True)) as connection,
        connection.sender("orders") as orders,
    ):
        app.state.connection, app.state.orders = connection, orders
        app.state.ending = told_of_the_end()
        yield


def told_of_the_end() -> asyncio.Event:
    """Return an event that is set at SIGTERM and Ctrl-C, before the server does what it does then."""
    ending, loop = asyncio.Event(), asyncio.get_running_loop()
    servers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}

    def tell(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(ending.set)
        if callable(server := servers[signal.Signals(number)]):
            server(number, frame)

    with suppress(ValueError):  # in another thread than the main one, as in tests, there are no signals
        for each in servers:
            signal.signal(each, tell)
    return ending


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
async def prices(
    request: Request, connection: Annotated[rstreams.Connection, Depends(connection_of)]
) -> StreamingResponse:
    """Stream the prices, as long as the client listens and the service runs."""
    end = rstreams.Stream.from_callable(request.app.state.ending.wait)

    async def events() -> AsyncIterator[str]:
        async with connection.stream("prices").take_until(end).open(window=16) as items:
            async for price in items:
                yield f"data: {json.dumps(price)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")
