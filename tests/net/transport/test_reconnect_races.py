"""Connections that open and do not last, and those that are closed while the next one opens."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock

from rstreams import Reconnect
from rstreams.errors import ConnectFailed, ConnectionLost, LinkDetached
from rstreams.net._proton import LinkEnd
from rstreams.net.transport import reconnect
from rstreams.net.transport.address import PeerAddress, parse_url
from rstreams.net.transport.carrier import ConnectionStatus
from rstreams.net.transport.opening import OpeningOptions
from rstreams.net.transport.reconnect import KeptConnection
from rstreams.protocol.frames import Attach, Role

CLOSING = LinkDetached("amqp:connection:forced", "going down")
FRAME = Attach("test", Role.RECEIVER, "a", "")


class Opened:
    """A pump as far as its keeper knows it: it ends after some seconds, or when it is closed."""

    returns = False
    error = None

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.peer_capabilities: tuple[str, ...] = ()
        self.peer_properties: dict[str, Any] = {}
        self.user = ""
        self.waiting: list[Any] = []
        self.ended = trio.Event()

    async def close(self) -> None:
        self.ended.set()


class Peers:
    """What `open_connection` reaches: each host's connections last so long; None: it cannot be reached.

    Attributes:
        reached: When an attempt was made, and to which host.
        takes_s: How long opening takes, in seconds.
        pumps: The connections that were opened.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lasting_s: dict[str, float | None]) -> None:
        self.lasting_s = lasting_s
        self.reached: list[tuple[float, str]] = []
        self.takes_s = 0.0
        self.pumps: list[Opened] = []
        monkeypatch.setattr(reconnect, "open_connection", self.open)

    async def open(self, address: PeerAddress, _options: object, nursery: trio.Nursery, **_others: object) -> Opened:
        self.reached.append((trio.current_time(), address.host))
        await trio.sleep(self.takes_s)
        lasts_s = self.lasting_s[address.host]
        if lasts_s is None:
            raise ConnectFailed(address.host)
        pump = Opened(str(address))
        self.pumps.append(pump)
        nursery.start_soon(self._end, pump, lasts_s)
        return pump

    async def _end(self, pump: Opened, lasts_s: float) -> None:
        with trio.move_on_after(lasts_s):
            await pump.ended.wait()
        pump.ended.set()

    def kept(self, policy: Reconnect) -> KeptConnection:
        addresses = [parse_url(f"amqp://{host}") for host in self.lasting_s]
        return KeptConnection(
            addresses, cast("OpeningOptions", None), policy, random=lambda: 0.0, on_attach=lambda _driver, _frame: None
        )


@pytest.mark.parametrize("first_delay_s", [0.1, 0.001, 0.0])
@pytest.mark.parametrize("second", [0.0, 0.02, None])
async def test_delays_grow_while_a_peer_takes_connections_and_drops_them(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, first_delay_s: float, second: float | None
) -> None:
    del autojump_clock
    peers = Peers(monkeypatch, {"flapping": 0.0})
    async with trio.open_nursery() as nursery:
        await peers.kept(Reconnect(first_delay_s=first_delay_s)).open(nursery)
        peers.lasting_s["flapping"] = second
        await trio.sleep(3600)
        nursery.cancel_scope.cancel()
    assert len(peers.reached) < 160, "not ten a second: the last delays are 30 seconds long"


@pytest.mark.parametrize("first_delay_s", [0.1, 0.0])
async def test_a_peer_that_drops_each_connection_is_given_up(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, first_delay_s: float
) -> None:
    del autojump_clock
    told: list[ConnectionStatus] = []
    peers = Peers(monkeypatch, {"flapping": 0.0})
    async with trio.open_nursery() as nursery:
        policy = Reconnect(first_delay_s=first_delay_s, max_attempts=4, on_status=told.append)
        await peers.kept(policy).open(nursery)
    assert len(peers.reached) == 4
    assert [status.attempt for status in told if status.state == "lost"] == [1, 2, 3]
    assert told[-1].state == "closed"
    assert isinstance(told[-1].error, ConnectionLost)


