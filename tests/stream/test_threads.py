"""A call from another thread is refused before it has changed anything (Reactive Streams 2.7)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from rstreams import Stream
from rstreams.errors import SpecViolation
from rstreams.push import Unicast
from rstreams.testing import ManualPublisher, ProbeSubscriber

STREAMS: dict[str, Callable[[], Stream[int]]] = {
    "a source": lambda: Stream.range(10),
    "a fused chain": lambda: Stream.range(10).map(lambda x: x),
    "a stage that counts demand": lambda: Stream.range(10).take(5),
    "a stage that passes demand on": lambda: Stream.range(10).do_on_error(print).map(lambda x: x),
    "a merging stage": lambda: Stream.range(10).merge(Stream.range(10)),
    "an arbiter": lambda: Stream.range(5).concat(Stream.range(5, 10)),
    "a push source": lambda: Stream(_pushed()),
    "a shared stream": lambda: Stream.range(10).distribute(),
    "a group": lambda: Stream.range(10).group_by(bool).concat_map(lambda group: group).start_with(0),
}


def _pushed() -> Unicast[int]:
    source = Unicast[int]()
    for item in range(10):
        source.emit(item)
    return source


def _in_another_thread(function: Callable[[], object]) -> BaseException | None:
    raised: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call, name="worker")
    thread.start()
    thread.join()
    return raised[0] if raised else None


ITEMLESS: dict[str, Callable[[], Stream[int]]] = {
    "never": Stream.never,
    "a named never": lambda: Stream.never().name("nothing"),
    "a map over never": lambda: Stream.never().map(lambda x: x),
    "log": lambda: Stream.never().log(),
    "take_until": lambda: Stream.never().take_until(Stream.never()),
}


@pytest.mark.parametrize("make", ITEMLESS.values(), ids=ITEMLESS.keys())
@pytest.mark.parametrize("call", ["request", "cancel"])
def test_a_call_from_another_thread_where_nothing_ever_comes(make: Callable[[], Stream[int]], call: str) -> None:
    probe = ProbeSubscriber[int]()
    make().subscribe(probe)
    error = _in_another_thread(probe.cancel if call == "cancel" else lambda: probe.request(1))
    assert isinstance(error, SpecViolation)
    assert error.rule == "2.7"
    assert "trio.from_thread.run_sync" in str(error)
    probe.request(-1)  # still alive
    assert probe.error is not None


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS.keys())
def test_a_request_from_another_thread(make: Callable[[], Stream[int]]) -> None:
    probe = ProbeSubscriber[int](2)
    make().subscribe(probe)

    error = _in_another_thread(lambda: probe.request(1))

    assert isinstance(error, SpecViolation)
    assert error.rule == "2.7"
    assert "request(1) was called in thread 'worker'" in str(error)
    assert "'MainThread'" in str(error)
    assert len(probe.items) == 2
    probe.request(2)
    assert len(probe.items) == 4


@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS.keys())
def test_a_cancel_from_another_thread(make: Callable[[], Stream[int]]) -> None:
    probe = ProbeSubscriber[int](2)
    make().subscribe(probe)

    error = _in_another_thread(probe.cancel)

    assert isinstance(error, SpecViolation)
    probe.request(1)
    assert len(probe.items) == 3


def test_a_stage_that_passes_on_leaves_it_to_its_source() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    Stream(source).do_on_error(print).subscribe(probe)
    assert _in_another_thread(lambda: probe.request(1)) is None
    assert source.requests == [1]
