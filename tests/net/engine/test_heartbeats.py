"""Something leaves for the peer within half of the idle-time-out that it has announced, whatever was sent before.

Spec: AMQP 1.0 section 2.4.5 (idle time-out).
"""

from __future__ import annotations

from typing import Any, Final

import pytest
import trio

from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.engines import Side
from tests.net.peers import until
from tests.net.wire import AMQP_HEADER, Peer, attach_frame, begin_frame, flow_frame, open_frame, scripted

IDLE_MS: Final = 2000
HALF_S: Final = IDLE_MS / 2000
PAUSES_S: Final = [0.05, 0.3, 0.5, 0.95, 0.99]
SOON_S: Final = 0.002  # the clock of the engine counts milliseconds


class Timed(Peer):
    """A peer that knows when something came, and how long at most nothing did."""

    longest = 0.0
    last = 0.0

    async def take(self, size: int) -> bytes:
        taken = await super().take(size)
        now = trio.current_time()
        self.longest = max(self.longest, now - self.last)
        self.last = now
        return taken


@pytest.mark.parametrize("sends", ["flows", "items in turns", "items ahead of turns"])
@pytest.mark.parametrize("pause_s", [0.05, 0.95])
@pytest.mark.usefixtures("autojump_clock")
async def test_a_client_is_never_silent_for_longer(sends: str, pause_s: float) -> None:
    publisher = ManualPublisher[bytes]()
    probe = ProbeSubscriber[Any](1)

    async def script(plain: Peer) -> None:
        peer = Timed(plain._stream)
        await peer.opens(idle_ms=IDLE_MS)
        await peer.begins()
        attach = await peer.expect("attach")
        role = "sender" if attach["role"] else "receiver"
        source = {"source": "a", "initial_delivery_count": 0} if role == "sender" else {"target": "a"}
        await peer.send(attach_frame(attach["name"], role, **source), flow_frame(credit=1000))
        peer.longest, peer.last = 0.0, trio.current_time()
        await peer.closes()
        assert peer.longest <= HALF_S + SOON_S
        assert peer.heartbeats > 5

    async with scripted(script) as connection, trio.open_nursery() as nursery:
        if sends == "flows":
            connection.stream("a", window=1000).subscribe(probe)
            await until(lambda: "on_subscribe" in probe.signals)
        else:
            nursery.start_soon(connection.publish, "a", publisher)
            await until(lambda: publisher.outstanding > 0)
        for _ in range(4):
            await trio.sleep(pause_s)
            if sends == "flows":
                probe.request(1)
            else:
                for _ in range(1 if sends == "items ahead of turns" else min(50, publisher.outstanding)):
                    publisher.next(b"a")
            await trio.sleep(2.5)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("server", [True, False], ids=["a node", "a client"])
@pytest.mark.parametrize("pause_s", PAUSES_S)
def test_the_next_output_is_due_half_of_the_time_behind_the_last_one(pause_s: float, *, server: bool) -> None:
    side = Side("one", server=server, max_frame_bytes=65536)
    engine = side.engine
    engine.feed(AMQP_HEADER + open_frame(idle_ms=IDLE_MS) + (begin_frame(None) if server else b""))
    last = now = 10.0
    _, due, _ = engine.turn(256, 1.0, now)
    for step in range(30):
        if step % 3:
            now = due
        else:
            now += pause_s
            engine.feed(begin_frame(None, channel=step + 1))  # is answered
        output, due, _ = engine.turn(256, 1.0, now)
        if output:
            assert now - last <= HALF_S + SOON_S
            last = now
    engine.free()
