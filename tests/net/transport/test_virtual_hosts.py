"""Virtual hosts of RabbitMQ: their names in urls, in `open`, and in the error of a broker that hangs up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

import rstreams
from rstreams.errors import ConfigError, ConnectFailed
from rstreams.net.transport.address import parse_url
from tests.net.wire import Peer


@asynccontextmanager
async def broker(script: Callable[[Peer], Awaitable[None]]) -> AsyncIterator[str]:
    """Listen, and play the peer of each client by `script`; yields the url."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await script(Peer(stream))

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield f"amqp://127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("path", "asked_for"),
    [("", "127.0.0.1"), ("/", "127.0.0.1"), ("/v2", "vhost:v2"), ("/%2F", "vhost:/"), ("/a%20b%2Fc", "vhost:a b/c")],
)
async def test_the_name_in_the_url_is_the_hostname_of_open(path: str, asked_for: str) -> None:
    hostnames: list[object] = []

    async def script(peer: Peer) -> None:
        await peer.opens()
        assert peer.open is not None
        hostnames.append(peer.open["hostname"])
        await peer.closes()

    async with broker(script) as url, rstreams.connect(url + path):
        pass
    assert hostnames == [asked_for]


@pytest.mark.parametrize("rest", ["/a/b", "//", "/v2?x=1", "/v2#x", "?x", "/a%00b"])
def test_what_is_no_name_is_refused(rest: str) -> None:
    with pytest.raises(ConfigError, match="only the name of a virtual host of RabbitMQ may follow the port"):
        parse_url(f"amqp://127.0.0.1:5672{rest}")


async def test_a_broker_that_hangs_up_when_it_is_opened_gets_a_hint_at_virtual_hosts() -> None:
    async def script(peer: Peer) -> None:
        await peer.sasl()
        await peer.send(await peer.take(8))

    async with broker(script) as url:
        with pytest.raises(ConnectFailed, match="RabbitMQ does that if it has no virtual host 'v2', or its user"):
            async with rstreams.connect(f"{url}/v2"):
                pass
