import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

import pytest
import trio

from rstreams import Stream
from rstreams.errors import ConfigError, DemandError
from rstreams.sources.from_future import from_future
from rstreams.testing import ProbeSubscriber, VirtualScheduler


def _answered() -> Future[int]:
    future = Future[int]()
    future.set_result(7)
    return future


def test_it_is_waited_for_when_requested() -> None:
    future, probe = Future[int](), ProbeSubscriber[int]()
    with VirtualScheduler() as scheduler:
        from_future(future).subscribe(probe)
        scheduler.run()
        assert scheduler.running == 0
        probe.request(3)
        scheduler.run()
        assert (scheduler.running, probe.signals) == (1, ["on_subscribe"])
        future.set_result(7)
        scheduler.run()
    assert probe.items == [7]
    assert probe.signals == ["on_subscribe", "on_next", "on_complete"]


def test_all_subscribers_have_the_same_result() -> None:
    future, probes = Future[list[int]](), [ProbeSubscriber[list[int]](1), ProbeSubscriber[list[int]](1)]
    future.set_result([])
    publisher = from_future(future)
    with VirtualScheduler() as scheduler:
        for probe in probes:
            publisher.subscribe(probe)
        scheduler.run()
    assert probes[0].items[0] is probes[1].items[0]


def test_what_it_failed_with_is_the_error() -> None:
    failure, future, probe = LookupError(), Future[int](), ProbeSubscriber[int](1)
    future.set_exception(failure)
    with VirtualScheduler() as scheduler:
        from_future(future).subscribe(probe)
        scheduler.run()
    assert probe.error is failure
    assert probe.signals == ["on_subscribe", "on_error"]


def test_a_cancelled_future_is_an_error() -> None:
    future, probe = Future[int](), ProbeSubscriber[int](1)
    assert future.cancel()
    with VirtualScheduler() as scheduler:
        from_future(future).subscribe(probe)
        scheduler.run()
    assert isinstance(probe.error, CancelledError)


def test_after_a_cancel_nothing_waits_and_a_late_result_is_dropped() -> None:
    future, probe = Future[int](), ProbeSubscriber[int](1)
    with VirtualScheduler() as scheduler:
        from_future(future).subscribe(probe)
        scheduler.run()
        probe.cancel()
        scheduler.run()
        assert scheduler.running == 0
        future.set_result(7)
        scheduler.run()
    assert probe.signals == ["on_subscribe"]


def test_a_wrong_demand_ends_it() -> None:
    probe = ProbeSubscriber[int]()
    with VirtualScheduler():
        from_future(_answered()).subscribe(probe)
        probe.request(0)
    assert isinstance(probe.error, DemandError)


def test_it_needs_a_scheduler() -> None:
    probe = ProbeSubscriber[int](1)
    from_future(_answered()).subscribe(probe)
    assert isinstance(probe.error, ConfigError)


def test_nobody_cannot_subscribe() -> None:
    nobody: Any = None
    with pytest.raises(TypeError, match=r"1\.9"):
        from_future(_answered()).subscribe(nobody)


@pytest.mark.parametrize("future", [None, 7])
def test_what_is_no_future_is_refused_at_the_call(future: Any) -> None:  # noqa: ANN401 - anything that is none
    with pytest.raises(
        TypeError,
        match=rf"from_future\(future\): future must have result\(\) and add_done_callback\(\), which {future} does",
    ):
        from_future(future)


async def test_a_result_from_another_thread_is_emitted_in_this_one() -> None:
    emitted: list[int] = []
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(threading.get_ident)
        stream = Stream.from_future(future).do_on_next(lambda _: emitted.append(threading.get_ident()))
        (made,) = await stream.to_list()
    assert made != threading.get_ident()
    assert emitted == [threading.get_ident()]


async def test_a_future_that_is_never_done_holds_nothing_up() -> None:
    for _ in range(50):  # more than there are worker threads
        with trio.move_on_after(0.001) as patience:
            await Stream.from_future(Future[int]()).to_list()
        assert patience.cancelled_caught
    assert await Stream.of(1).map_blocking(lambda x: x).to_list() == [1]
