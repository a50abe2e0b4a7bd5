"""The turns of an engine's links: nobody waits for all others to have been through with what came for them."""

from __future__ import annotations

import math

import pytest

from rstreams import _machine
from rstreams.net._proton import LinkDriver
from rstreams.net._proton.receiving_driver import ReceivingDriver
from rstreams.net._proton.sending_driver import SendingDriver
from rstreams.protocol.frames import Attach, Role
from rstreams.protocol.options import ReceivingOptions
from rstreams.protocol.receiver import LinkSubscription
from rstreams.testing import ProbeSubscriber
from tests.net.engines import Engines, Side
from tests.net.wire import AMQP_HEADER, attach_frame, begin_frame, open_frame, transfer_frame
from tests.protocol.played import never


def test_a_link_that_wants_to_work_does_though_the_time_is_up_before_all_have_got_what_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handled: list[int] = []
    monkeypatch.setattr(_machine, "now", lambda: float(len(handled)))  # each item takes its handler a second
    ends: list[LinkSubscription[int]] = []

    def take(driver: LinkDriver, attach: Attach) -> None:
        probe = ProbeSubscriber[int](8, on_item=handled.append)
        end = LinkSubscription(probe, ReceivingOptions(decode=len, window=8), never)
        ends.append(end)
        link = end.bind(attach.name, driver)
        driver.bind(link)
        link.receive(attach)
        link.send(Attach(attach.name, Role.RECEIVER, attach.source, attach.target))
        end.start()

    side = Side("node", server=True, max_frame_bytes=65536)
    side.answer = take
    attached = [attach_frame(f"{n}", "sender", target="a", initial_delivery_count=0, handle=n) for n in range(3)]
    side.engine.feed(AMQP_HEADER + open_frame() + begin_frame(None) + b"".join(attached))
    while side.output():
        pass
    came = [transfer_frame(n, b"x", handle=n) for n in range(3)]
    side.engine.feed(b"".join(came))

    done = []
    while side.engine.dispatch(8, 0.5):
        done.append((len(handled), sum(not end.ledger.unsettled for end in ends[: len(handled)])))
    assert done[:2] == [(1, 1), (2, 2)], "each is told of while the next ones wait"
    assert len(handled) == 3
    side.engine.free()


def test_who_sends_hears_what_came_before_a_run_of_items_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[bool] = []

    def hand_over(driver: LinkDriver, _most: int) -> bool:
        order.append(driver.sends)
        return False

    for kind in (ReceivingDriver, SendingDriver):
        monkeypatch.setattr(kind, "hand_over", hand_over)
    engines = Engines()
    for name, role in (("receives", Role.RECEIVER), ("sends", Role.SENDER), ("receives, too", Role.RECEIVER)):
        engines.one.engine.turns.read_on(engines.one.engine.links.new(name, role))
    engines.one.engine.dispatch(1, 1.0)
    assert order == [True, False, False]
    engines.free()


def test_what_is_done_ahead_of_a_turn_acts_on_no_event_and_makes_no_call() -> None:
    """It happens inside of a publisher's signal; the events and the calls are left to the next turn, which is due."""
    engines = Engines()
    engine, calls = engines.one.engine, engines.one.engine._host.calls
    assert not engine.take_ahead(0.0)[1]
    engine._host.call_after(0, lambda: calls_made.append(None))
    calls_made: list[None] = []
    engine.work_ahead(8, 1)
    assert engine.take_ahead(0.0)[1]
    assert not calls_made
    engine.tick(1)
    assert calls_made
    assert calls.due == math.inf
    assert not engine.take_ahead(0.0)[1]

    engines.other.engine.close("x:away", "")
    engine.feed(bytes(engines.other.engine.output()))
    engine.work_ahead(8, 1)
    assert engine.take_ahead(0.0)[1]
    assert not engines.one.closed
    engine.dispatch(8, 1)
    (closed,) = engines.one.closed
    assert closed is not None
    assert closed.condition == "x:away"
    engines.free()
