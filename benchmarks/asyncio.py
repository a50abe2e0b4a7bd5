"""rstreams.aio beside rstreams in trio, and beside asyncio.Queue, aiostream, nats-py and aio-pika.

    python -m benchmarks.asyncio [--json FILE] [--only PATTERN] [--seconds S]

Over TCP two processes take part, as in `python -m benchmarks.network`: `1KB/asyncio` has asyncio in both, and `trio`
trio. In process, one process does everything; its figures are items in a second of processor time.

- `map_async` handles each item by a coroutine function, 16 at a time. `task_an_item` starts a task for each.
- `async_for` takes items one by one from a stream, and `asyncio_queue` from a queue that another task fills.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from time import process_time
from typing import Any, Final

import aiostream
import trio

from benchmarks._cases import Candidate, Group, Kind, Measurement, choosing, chosen
from benchmarks._cases import trials as trials_of
from benchmarks._processes import Load
from benchmarks._report import Row, Trial, bigger_is_better, by_itself, interleaved, publish
from benchmarks.network import PEERS
from rstreams import Stream
from rstreams.aio import Stream as AioStream

RUNS: Final = 5
SECONDS: Final = 1.0
KIB: Final = 1024
CONCURRENCY: Final = 16
ITEMS: Final = 200_000
"""Items of one run in process, for `--seconds 1`."""

TRIO: Final = Kind("network_rstreams", 300_000, 1_000)
ASYNCIO: Final = Kind("network_asyncio_rstreams", 300_000, 1_000)
UVLOOP: Final = replace(ASYNCIO, produce="produce_on_uvloop", consume="consume_on_uvloop")
OTHERS: Final = {name: PEERS[name] for name in ("nats", "aio_pika")}


def throughput(seconds: float) -> Group:
    """Return the cases over TCP that go as fast as they can."""
    group = Group("1KB")
    load = Load(0, TRIO.items(KIB, seconds), KIB)
    kinds = {
        "trio": TRIO,
        "asyncio": ASYNCIO,
        "uvloop": UVLOOP,
        "async_for": replace(ASYNCIO, consume="consume_by_async_for"),
        "trio_async_for": replace(ASYNCIO, consume="consume_by_async_for_of_trio"),
    }
    group.candidates = {name: Candidate(kind, load) for name, kind in kinds.items()}
    for name, kind in OTHERS.items():
        group.candidates[name] = Candidate(kind, replace(load, items=kind.items(KIB, seconds)))
    group.pairs = [
        ("1KB/asyncio", "asyncio", "trio", "trio"),
        *(("1KB/asyncio", "asyncio", name, name) for name in OTHERS),
        ("1KB/asyncio/uvloop", "uvloop", "trio", "trio"),
        ("1KB/asyncio/async_for", "async_for", "asyncio", "for_each"),
        ("1KB/asyncio/async_for", "async_for", "trio_async_for", "trio"),
    ]
    return group


def latency(seconds: float, rate: int = 1_000) -> Group:
    """Return the cases of latency at one rate."""
    group = Group(f"latency at {rate:,}/s")
    load = Load(0, int(rate * seconds * 4), KIB, rate=rate)
    kinds = {"trio": TRIO, "asyncio": ASYNCIO, "uvloop": UVLOOP, **OTHERS}
    group.candidates = {name: Candidate(kind, load) for name, kind in kinds.items()}
    for part in ("p50", "p99"):
        group.pairs += [(f"latency_{part}/{rate}", "asyncio", name, name) for name in ("trio", *OTHERS)]
        group.pairs.append((f"latency_{part}/{rate}/uvloop", "uvloop", "trio", "trio"))
    return group


# ----------------------------------------------------------------------------------------------------------- in process


async def _same(number: int) -> int:
    return number


def _nothing(_: object) -> None: ...


async def _map_async(stream: Any, count: int) -> None:  # noqa: ANN401 - the class of either loop
    await stream.range(count).map_async(_same, concurrency=CONCURRENCY).for_each(_nothing)


async def _async_for(stream: Any, count: int) -> None:  # noqa: ANN401 - likewise
    async with stream.range(count).open() as items:
        async for item in items:
            _nothing(item)


async def _task_an_item(count: int) -> None:
    free = asyncio.Semaphore(CONCURRENCY)

    async def handle(number: int) -> None:
        try:
            _nothing(await _same(number))
        finally:
            free.release()

    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            await free.acquire()
            tasks.create_task(handle(number))


async def _queue(count: int) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(256)

    async def fill() -> None:
        for number in range(count):
            await queue.put(number)

    filling = asyncio.create_task(fill())
    for _ in range(count):
        _nothing(await queue.get())
    await filling


async def _aiostream_map(count: int) -> None:
    numbers: Any = aiostream.stream.range(count)
    async with aiostream.stream.map(numbers, _same, task_limit=CONCURRENCY).stream() as items:  # type: ignore[arg-type, var-annotated]
        async for item in items:
            _nothing(item)


async def _aiostream_range(count: int) -> None:
    async with aiostream.stream.range(count).stream() as items:
        async for item in items:
            _nothing(item)


def _rate(run: Callable[[], object], count: int) -> Callable[[], float]:
    def measure() -> float:
        gc.collect()
        began = process_time()
        run()
        return count / (process_time() - began)

    return measure


def _on_asyncio(main: Callable[[int], Coroutine[Any, Any, None]], items: int) -> Callable[[], float]:
    return _rate(lambda: asyncio.run(main(items)), items)


def _ours_in_process(count: int) -> dict[str, Callable[[], float]]:
    return {
        "map_async": _on_asyncio(lambda items: _map_async(AioStream, items), count),
        "async_for": _on_asyncio(lambda items: _async_for(AioStream, items), count),
    }


def in_process(seconds: float, wanted: Callable[[str], bool]) -> list[Row]:
    """Return the rows of the cases in one process."""
    count = max(64, int(ITEMS * seconds))
    few = max(64, count // 8)  # for peers that are slow
    peers = {
        "map_async": {
            "trio": _rate(lambda: trio.run(_map_async, Stream, count), count),
            "task_an_item": _on_asyncio(_task_an_item, few),
            "aiostream": _on_asyncio(_aiostream_map, few),
        },
        "async_for": {
            "trio": _rate(lambda: trio.run(_async_for, Stream, count), count),
            "asyncio_queue": _on_asyncio(_queue, few),
            "aiostream": _on_asyncio(_aiostream_range, few),
        },
    }
    ours, rows = _ours_in_process(count), []
    for case in filter(wanted, ours):
        figures = interleaved(RUNS, {"ours": ours[case], **peers[case]})
        rows += [
            bigger_is_better(
                case, ours=figures["ours"], peer=figures[peer], peer_name=peer, n=count, unit="items/s of CPU"
            )
            for peer in peers[case]
        ]
    return rows


def trials(scale: float) -> list[Trial]:
    """Return our cases without peers, each so many times as long as usual."""
    seconds = scale * SECONDS
    count = max(64, int(ITEMS * seconds))

    def trial(case: str, rate: Callable[[], float]) -> Trial:
        def run() -> list[Row]:
            figure = interleaved(RUNS, {case: rate})[case]
            return [by_itself(case, figure, n=count, unit="items/s of CPU", cpu_us=1e6 / figure)]

        return Trial((case,), run)

    local = [trial(case, rate) for case, rate in _ours_in_process(count).items()]
    return [*local, *trials_of([throughput(seconds), latency(seconds)])]


def measure(*, only: str = "*", seconds: float = SECONDS) -> list[Row]:
    """Return all rows; `only` is a pattern of the cases."""

    def wanted(case: str) -> bool:
        return fnmatchcase(case, only)

    rows = in_process(seconds, wanted)
    groups = [group for group in (throughput(seconds).chosen(wanted), latency(seconds).chosen(wanted)) if group.pairs]
    with Measurement(RUNS) as run:
        run.prepare(groups)
        for group in groups:
            rows += run.rows(group)
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write what is asked for."""
    parser = choosing("rstreams.aio beside trio and others of asyncio", SECONDS, '"1KB/*", "latency_*", "map_async"')
    given = chosen(parser, arguments)
    rows = measure(only=given.only, seconds=given.seconds)
    if not rows:
        parser.error(f"--only {given.only}: no case that can be run here")
    publish("Asyncio and trio, medians of runs that take turns", rows, given.json)


if __name__ == "__main__":
    main()
