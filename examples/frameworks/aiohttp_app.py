"""aiohttp: one connection for the application, and a request to a responder for each request of a client.

AMQP_URL=amqp://127.0.0.1:5672 python -m aiohttp.web examples.frameworks.aiohttp_app:make_app
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from aiohttp import web

import rstreams.aio as rstreams
from rstreams.errors import RequestFailed, StreamTimeout

PRICES: web.AppKey[rstreams.Requester[float]] = web.AppKey("prices")


async def requester(app: web.Application) -> AsyncIterator[None]:
    """Keep a connection open as long as the application runs."""
    async with (
        rstreams.connect(os.environ["AMQP_URL"], reconnect=rstreams.Reconnect(at_start=True)) as connection,
        connection.requester("price", timeout_s=2.0) as prices,
    ):
        app[PRICES] = prices
        yield


async def price(request: web.Request) -> web.Response:
    """Ask the responder; tell the client what it says."""
    article = request.match_info["article"]
    try:
        found = await request.app[PRICES].request(article)
    except RequestFailed as error:
        raise web.HTTPNotFound(text=error.description) from error
    except StreamTimeout as error:
        raise web.HTTPGatewayTimeout from error
    return web.json_response({"article": article, "price": found})


def make_app(_: list[str] | None = None) -> web.Application:
    """Return the application."""
    app = web.Application()
    app.cleanup_ctx.append(requester)
    app.router.add_get("/price/{article}", price)
    return app
