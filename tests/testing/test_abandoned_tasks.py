"""Tasks that nobody ends: the garbage collector may close them in any thread, and they end without a sound."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from rstreams import Stream
from rstreams._core.scheduler import current_scheduler
from rstreams.testing import ProbeSubscriber, VirtualScheduler


async def _forever(_: object = None) -> int:
    await VirtualScheduler().event().wait()
    return 0


async def _one_and_forever() -> AsyncIterator[int]:
    yield 1
    await _forever()


@asynccontextmanager
async def _resource() -> AsyncIterator[int]:
    yield 1


STREAMS: dict[str, Callable[[], Stream[object]]] = {
    "map_async": lambda: Stream.of(1, 2).map_async(_forever, concurrency=2),
    "map_async, unordered": lambda: Stream.of(1, 2).map_async(_forever, concurrency=2, ordered=False),
    "map_async, idle": lambda: Stream.of(1).concat(Stream.never()).map_async(_at_once),
    "from_callable": lambda: Stream.from_callable(_forever),
    "from_async_iterable": lambda: Stream.from_async_iterable(_one_and_forever()),
    "using": lambda: Stream.using(_resource, lambda _: Stream.never()),
    "delay_each": lambda: Stream.of(1, 2).delay_each(1),
}


async def _at_once(item: int) -> int:
    return item


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_tasks_collected_in_another_thread_end_without_a_sound(
    name: str, recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    unraisable: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", lambda each: unraisable.append(each.exc_value))

    def abandon() -> None:
        scheduler = VirtualScheduler()
        token = current_scheduler.set(scheduler)
        probe = ProbeSubscriber[object]()
        STREAMS[name]().subscribe(probe)
        probe.request(2)
        scheduler.run()
        assert scheduler.running
        current_scheduler.reset(token)

    gc.collect()
    gc.disable()
    try:
        abandon()
        collector = threading.Thread(target=gc.collect)
        collector.start()
        collector.join()
    finally:
        gc.enable()
    assert unraisable == []
    assert not recwarn.list
