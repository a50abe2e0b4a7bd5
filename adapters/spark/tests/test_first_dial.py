"""The first connection of each end: it is tried for as long as a lost one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from rstreams_spark import _connections
from rstreams_spark._connections import connection_for
from rstreams_spark._logs.survey import Survey
from rstreams_spark._options import SinkOptions, SourceOptions
from rstreams_spark._receiver import Receiver

from adapters.spark.tests.broken_connection import Proxy, proxy_to
from adapters.spark.tests.conftest import NodeProcess, running_node
from benchmarks._processes import free_port
from rstreams.errors import RStreamsError

if TYPE_CHECKING:
    from conftest import Eventually

pytestmark = pytest.mark.slow  # each test starts a node in a process of its own

End = Callable[[dict[str, str]], None]


def queue_end(options: dict[str, str]) -> None:
    Receiver(SourceOptions.parse(options), lambda: None).close()


def log_end(options: dict[str, str]) -> None:
    with closing(Survey(SourceOptions.parse(options))) as survey:
        assert survey.kind() == "queue"


def sink_end(options: dict[str, str]) -> None:
    connection_for(SinkOptions.parse(options)).release()


ENDS: dict[str, End] = {"queue": queue_end, "log": log_end, "sink": sink_end}


class Refusing:
    """A peer that is away: nothing listens."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._proxy: Proxy | None = None

    def come_back(self) -> None:
        """Let connections through from now on."""
        self._proxy = Proxy(self._target, self.port)

    def close(self) -> None:
        if self._proxy is not None:
            self._proxy.close()


class HangingUp:
    """A peer that is away: each connection is accepted, and closed at once."""

    def __init__(self, target: int) -> None:
        self._proxy = Proxy(target)
        self._proxy.reset(refuse=True)
        self.port = self._proxy.port

    def come_back(self) -> None:
        """Let connections through from now on."""
        self._proxy.reset()

    def close(self) -> None:
        self._proxy.close()


AWAY = {"refusing": Refusing, "hanging up": HangingUp}


@pytest.fixture(scope="module")
def node() -> Iterator[NodeProcess]:
    with running_node("in") as node:
        yield node


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep no connection of another test, and close those of this one."""
    kept: dict[object, _connections.SendingConnection] = {}
    monkeypatch.setattr(_connections, "_kept", kept)
    yield
    for connection in kept.values():
        connection.close()


class Dial:
    """An end that dials in another thread."""

    def __init__(self, end: str, port: int, **options: str) -> None:
        self.error: BaseException | None = None
        given = {"url": f"amqp://127.0.0.1:{port}", "address": "in"} | options
        self._thread = threading.Thread(target=self._run, args=(ENDS[end], given), daemon=True)
        self._thread.start()

    def _run(self, end: End, given: dict[str, str]) -> None:
        try:
            end(given)
        except RStreamsError as error:
            self.error = error

    def ended(self) -> str:
        """Wait until it has an end; return the text of its error, if it has one."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return str(self.error or "")


@pytest.mark.parametrize("away", AWAY)
@pytest.mark.parametrize("end", ENDS)
def test_a_peer_that_restarts_is_waited_for(
    node: NodeProcess, eventually: Eventually, capfd: pytest.CaptureFixture[str], end: str, away: str
) -> None:
    with closing(AWAY[away](node.port)) as peer:
        dial = Dial(end, peer.port)
        told = ""

        def waits() -> bool:
            nonlocal told
            told += capfd.readouterr().err
            return "there is no connection yet, and it is tried for up to 600 s (option maxReconnectTime)" in told

        eventually(waits, "it waits")
        peer.come_back()
        assert dial.ended() == ""


@pytest.mark.parametrize("end", ENDS)
def test_a_peer_that_stays_away_ends_it_with_the_option_and_the_reason(end: str) -> None:
    dial = Dial(end, free_port(), maxReconnectTime="50ms")
    assert "no connection for 0.05 s (option maxReconnectTime): ConnectFailed: cannot connect" in dial.ended()


@pytest.mark.parametrize("options", [{"reconnect": "false"}, {"maxReconnectTime": "0ms"}])
@pytest.mark.parametrize("end", ENDS)
def test_without_reconnecting_it_ends_at_once(end: str, options: dict[str, str]) -> None:
    dial = Dial(end, free_port(), **options)
    assert "cannot connect to 127.0.0.1" in dial.ended()
    assert "maxReconnectTime" not in str(dial.error)


def test_a_wrong_password_ends_it_at_once(guarded_node: NodeProcess) -> None:
    for end in ENDS:
        dial = Dial(end, guarded_node.port, username="ada", password="wrong")  # noqa: S106 - none
        dial.ended()
        assert "AuthenticationFailed" in f"{type(dial.error).__name__} {dial.error}", end


@pytest.mark.parametrize("limit", ["1ms", "50ms"])
def test_a_task_with_a_shorter_limit_of_its_own_waits_no_longer(limit: str) -> None:
    dial = Dial("sink", free_port(), sendTimeout=limit)
    assert f"no connection for 0.0{'01' if limit == '1ms' else '5'} s (option sendTimeout): " in dial.ended()


def test_a_peer_that_does_not_answer_is_not_waited_for_beyond_that_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dial = Dial("sink", silent.getsockname()[1], sendTimeout="50ms", reconnect="false")
        assert "no connection for 0.05 s (option sendTimeout): the peer has not answered" in dial.ended()


def test_an_idle_connection_that_was_closed_is_opened_by_the_next_task(
    node: NodeProcess, eventually: Eventually
) -> None:
    """A worker keeps its connection between tasks; one that is lost meanwhile ends, and a restart may go on."""
    with proxy_to(node.port) as proxy:
        options = SinkOptions.parse({"url": f"amqp://127.0.0.1:{proxy.port}"})
        first = connection_for(options)
        first.release()
        proxy.reset(refuse=True)
        eventually(lambda: not first._thread.is_alive(), "it is lost, and nobody uses it")
        dial = Dial("sink", proxy.port)
        refused = proxy.refused
        eventually(lambda: proxy.refused >= refused + 2, "it dials again")
        proxy.reset()
        assert dial.ended() == ""


def test_a_source_that_is_closed_waits_for_no_peer(eventually: Eventually, monkeypatch: pytest.MonkeyPatch) -> None:
    receivers: list[Receiver] = []
    dialled = Receiver._dialled

    async def note(receiver: Receiver) -> None:
        receivers.append(receiver)
        await dialled(receiver)

    monkeypatch.setattr(Receiver, "_dialled", note)
    dial = Dial("queue", free_port())
    eventually(lambda: receivers, "it dials")
    receivers[0].close()
    assert "the connection was closed from this side" in dial.ended()
