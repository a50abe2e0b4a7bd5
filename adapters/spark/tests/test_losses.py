"""Losses of a connection in virtual time: when a query gives up."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
import trio
import trio.testing
from rstreams_spark._losses import LASTING_S, Losses

from rstreams.errors import ConnectionLost, LinkDetached
from rstreams.net.transport.carrier import ConnectionStatus

LIMIT_S = 10.0
CONNECTED = ConnectionStatus("connected", "h:1")
LOST = ConnectionStatus("lost", "h:1", ConnectionLost("it hung up"))


class Query:
    """A query's connection, played by the test; it notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.given_up_after_s = 0.0
        self.losses = Losses(
            LIMIT_S,
            lambda: "rstreams source",
            on_away=lambda: self.told.append("away"),
            on_back=lambda: self.told.append("back"),
            on_detached=lambda: self.told.append("detached"),
            on_given_up=self.give_up,
        )

    def give_up(self, error: BaseException) -> None:
        self.told.append(str(error))
        self.given_up_after_s = trio.current_time()

    async def play(self, lasts_s: float, times: int) -> None:
        """Connect and lose the connection again and again, half a second later each time."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.losses.watch)
            for _ in range(times):
                self.tell(CONNECTED)
                await trio.sleep(lasts_s)
                self.tell(LOST)
                await trio.sleep(0.5)
            nursery.cancel_scope.cancel()

    def tell(self, status: ConnectionStatus) -> None:
        policy = self.losses.policy
        assert policy is not None
        assert policy.on_status is not None
        policy.on_status(status)


async def test_a_peer_that_drops_each_connection_at_once_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    query = Query()
    began = trio.current_time()
    await query.play(LASTING_S / 2, 100)
    assert query.told[-1] != "back"
    assert f"no connection for {LIMIT_S:g} s (option maxReconnectTime): ConnectionLost: it hung up" in query.told
    assert LIMIT_S <= query.given_up_after_s - began <= LIMIT_S + 2
    assert query.losses.scope.cancel_called


async def test_connections_that_last_are_not_counted_together(autojump_clock: trio.testing.MockClock) -> None:
    query = Query()
    await query.play(LASTING_S * 2, 100)
    assert set(query.told) == {"away", "back"}
    assert not query.losses.scope.cancel_called


async def test_a_connection_that_stays_away_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    query = Query()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(query.losses.watch)
        query.tell(CONNECTED)
        await trio.sleep(100)
        lost_at = trio.current_time()
        query.tell(LOST)
    assert query.given_up_after_s - lost_at == pytest.approx(LIMIT_S)


async def test_a_detached_link_is_told_of(capfd: pytest.CaptureFixture[str]) -> None:
    query = Query()
    policy = query.losses.policy
    assert policy is not None
    assert policy.links_s == LIMIT_S
    assert policy.on_detached is not None
    policy.on_detached(LinkDetached("amqp:resource-deleted", "gone"))
    assert query.told == ["detached"]
    assert "the link has ended, and it is attached again for up to 10 s" in capfd.readouterr().err


async def test_without_a_limit_nothing_is_opened_again(autojump_clock: trio.testing.MockClock) -> None:
    losses = Losses(0.0, "rstreams source", on_given_up=lambda _: None)
    assert losses.policy is None


DIALS = """
import trio, rstreams
from rstreams_spark._losses import Losses

async def main():
    losses = Losses(0.6, lambda: "rstreams source, address 'in' at h:1", on_given_up=lambda error: None)
    with losses.scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(losses.watch)
            async with rstreams.connect("amqp://127.0.0.1:{port}", reconnect=losses.policy):
                pass

trio.run(main)
"""


@pytest.mark.slow
def test_a_peer_that_is_away_is_one_line_in_the_log() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        ended = subprocess.run(
            [sys.executable, "-c", DIALS.format(port=port)], capture_output=True, text=True, check=True, timeout=60
        )
    assert [line[:60] for line in ended.stderr.splitlines()] == [
        "rstreams source, address 'in' at h:1: there is no connection"[:60]
    ]