async def test_a_connection_that_lasted_begins_the_delays_anew(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    del autojump_clock
    told: list[ConnectionStatus] = []
    peers = Peers(monkeypatch, {"steady": 100.0})
    async with trio.open_nursery() as nursery:
        await peers.kept(Reconnect(max_attempts=2, on_status=told.append)).open(nursery)
        await trio.sleep(1000)
        nursery.cancel_scope.cancel()
    assert {status.delay_s for status in told if status.state == "lost"} == {0.1}
    assert len(peers.reached) == 10


async def test_another_url_gets_its_turn_when_the_first_drops_each_connection(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    del autojump_clock
    peers = Peers(monkeypatch, {"flapping": 0.0, "dead": None, "steady": 1e9})
    async with trio.open_nursery() as nursery:
        kept = peers.kept(Reconnect())
        await kept.open(nursery)
        await trio.sleep(1)
        assert [host for _, host in peers.reached] == ["flapping", "dead", "steady"]
        assert kept.status.state == "connected"
        nursery.cancel_scope.cancel()


async def test_a_connection_that_opens_after_the_close_is_closed(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    del autojump_clock
    peers = Peers(monkeypatch, {"slow": 5.0})
    async with trio.open_nursery() as nursery:
        kept = peers.kept(Reconnect())
        await kept.open(nursery)
        peers.takes_s = 2.0
        await trio.sleep(6)  # lost, and opening again
        await kept.close()
        assert kept.status.state == "closed"
        with trio.fail_after(2):
            while len(peers.pumps) < 2:  # noqa: ASYNC110 - virtual time
                await trio.sleep(0.1)
            await peers.pumps[1].ended.wait()
        assert kept.status.state == "closed"


# links that the peer ends because it is about to close the connection


class Refused:
    """A link's end whose peer refuses it each time, so many times."""

    wants_link = True

    def __init__(self, kept: KeptConnection, times: int) -> None:
        self.kept = kept
        self.times = times
        self.attached_at: list[float] = []

    def attach(self) -> None:
        self.attached_at.append(trio.current_time())
        if self.times:
            self.times -= 1
            self.kept.attach_later(cast("LinkEnd", self), FRAME, CLOSING)


async def test_what_a_peer_ends_and_stays_is_attached_again_at_growing_distances(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    del autojump_clock
    monkeypatch.setattr(Opened, "attach", lambda _pump, end, _frame: end.attach(), raising=False)
    peers = Peers(monkeypatch, {"steady": 1e9})
    async with trio.open_nursery() as nursery:
        kept = peers.kept(Reconnect(first_delay_s=1.0, max_delay_s=8.0))
        await kept.open(nursery)
        begun = trio.current_time()
        one, two = Refused(kept, 5), Refused(kept, 5)
        one.attach()
        two.attach()
        await trio.sleep(1000)
        assert [at - begun for at in one.attached_at] == [0, 1, 3, 7, 15, 23], "together: a peer closes for all"
        assert two.attached_at == one.attached_at

        one.times = 1
        one.attach()  # much later: the delays begin anew
        await trio.sleep(1000)
        assert one.attached_at[-1] - one.attached_at[-2] == 1
        assert len(peers.reached) == 1, "the connection lives"
        nursery.cancel_scope.cancel()


async def test_what_waits_on_a_connection_that_ends_goes_to_the_next_one_and_once(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    del autojump_clock
    monkeypatch.setattr(Opened, "attach", lambda _pump, end, _frame: end.attach(), raising=False)
    peers = Peers(monkeypatch, {"closing": 30.0})
    async with trio.open_nursery() as nursery:
        kept = peers.kept(Reconnect(first_delay_s=5.0))
        await kept.open(nursery)
        begun = trio.current_time()
        end = Refused(kept, 1)
        await trio.sleep(27)
        end.attach()
        peers.lasting_s["closing"] = 1e9
        await trio.sleep(1000)
        assert [at - begun for at in end.attached_at] == [27, 35], "three until the end, and the policy's five"
        nursery.cancel_scope.cancel()
