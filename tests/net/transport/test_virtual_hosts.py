"""Virtual hosts of RabbitMQ: their names in urls, in `open`, and in the error of a broker that hangs up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

import rstreams
from rstreams import Node, Reconnect, Stream
from rstreams.errors import ConfigError, ConnectFailed, ConnectionClosed
from rstreams.net.transport.address import parse_url
from tests.net.foreign import Foreign, attach_of
from tests.net.wire import AMQP_HEADER, SASL_HEADER, SASL_INIT, Peer, begin_frame, close_frame, flow_frame, open_frame


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


@pytest.mark.parametrize("reconnect", [None, Reconnect(first_delay_s=0.01)], ids=["once", "again"])
@pytest.mark.parametrize("path", ["/v2", "/%2F"])
async def test_a_node_has_none_and_says_so(
    path: str, reconnect: Reconnect | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with Node() as node:
        queue = node.queue("jobs")
        listener = await node.listen("127.0.0.1:0")
        with pytest.raises(ConnectionClosed, match=r"this node has no virtual hosts, and '.*' is one") as raised:
            async with rstreams.connect(listener.url + path, reconnect=reconnect) as connection:
                await connection.publish("jobs", Stream.of("of another tenant"))
        assert raised.value.condition == "amqp:unauthorized-access"
        assert queue.statistics().enqueued == 0
        async with rstreams.connect(listener.url) as connection:
            assert (await connection.publish("jobs", Stream.of("ours"))).complete
    assert [record.levelname for record in caplog.records if "no virtual hosts" in record.message] == ["WARNING"]


@pytest.mark.parametrize("host", ["vhost:v2", "vhost:/", "vhost:"])
async def test_a_client_of_another_make_gets_nothing_that_it_asks_for_together_with_one(host: str) -> None:
    async with Node() as node:
        queue = node.queue("jobs")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("jobs", Stream.of("ours"))
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            client = Foreign(stream)
            asks = attach_of("l", "receiver", address="jobs", snd=1), flow_frame(credit=10)
            await client.send(SASL_HEADER, SASL_INIT, AMQP_HEADER, open_frame(host=host), begin_frame(None), *asks)
            came = b""
            with trio.fail_after(10):
                while b"amqp:unauthorized-access" not in came or b"no virtual hosts" not in came:
                    came += await stream.receive_some()
                await client.send(close_frame())
                while more := await stream.receive_some():
                    came += more
        assert b"ours" not in came
        assert queue.statistics().ready == 1


@pytest.mark.parametrize("host", [None, "mq.example.com", "vhosts.example.com"])
async def test_the_name_of_a_host_is_no_virtual_host(host: str | None) -> None:
    async with Node() as node:
        node.queue("jobs")
        listener = await node.listen("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            client = Foreign(stream)
            await client.send(SASL_HEADER, SASL_INIT, AMQP_HEADER, open_frame(host=host), begin_frame(None))
            came = b""
            await client.send(attach_of("l", "receiver", address="jobs", snd=1))
            with trio.fail_after(10):
                while b"jobs" not in came:
                    came += await stream.receive_some()
            assert b"unauthorized" not in came
