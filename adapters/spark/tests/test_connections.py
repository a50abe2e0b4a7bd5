"""The sink's kept connections, against a node in another process; no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from rstreams_spark import _connections
from rstreams_spark._connections import connection_for
from rstreams_spark._options import SinkOptions

from adapters.spark.tests.broken_connection import proxy_to
from rstreams.errors import AuthenticationFailed, ConnectFailed, ConnectionLost

if TYPE_CHECKING:
    from conftest import Eventually, NodeProcess

pytestmark = pytest.mark.slow  # each test starts a node in a process of its own


def options(port: int, **more: str) -> SinkOptions:
    return SinkOptions.parse({"url": f"amqp://127.0.0.1:{port}"} | more)


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep no connection of another test, and close those of this one."""
    kept: dict[object, _connections.SendingConnection] = {}
    monkeypatch.setattr(_connections, "_kept", kept)
    yield
    for connection in kept.values():
        connection.close()


def test_a_connection_is_kept_from_task_to_task(node: NodeProcess) -> None:
    first = connection_for(options(node.port))
    assert first.is_open
    assert connection_for(options(node.port, address="another")) is first


def test_other_options_of_the_peer_make_another_connection(node: NodeProcess) -> None:
    with proxy_to(node.port) as proxy:
        first = connection_for(options(node.port))
        assert connection_for(options(proxy.port)) is not first
        assert connection_for(options(node.port, reconnect="false")) is not first


def test_what_is_wrong_with_a_new_connection_is_raised(guarded_node: NodeProcess) -> None:
    with pytest.raises(ConnectFailed):
        connection_for(options(1, maxReconnectTime="0ms"))
    with pytest.raises(AuthenticationFailed):
        connection_for(options(guarded_node.port, username="ada", password="wrong"))  # noqa: S106 - none


def test_a_lost_connection_without_reconnect_is_replaced(node: NodeProcess, eventually: Eventually) -> None:
    with proxy_to(node.port) as proxy:
        first = connection_for(options(proxy.port, reconnect="false"))
        proxy.reset()
        eventually(lambda: not first.is_open, "the loss is noticed")
        second = connection_for(options(proxy.port, reconnect="false"))
        assert second is not first
        assert second.is_open
        for connection in (first, second):
            connection.release()
        eventually(lambda: not first._thread.is_alive(), "a connection that is lost for good has no thread")
        second.close()


def test_a_closed_connection_says_so(node: NodeProcess) -> None:
    connection = connection_for(options(node.port))
    connection.close()

    async def nothing() -> None: ...

    with pytest.raises(ConnectionLost, match="the connection was closed"):
        connection.run(nothing)


def test_a_lost_connection_that_nobody_uses_ends(node: NodeProcess, eventually: Eventually) -> None:
    with proxy_to(node.port) as proxy:
        connection = connection_for(options(proxy.port))
        connection.release()
        assert connection_for(options(proxy.port)) is connection, "it is kept for the next task"
        connection.release()
        proxy.reset(refuse=True)
        eventually(lambda: not connection._thread.is_alive(), "it does not reconnect")


def test_a_lost_connection_ends_when_its_last_user_leaves(node: NodeProcess, eventually: Eventually) -> None:
    with proxy_to(node.port) as proxy:
        connection = connection_for(options(proxy.port))
        assert connection_for(options(proxy.port)) is connection
        proxy.reset(refuse=True)
        eventually(lambda: connection.connection.status.state != "connected", "the loss is noticed")
        connection.release()
        assert connection.is_open, "the other user waits for the peer"
        connection.release()
        eventually(lambda: not connection._thread.is_alive(), "it does not reconnect")
