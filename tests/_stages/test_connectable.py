"""A shared run that begins on a call: who begins it, who ends it, and what comes after its end."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest

from rstreams import Stream
from rstreams._stages.connectable import AutoConnected, Connectable
from rstreams._stages.log import Log
from rstreams.errors import ConfigError, RStreamsError
from rstreams.stream import ConnectableStream
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler


def made(source: ManualPublisher[int]) -> Connectable[int]:
    return Connectable(source, lambda: Log[int]("made", 8))


def test_connect_begins_the_run_once() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    shared = made(source)
    shared.subscribe(probe)
    assert source.subscriptions == 0
    shared.connect()
    shared.connect()
    assert (source.subscriptions, source.requests) == (1, [1])


def test_its_connection_ends_the_run_and_the_next_call_begins_another() -> None:
    source, first, second = ManualPublisher[int](), ProbeSubscriber[int](1), ProbeSubscriber[int](1)
    shared = made(source)
    shared.subscribe(first)
    connection = shared.connect()
    connection.cancel()
    assert source.cancelled
    assert isinstance(first.error, RStreamsError)
    shared.subscribe(second)
    assert source.subscriptions == 1
    shared.connect()
    connection.cancel()  # of the run that has ended
    assert (source.subscriptions, source.cancelled, second.ended) == (2, False, False)


def test_it_connects_by_itself_when_enough_have_come_and_outlives_them() -> None:
    source, probes = ManualPublisher[int](), [ProbeSubscriber[int](1) for _ in range(3)]
    shared = made(source).auto_connect(2)
    shared.subscribe(probes[0])
    assert source.subscriptions == 0
    shared.subscribe(probes[1])
    assert source.subscriptions == 1
    for probe in probes[:2]:
        probe.cancel()
    assert not source.cancelled
    shared.subscribe(probes[2])
    source.next(1)
    assert probes[2].items == [1]


def test_a_run_that_nobody_can_subscribe_to_ends_with_its_last_subscriber() -> None:
    with VirtualScheduler() as time:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        shared = AutoConnected.over(source, lambda: Log[int]("made", 8))
        shared.subscribe(probe)
        del shared
        gc.collect()
        time.advance(0.0)
        assert not source.cancelled
        probe.cancel()
        assert source.cancelled


TIMED: dict[str, Callable[[], Stream[Any]]] = {
    "interval": lambda: Stream.interval(1.0),
    "timer": lambda: Stream.timer(1.0),
    "delay": lambda: Stream.range(3).delay(1.0),
    "map_async": lambda: Stream.range(3).map_async(_later),
    "timestamp": lambda: Stream.range(3).timestamp(),
    "throttle": lambda: Stream.range(3).throttle(1.0),
    "retry_backoff": lambda: Stream.range(3).retry_backoff(2),
}


async def _later(item: int) -> int:
    return item


@pytest.mark.parametrize("source", TIMED.values(), ids=TIMED.keys())
@pytest.mark.parametrize("share", [Stream.publish, lambda stream: stream.replay(2)], ids=["publish", "replay"])
def test_connect_outside_of_a_scope_raises_at_the_call(
    source: Callable[[], Stream[Any]], share: Callable[[Stream[Any]], ConnectableStream[Any]]
) -> None:
    shared = share(source())
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"outside of a scope: .*inside `async with rstreams\.Scope\(\)`"):
            shared.connect()
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[Any](1)
        shared.subscribe(probe)
        shared.connect()
        scheduler.advance(10.0)
        assert len(probe.items) == 1
