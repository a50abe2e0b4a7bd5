"""Multicast, and what is the same for all that have a capacity: `demand`, `on_demand` and `send`."""

from __future__ import annotations

import logging

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.push import EmitResult, Multicast, Replay, Unicast
from rstreams.testing import ProbeSubscriber, VirtualScheduler


def test_nobody_gets_what_nobody_is_there_for() -> None:
    pushing, probe = Multicast[int](), ProbeSubscriber[int](UNBOUNDED)
    assert pushing.emit(1) is EmitResult.NO_SUBSCRIBER
    assert pushing.demand == 0

    pushing.subscribe(probe)
    pushing.emit(2)
    probe.cancel()

    assert probe.items == [2]
    assert pushing.emit(3) is EmitResult.NO_SUBSCRIBER


def test_everyone_gets_what_is_pushed_from_then_on() -> None:
    pushing, first, second = Multicast[int](), ProbeSubscriber[int](9), ProbeSubscriber[int](9)
    pushing.subscribe(first)
    pushing.emit(1)
    pushing.subscribe(second)
    pushing.emit(2)

    assert first.items == [1, 2]
    assert second.items == [2]


def test_the_slowest_rules() -> None:
    pushing, quick, slow = Multicast[int](2), ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](1)
    pushing.subscribe(quick)
    pushing.subscribe(slow)
    assert pushing.demand == 3

    assert [pushing.emit(item) for item in range(4)] == [EmitResult.OK] * 3 + [EmitResult.OVERFLOW]
    assert quick.items == [0, 1, 2]
    assert slow.items == [0]

    slow.request(1)
    assert slow.items == [0, 1]
    assert pushing.demand == 1
    slow.cancel()
    assert pushing.demand == UNBOUNDED


def test_without_capacity_an_item_is_for_all_or_nobody() -> None:
    pushing, first, second = Multicast[int](0), ProbeSubscriber[int](2), ProbeSubscriber[int](1)
    pushing.subscribe(first)
    pushing.subscribe(second)

    assert pushing.emit(1) is EmitResult.OK
    assert pushing.emit(2) is EmitResult.OVERFLOW

    assert first.items == second.items == [1]


def test_one_that_raises_leaves_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_item: int) -> None:
        raise ArithmeticError

    pushing, bad, good = Multicast[int](), ProbeSubscriber[int](9, on_item=refuse), ProbeSubscriber[int](9)
    pushing.subscribe(bad)
    pushing.subscribe(good)

    with caplog.at_level(logging.ERROR, "rstreams"):
        assert pushing.emit(1) is EmitResult.OK
    pushing.emit(2)

    assert bad.items == [1]
    assert good.items == [1, 2]
    assert "counts as cancelled" in caplog.text


def test_on_demand_tells_when_there_is_room() -> None:
    pushing, probe = Multicast[int](0), ProbeSubscriber[int]()
    heard: list[int] = []
    pushing.on_demand = heard.append
    pushing.subscribe(probe)
    assert heard == []

    probe.request(2)
    probe.request(1)
    assert heard == [2, 3]
    pushing.emit(1)
    pushing.emit(2)
    pushing.emit(3)
    assert heard == [2, 3]
    probe.request(4)
    assert heard == [2, 3, 4]


def test_on_demand_may_emit() -> None:
    pushing = Unicast[int](0)
    numbers = iter(range(10_000))

    def refill(demand: int) -> None:
        assert demand == pushing.demand
        pushing.emit(next(numbers))

    pushing.on_demand = refill
    probe = ProbeSubscriber[int](1, on_item=lambda item: probe.request(1) if item < 5000 else None)
    pushing.subscribe(probe)

    assert probe.items == list(range(5001))


def test_who_leaves_may_make_room() -> None:
    pushing, quick, slow = Multicast[int](1), ProbeSubscriber[int](5), ProbeSubscriber[int]()
    heard: list[int] = []
    pushing.subscribe(quick)
    pushing.subscribe(slow)
    pushing.emit(1)
    pushing.on_demand = heard.append

    slow.cancel()

    assert heard == [5]


def test_send_waits_for_room_and_senders_are_served_in_turn() -> None:
    pushing, probe = Multicast[int](1), ProbeSubscriber[int]()
    results: list[tuple[int, EmitResult]] = []

    async def send(item: int) -> None:
        results.append((item, await pushing.send(item)))

    with VirtualScheduler() as scheduler:
        for item in range(4):
            scheduler.start(lambda item=item: send(item))  # type: ignore[misc]
        scheduler.run()
        assert results == []  # nobody is there
        pushing.subscribe(probe)
        scheduler.run()
        assert results == [(0, EmitResult.OK)]
        probe.request(1)
        scheduler.run()
        assert [item for item, _ in results] == [0, 1]
        probe.request(9)
        scheduler.run()
        assert [item for item, _ in results] == [0, 1, 2, 3]
        assert probe.items == [0, 1, 2, 3]
        assert scheduler.running == 0


def test_a_sender_that_was_overtaken_stays_the_first() -> None:
    pushing, probe = Multicast[int](0), ProbeSubscriber[int]()
    sent: list[int] = []

    async def send(item: int) -> None:
        await pushing.send(item)
        sent.append(item)

    with VirtualScheduler() as scheduler:
        pushing.subscribe(probe)
        for item in (1, 2):
            scheduler.start(lambda item=item: send(item))  # type: ignore[misc]
        scheduler.run()
        probe.request(1)
        pushing.emit(0)  # before the first sender has run
        scheduler.run()
        assert sent == []
        probe.request(2)
        scheduler.run()

    assert probe.items == [0, 1, 2]


def test_a_cancelled_sender_has_sent_nothing_and_lets_the_next_one_go() -> None:
    pushing, probe = Multicast[int](0), ProbeSubscriber[int]()

    async def send(item: int) -> None:
        await pushing.send(item)

    with VirtualScheduler() as scheduler:
        pushing.subscribe(probe)
        first = scheduler.start(lambda: send(1))
        scheduler.start(lambda: send(2))
        scheduler.run()
        probe.request(1)  # wakes the first
        first.cancel()
        scheduler.run()

    assert probe.items == [2]


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_senders_are_told_that_there_will_never_be_room(end: str) -> None:
    pushing, probe = Unicast[int](0), ProbeSubscriber[int]()
    results: list[EmitResult] = []

    async def send() -> None:
        results.append(await pushing.send(1))

    with VirtualScheduler() as scheduler:
        pushing.subscribe(probe)
        scheduler.start(send)
        scheduler.start(send)
        scheduler.run()
        if end == "complete":
            pushing.complete()
        elif end == "fail":
            pushing.fail(ValueError())
        else:
            probe.cancel()
        scheduler.run()
        assert scheduler.running == 0

    assert results == [EmitResult.CANCELLED if end == "cancel" else EmitResult.TERMINATED] * 2


async def test_send_under_trio_needs_a_scope() -> None:
    pushing = Replay[int](1)

    with pytest.raises(ConfigError, match=r"Replay\.send needs a scheduler"):
        await pushing.send(1)


def test_a_capacity_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"Multicast\(capacity=-1\): capacity must be 0 or more items"):
        Multicast(-1)
