import threading
from collections.abc import Iterator

import pytest
import trio

from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.map_blocking import map_blocking
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import FunctionContract


class TestMapBlocking(FunctionContract):
    build = staticmethod(lambda source: map_blocking(source, lambda x: x * 10))
    model = staticmethod(lambda items: [x * 10 for x in items])
    requests = ((1, [1]), (5, [1]), (UNBOUNDED, [1]))
    failing = staticmethod(lambda source, function: map_blocking(source, lambda _: function()))
    scheduler: VirtualScheduler

    @pytest.fixture(autouse=True)
    def use_scheduler(self) -> Iterator[None]:
        with VirtualScheduler() as type(self).scheduler:
            yield

    def settle(self) -> None:
        self.scheduler.run()


async def test_it_runs_in_other_threads_several_at_a_time_and_emits_in_this_one() -> None:
    here, threads, emitted = threading.get_ident(), set[int](), set[int]()
    together = threading.Barrier(3, timeout=10)

    def work(x: int) -> int:
        threads.add(threading.get_ident())
        together.wait()
        return x * 2

    stream = Stream.range(6).map_blocking(work, concurrency=3).do_on_next(lambda _: emitted.add(threading.get_ident()))
    assert await stream.to_list() == [0, 2, 4, 6, 8, 10]
    assert here not in threads
    assert emitted == {here}


async def test_results_as_they_come() -> None:
    slow = threading.Event()

    def work(x: int) -> int:
        if x == 0:
            assert slow.wait(10)
        else:
            slow.set()
        return x

    assert sorted(await Stream.range(2).map_blocking(work, concurrency=2, ordered=False).to_list()) == [0, 1]


async def test_a_cancel_does_not_wait_for_the_thread() -> None:
    begun, door, done = threading.Event(), threading.Event(), threading.Event()
    opened: list[bool] = []

    def work(_: int) -> None:
        begun.set()
        opened.append(door.wait(10))
        done.set()

    async with Stream.of(1, 2).map_blocking(work).open():
        assert await trio.to_thread.run_sync(begun.wait, 10)
    door.set()
    assert await trio.to_thread.run_sync(done.wait, 10)
    assert opened == [True], "who waited for the thread waited until it gave up"


def test_it_needs_a_scheduler() -> None:
    probe = ProbeSubscriber[int](1)
    map_blocking(of(1), lambda x: x).subscribe(probe)
    assert isinstance(probe.error, ConfigError)
    assert "map_blocking needs a scheduler" in str(probe.error)


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, None])
def test_a_wrong_concurrency_is_named(concurrency: int) -> None:
    with pytest.raises(
        ConfigError, match=rf"map_blocking\(concurrency={concurrency!r}\): concurrency must be 1 or more"
    ):
        map_blocking(ManualPublisher[int](), lambda x: x, concurrency=concurrency)
