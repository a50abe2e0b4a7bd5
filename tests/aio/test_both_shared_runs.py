"""A shared run lives as long as it has subscribers: whoever leaves, and however, the others go on.

The tables share a stream of every kind that has a task or a timer. One subscriber begins the run, and leaves in each of
the ways there are. Another one gets items until it has enough. Over asyncio a part of the streams is tried.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextvars import copy_context
from typing import Any, NamedTuple

import pytest
import trio
import trio.testing

from rstreams import Stream
from rstreams.errors import RStreamsError
from rstreams.testing import ProbeSubscriber
from tests.aio.leaving import (
    AT_MOST_S,
    ENOUGH,
    SOURCES,
    WAYS,
    Left,
    Way,
    each,
    leave_the_loop,
    living_tasks,
    nothing_is_left,
    slowly,
    sources,
    stay,
)
from tests.loops import KINDS, Loop, over_both_loops, without_warnings

# the tables


class Shared(NamedTuple):
    """The publishers of a run: for the one who leaves, and for the one who stays."""

    leaves: Any
    stays: Any
    needs_both: bool = False
    goes_on: bool = False  # without subscribers, because another one may come


def both(publisher: Any, *, needs_both: bool = False, goes_on: bool = False) -> Shared:  # noqa: ANN401
    return Shared(publisher, publisher, needs_both, goes_on)


def in_two_parts(source: Any) -> Shared:  # noqa: ANN401
    turns = iter(range(10**9))
    even, odd = source.partition(lambda _: next(turns), 2)
    return Shared(odd, even, needs_both=True)


SHARES: dict[str, Callable[[Any], Shared]] = {
    "share": lambda source: both(source.share()),
    "ref_count": lambda source: both(source.publish().ref_count()),
    "auto_connect": lambda source: both(source.publish().auto_connect(), goes_on=True),
    "replay": lambda source: both(source.replay(3).auto_connect(), goes_on=True),
    "cache": lambda source: both(source.cache(), goes_on=True),
    "broadcast": lambda source: both(source.broadcast(subscribers=2), needs_both=True),
    "distribute": lambda source: both(source.distribute(subscribers=2), needs_both=True),
    "partition": in_two_parts,
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("share", SHARES)
@over_both_loops
async def test_who_began_the_run_may_leave(on: Loop, share: str, way: Way) -> None:
    got: dict[str, object] = {}
    before = living_tasks(on)

    async def leave_and_stay(name: str) -> None:
        shared = SHARES[share](SOURCES[name](on))

        async def leave() -> None:
            if shared.needs_both:
                await on.sleep(0.1)
            await way(on, shared.leaves)

        async def remain() -> None:
            if not shared.needs_both:
                await on.sleep(0.1)
            got[name] = await stay(on, shared.stays)

        await on.together(leave, remain)

    await on.together(*(lambda name=name: leave_and_stay(name) for name in sources(on)))
    assert not {name: items for name, items in got.items() if not isinstance(items, list) or len(items) != ENOUGH}
    if not SHARES[share](on.Stream.empty()).goes_on:
        await nothing_is_left(on, before)


SPLITS: dict[str, Callable[[Loop, Any], Any]] = {
    "window_count": lambda _, source: source.window_count(20),
    "window_time": lambda _, source: source.window_time(100),
    "window_count_or_time": lambda _, source: source.window_count_or_time(20, 100),
    "window_boundary": lambda on, source: source.window_boundary(on.Stream.interval(100)),
    "group_by": lambda _, source: source.group_by(lambda _: 0),
}


@pytest.mark.parametrize("way", WAYS[::2], ids=lambda way: way.__name__)
@pytest.mark.parametrize("split", SPLITS)
@over_both_loops
async def test_a_part_outlives_the_stream_of_parts(on: Loop, split: str, way: Way) -> None:
    got: dict[str, object] = {}
    before = living_tasks(on)

    async def leave_and_stay(name: str) -> None:
        readers: list[Callable[[Any], None]] = []

        async def leave() -> None:
            await on.until(lambda: readers)
            await way(on, SPLITS[split](on, SOURCES[name](on)).do_on_next(lambda part: readers[0](part)))  # noqa: PLW0108

        async def remain() -> None:
            async with on.Scope():
                probe = ProbeSubscriber[Any](ENOUGH)
                context = copy_context()

                def read(part: Any) -> None:  # noqa: ANN401
                    readers[0] = lambda _: None  # no other part
                    context.run(on.Stream(part).take(ENOUGH).subscribe, probe)

                readers.append(read)
                for _ in range(AT_MOST_S):
                    await on.sleep(1)
                    if probe.ended:
                        break
                got[name] = probe.items

        await on.together(leave, remain)

    await on.together(*(lambda name=name: leave_and_stay(name) for name in sources(on)))
    assert not {name: items for name, items in got.items() if not isinstance(items, list) or len(items) != ENOUGH}
    await nothing_is_left(on, before)


# the examples of the issue


@over_both_loops
async def test_a_cache_is_read_to_its_end_by_the_next_one(on: Loop) -> None:
    for pages in (on.Stream.range(5).map_async(slowly(on)).cache(), on.Stream.range(5).delay(1).cache()):
        assert await pages.take(2).to_list() == [0, 1]
        assert await pages.to_list() == [0, 1, 2, 3, 4]


@over_both_loops
async def test_explain_knows_the_run_when_who_began_it_has_left(on: Loop) -> None:
    shared = each(on).share()
    one = on.start(shared.take(1).to_list)
    await on.sleep(0.1)
    other = on.start(shared.take(3).to_list)
    await one.ended()
    await on.settled()

    told = str(shared.explain())

    assert "interval  requested 3  delivered 1  outstanding 2" in told
    assert await other.ended() is None


# connect


@over_both_loops
async def test_a_connected_run_outlives_the_scope_of_connect(on: Loop) -> None:
    hot = each(on).publish()
    before = living_tasks(on)
    got: list[object] = []

    async def read() -> None:
        got.append(await hot.take(ENOUGH).to_list())

    task = on.start(read)
    await on.sleep(0.1)
    async with on.Scope():
        connection = hot.connect()
    assert await task.ended() is None
    assert got == [list(range(ENOUGH))]

    connection.cancel()
    await nothing_is_left(on, before)


@over_both_loops
async def test_connect_needs_no_scope_if_a_subscriber_has_one(on: Loop) -> None:
    hot = each(on).publish()
    task = on.start(hot.take(2).to_list)
    await on.settled()
    connection = hot.connect()
    assert await task.ended() is None
    connection.cancel()


@pytest.mark.parametrize("comes_first", [True, False], ids=["subscriber", "connect"])
@pytest.mark.parametrize("kind", ["publish", "replay"])
@over_both_loops
async def test_after_a_cancelled_connection_connect_begins_a_new_run(on: Loop, kind: str, *, comes_first: bool) -> None:
    hot = each(on).publish() if kind == "publish" else each(on).replay(2)
    before = living_tasks(on)
    for _ in range(3):
        got: list[object] = []

        async def read(got: list[object] = got) -> None:
            got.append(await hot.take(2).to_list())
            await hot.to_list()  # until the connection is cancelled

        if comes_first:
            task = on.start(read)
            await on.settled()
        async with on.Scope():
            connection = hot.connect()
        if not comes_first:
            task = on.start(read)
        await on.sleep(AT_MOST_S)
        connection.cancel()
        error = await task.ended()
        assert str(error) == f"{kind}: the connection to the shared source was cancelled"
        assert got == [[0, 1]]
    await nothing_is_left(on, before)


# the end of a run


@over_both_loops
async def test_who_leaves_last_waits_for_the_end_of_the_tasks(on: Loop) -> None:
    log: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for number in range(10):
                await on.sleep(1)
                yield number
        finally:
            await on.shielded(lambda: on.sleep(5))
            log.append("the source is closed")

    shared = on.Stream.from_async_iterable(numbers()).share()

    async def read(count: int) -> None:
        await shared.take(count).to_list()
        log.append(f"{count} are read")

    await on.together(lambda: read(1), lambda: read(2), lambda: read(3))
    assert log == ["1 are read", "2 are read", "the source is closed", "3 are read"]


WITHIN: dict[str, Callable[[Any], Any]] = {
    "group_by": lambda source: source.group_by(lambda x: x % 2).flat_map(lambda group: group),
    "share": lambda source: source.share(),
    "share of parts": lambda source: source.share().window_count(2).concat_map(lambda window: window),
    "window_time": lambda source: source.window_time(2).flat_map(lambda window: window),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("within", WITHIN)
@over_both_loops
async def test_who_leaves_last_waits_also_for_the_tasks_of_a_run_within_the_run(
    on: Loop, within: str, way: Way
) -> None:
    is_closed = False

    async def numbers() -> AsyncIterator[int]:
        nonlocal is_closed
        try:
            for number in range(10):
                await on.sleep(1)
                yield number
        finally:
            await on.shielded(lambda: on.sleep(5))
            is_closed = True

    before = living_tasks(on)
    await way(on, WITHIN[within](on.Stream.from_async_iterable(numbers())).share())
    assert is_closed
    await nothing_is_left(on, before)


@over_both_loops
async def test_a_run_that_nobody_can_subscribe_to_any_more_ends(on: Loop) -> None:
    drawn: list[int] = []
    before = living_tasks(on)
    shared = each(on).do_on_next(drawn.append).cache()
    await leave_the_loop(on, shared)
    await on.sleep(5)
    assert len(drawn) > 4  # it goes on: another subscriber may come

    del shared
    gc.collect()
    await on.settled()
    await on.settled()
    seen = len(drawn)
    await on.sleep(5)
    assert len(drawn) == seen
    await nothing_is_left(on, before)


@over_both_loops
async def test_a_task_of_the_run_that_reads_the_run_does_not_wait_for_itself(on: Loop) -> None:
    async def read_too(item: int) -> int:
        await on.sleep(1)
        if item == 1:
            await shared.take(1).to_list()
        return item

    before = living_tasks(on)
    shared = on.Stream.range(10).map_async(read_too, concurrency=2, ordered=False).share()
    task = on.start(shared.to_list)
    await on.sleep(1.5)
    task.cancel()  # now the function is the only subscriber
    await task.ended()
    await on.sleep(3)
    await nothing_is_left(on, before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_whose_event_loop_has_ended_fails(kind: str) -> None:
    runs: list[Any] = []
    errors: list[str] = []

    async def begin() -> None:
        runs.append(on.Stream.interval(1).cache())
        runs.append(on.Stream.interval(1).take(3).cache())
        assert await runs[0].take(2).to_list() == [0, 1]
        assert await runs[1].to_list() == [0, 1, 2]

    async def go_on() -> None:
        assert await runs[0].take(2).to_list() == [0, 1]
        assert await runs[1].map_async(slowly(on)).to_list() == [0, 1, 2]  # it is complete
        with pytest.raises(RStreamsError) as caught:
            await runs[0].to_list()
        errors.append(str(caught.value))

    on = KINDS[kind]()
    on.run(begin)
    on = KINDS[kind]()
    on.run(go_on)
    assert len(errors) == 1
    assert errors[0].startswith("cache: the ")


def begin_and_forget(on: Loop) -> Iterator[Callable[[], Coroutine[Any, Any, None]]]:
    """Yield programs that leave a run behind, whose publisher is gone when the main task has returned."""

    async def cached() -> None:
        shared = on.Stream.range(9).map_async(slowly(on)).cache()
        await leave_the_loop(on, shared)

    async def timed() -> None:
        shared = each(on).delay(1).replay(1).auto_connect()
        await leave_the_loop(on, shared)

    async def connected() -> None:
        hot = each(on).publish()
        async with on.Scope():
            hot.subscribe(ProbeSubscriber(9))
            hot.connect()

    async def in_each_other() -> None:
        async def keep(item: int) -> int:
            await on.sleep(item and 100)
            return item + (inner is None)

        inner = each(on).cache()
        await leave_the_loop(on, inner.map_async(keep).cache())

    async def idle() -> None:
        shared = each(on).cache()
        async with shared.open(window=2) as items:
            await anext(items)
        await on.sleep(30)  # now it has no task

    yield from (cached, timed, connected, in_each_other, idle)


@pytest.mark.parametrize("program", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_may_become_garbage_when_the_event_loop_ends(kind: str, program: int) -> None:
    on = KINDS[kind]()
    main = list(begin_and_forget(on))[program]
    for _ in range(10):  # trio runs its tasks in random order
        if on.name == "trio":  # as the main task itself
            without_warnings(lambda: trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)))
        else:
            without_warnings(lambda: on.run(main))


# errors


@over_both_loops
async def test_a_function_that_fails_ends_the_run_of_all(on: Loop) -> None:
    async def refuse(_: int) -> int:
        await on.sleep(1)
        raise Left

    before = living_tasks(on)
    shared = on.Stream.range(3).map_async(refuse).share()
    one, other = on.start(shared.to_list), on.start(shared.to_list)
    assert isinstance(await one.ended(), Left)
    assert isinstance(await other.ended(), Left)
    await nothing_is_left(on, before)


class Refusing(ProbeSubscriber[Any]):
    """Breaks rule 2.13: raises in `on_next`."""

    def on_next(self, item: object) -> None:
        super().on_next(item)
        raise Left


@over_both_loops
async def test_what_the_only_subscriber_raises_leaves_its_scope(on: Loop) -> None:
    before = living_tasks(on)
    for shared in (
        each(on).share(),
        each(on).window_count(3).flat_map(lambda window: window).share(),
    ):
        with pytest.raises(Left):
            async with on.Scope():
                shared.subscribe(Refusing(5))
                await on.sleep(60)
    await nothing_is_left(on, before)


@over_both_loops
async def test_what_one_of_several_raises_is_logged(on: Loop, caplog: pytest.LogCaptureFixture) -> None:
    shared = each(on).share()
    async with on.Scope():
        shared.subscribe(Refusing(5))
        with caplog.at_level(logging.ERROR, "rstreams"):
            assert await shared.take(3).to_list() == [0, 1, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "a subscriber of a shared stream raised; it counts as cancelled"
    ]


async def test_an_interrupt_in_a_task_of_the_run_ends_the_program(autojump_clock: object) -> None:
    async def interrupt(_: int) -> int:
        await trio.sleep(1)
        assert not trio.lowlevel.currently_ki_protected()
        raise KeyboardInterrupt

    shared = Stream.range(3).map_async(interrupt).share()
    with pytest.raises(KeyboardInterrupt):
        await shared.to_list()


# a link


@over_both_loops
async def test_a_link_is_shared(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.serve("ticks", each(on))
        node.serve("shared", each(on).share())
        for shared in (
            connection.stream("ticks").delay(1).share(),
            connection.stream("ticks").map_async(slowly(on)).cache(),
            connection.stream("shared"),
        ):
            one = on.start(shared.take(1).to_list)
            await on.sleep(0.5)
            assert len(await shared.take(ENOUGH).to_list()) == ENOUGH
            assert await one.ended() is None
