"""Items a second through stages in one process, and their memory, against reactivex, aiostream and a plain loop.

    python -m benchmarks.core [--json FILE] [--only PATTERN]

All candidates of a case call the very same functions for the same numbers and hand what comes out to the same sink,
which keeps the last item and is C code, so that it costs next to nothing. Before anything is measured, each candidate
is run with a few items, and must come to the same items as the loop.

The rows `<case>/bytes` hold the most memory that was allocated at one time during a run, per item that went in: what a
candidate queues up, and what it leaves behind.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections import deque
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from time import perf_counter, process_time
from typing import Any, TypeAlias

import aiostream
import reactivex
from reactivex import Observable
from reactivex import operators as rx

from benchmarks._report import (
    Row,
    Trial,
    bigger_is_better,
    by_itself,
    interleaved,
    options,
    publish,
    smaller_is_better,
)
from rstreams import Stream
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher, Subscription

ITEMS = 200_000
TRACED = 20_000  # items of the runs in which every allocation is counted, which makes them slow
CHECKED = 1_000
RUNS = 5

Sink: TypeAlias = Callable[[Any], None]
Candidate: TypeAlias = Callable[[int, Sink], None]
"""Sends what it makes of so many numbers to a sink."""


def _triple(x: int) -> int:
    return x * 3


def _odd(x: int) -> bool:
    return x & 1 == 1


def _add(total: int, x: int) -> int:
    return (total + x) & 0xFFFF


def _key(x: int) -> int:
    return x & 15


# ------------------------------------------------------------------------------------ how a candidate is run to its end


class Last:
    """Asks for all there is and hands it to the sink."""

    on_next: Any  # the sink itself: nothing stands between

    def __init__(self, sink: Sink) -> None:
        self.on_next = sink

    def on_subscribe(self, subscription: Subscription) -> None:
        """Ask for everything."""
        subscription.request(UNBOUNDED)

    def on_error(self, error: BaseException) -> None:
        """Let the benchmark fail."""
        raise error

    def on_complete(self) -> None:
        """Do nothing: the call that requested returns."""


def _fail(error: Exception) -> None:
    raise error


def _ours(build: Callable[[int], Publisher[Any]]) -> Candidate:
    return lambda n, sink: build(n).subscribe(Last(sink))


def _reactivex(build: Callable[[int], Observable[Any]]) -> Candidate:
    def run(n: int, sink: Sink) -> None:
        build(n).subscribe(sink, _fail)

    return run


def _aiostream(build: Callable[[int], aiostream.Stream[Any]]) -> Candidate:
    async def iterate(n: int, sink: Sink) -> None:
        async with build(n).stream() as items:
            async for item in items:
                sink(item)

    return lambda n, sink: asyncio.run(iterate(n, sink))


# ------------------------------------------------------------------------------------------------------------ the cases

_numbers = Stream.range
_rx_numbers: Callable[..., Observable[int]] = lambda *span: reactivex.from_iterable(range(*span))  # noqa: E731 - a name
_aio_numbers: Any = aiostream.stream.range
_TEN = range(10)
# aiostream's types want functions of any number of arguments
_AIO_TRIPLE: Any = _triple
_AIO_ADD: Any = _add


def _map_filter_scan_loop(n: int, sink: Sink) -> None:
    total = 0
    for x in range(n):
        y = _triple(x)
        if _odd(y):
            total = _add(total, y)
            sink(total)


def _flat_map_loop(n: int, sink: Sink) -> None:
    for _ in range(n // 10):
        for y in _TEN:
            sink(y)


def _merge_4_loop(n: int, sink: Sink) -> None:
    for quarter in range(4):
        for x in range(quarter, quarter + n // 4):
            sink(x)


def _group_by_loop(n: int, sink: Sink) -> None:
    groups: dict[int, int] = {}
    for x in range(n):
        key = _key(x)
        groups[key] = groups.get(key, 0) + 1
        sink(_triple(x))


def _buffer_100_loop(n: int, sink: Sink) -> None:
    buffer: list[int] = []
    for x in range(n):
        buffer.append(x)
        if len(buffer) == 100:
            sink(buffer)
            buffer = []


def _zip_loop(n: int, sink: Sink) -> None:
    for pair in zip(range(n), range(1, n + 1), strict=True):
        sink(pair)


def _share_4_loop(n: int, sink: Sink) -> None:
    for x in range(n):
        sink(x)
        sink(x)
        sink(x)
        sink(x)


def _share_4_ours(n: int, sink: Sink) -> None:
    shared = _numbers(n).publish()
    for _ in range(4):
        shared.subscribe(Last(sink))
    shared.connect()


def _share_4_reactivex(n: int, sink: Sink) -> None:
    shared = _rx_numbers(n).pipe(rx.publish())
    for _ in range(4):
        shared.subscribe(sink, _fail)
    shared.connect()


def _map_x10_ours(n: int) -> Publisher[int]:
    stream = _numbers(n)
    for _ in range(10):
        stream = stream.map(_triple)
    return stream


def _map_x10_aiostream(n: int) -> aiostream.Stream[int]:
    stream = _aio_numbers(n)
    for _ in range(10):
        stream = aiostream.stream.map(stream, _AIO_TRIPLE)
    numbers: aiostream.Stream[int] = stream
    return numbers


def _map_x10_loop(n: int, sink: Sink) -> None:
    for x in range(n):
        y = _triple(_triple(_triple(_triple(_triple(x)))))
        sink(_triple(_triple(_triple(_triple(_triple(y))))))


def _aio_ten(*_: int) -> aiostream.Stream[int]:
    return aiostream.stream.iterate(_TEN)


def _rx_tripled(group: Observable[int]) -> Observable[int]:
    return group.pipe(rx.map(_triple))


def _quarters(n: int, numbers: Callable[[int, int], Any]) -> list[Any]:
    return [numbers(quarter, quarter + n // 4) for quarter in range(4)]


CASES: dict[str, dict[str, Candidate]] = {
    "map_filter_scan": {
        "ours": _ours(lambda n: _numbers(n).map(_triple).filter(_odd).scan(_add, 0)),
        "reactivex": _reactivex(lambda n: _rx_numbers(n).pipe(rx.map(_triple), rx.filter(_odd), rx.scan(_add, 0))),
        "aiostream": _aiostream(
            lambda n: (
                _aio_numbers(n)
                | aiostream.pipe.map(_AIO_TRIPLE)
                | aiostream.pipe.filter(_odd)
                | aiostream.pipe.accumulate(_AIO_ADD, 0)
                | aiostream.pipe.skip(1)  # the seed
            )
        ),
        "loop": _map_filter_scan_loop,
    },
    "flat_map": {
        "ours": _ours(lambda n: _numbers(n // 10).flat_map(lambda _: Stream.from_iterable(_TEN))),
        "reactivex": _reactivex(
            lambda n: _rx_numbers(n // 10).pipe(rx.flat_map(lambda _: reactivex.from_iterable(_TEN)))
        ),
        "aiostream": _aiostream(lambda n: _aio_numbers(n // 10) | aiostream.pipe.flatmap(_aio_ten)),
        "loop": _flat_map_loop,
    },
    "merge_4": {
        "ours": _ours(lambda n: Stream.merge(*_quarters(n, _numbers))),
        "reactivex": _reactivex(lambda n: reactivex.merge(*_quarters(n, _rx_numbers))),
        "aiostream": _aiostream(lambda n: aiostream.stream.merge(*_quarters(n, _aio_numbers))),
        "loop": _merge_4_loop,
    },
    "group_by": {
        "ours": _ours(lambda n: _numbers(n).group_by(_key).flat_map(lambda group: group.map(_triple))),
        "reactivex": _reactivex(lambda n: _rx_numbers(n).pipe(rx.group_by(_key), rx.flat_map(_rx_tripled))),
        "loop": _group_by_loop,
    },
    "buffer_100": {
        "ours": _ours(lambda n: _numbers(n).buffer_count(100)),
        "reactivex": _reactivex(lambda n: _rx_numbers(n).pipe(rx.buffer_with_count(100))),
        "aiostream": _aiostream(lambda n: _aio_numbers(n) | aiostream.pipe.chunks(100)),
        "loop": _buffer_100_loop,
    },
    "zip": {
        "ours": _ours(lambda n: _numbers(n).zip(_numbers(1, n + 1))),
        "reactivex": _reactivex(lambda n: _rx_numbers(n).pipe(rx.zip(_rx_numbers(1, n + 1)))),
        "aiostream": _aiostream(lambda n: aiostream.stream.zip(_aio_numbers(n), _aio_numbers(1, n + 1))),
        "loop": _zip_loop,
    },
    "share_4": {"ours": _share_4_ours, "reactivex": _share_4_reactivex, "loop": _share_4_loop},
    "map_x10": {
        "ours": _ours(_map_x10_ours),
        "reactivex": _reactivex(lambda n: _rx_numbers(n).pipe(*(rx.map(_triple) for _ in range(10)))),
        "aiostream": _aiostream(_map_x10_aiostream),
        "loop": _map_x10_loop,
    },
}
"""Who takes part in which case; the case that a peer has no operator for is not there."""


# --------------------------------------------------------------------------------------------------- how it is measured


def _check(case: str, candidates: dict[str, Candidate]) -> None:
    """Fail unless all candidates come to the same items, in whatever order."""
    made: dict[str, list[Any]] = {}
    for name, run in candidates.items():
        made[name] = []
        run(CHECKED, made[name].append)
    expected = sorted(made["loop"])
    for name, items in made.items():
        assert sorted(items) == expected, f"{case}: {name} came to other items than the loop"


def _rate(run: Candidate, clock: Callable[[], float] = perf_counter, items: int = ITEMS) -> Callable[[], float]:
    def measure() -> float:
        sink = deque[Any](maxlen=1).append
        gc.collect()
        began = clock()
        run(items, sink)
        return items / (clock() - began)

    return measure


def _bytes_an_item(run: Candidate) -> float:
    run(CHECKED, deque[Any](maxlen=1).append)  # what is made once only is made now
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        run(TRACED, deque[Any](maxlen=1).append)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (peak - before) / TRACED


def measure(only: str = "*") -> list[Row]:
    """Measure the cases that match the pattern `only`; two rows for each peer."""
    rows = []
    for case, candidates in CASES.items():
        if not fnmatchcase(case, only):
            continue
        _check(case, candidates)
        rates = interleaved(RUNS, {name: _rate(run) for name, run in candidates.items()})
        sizes = {name: _bytes_an_item(run) for name, run in candidates.items()}
        peers = [name for name in candidates if name != "ours"]
        rows += [bigger_is_better(case, ours=rates["ours"], peer=rates[p], peer_name=p, n=ITEMS) for p in peers]
        rows += [
            smaller_is_better(
                f"{case}/bytes", ours=sizes["ours"], peer=sizes[p], peer_name=p, n=TRACED, unit="B/item", least=0.1
            )
            for p in peers
        ]
    return rows


def trials(scale: float) -> list[Trial]:
    """Return our cases without peers, each with so many times the usual items."""
    return [
        Trial((case, f"{case}/bytes"), partial(_by_itself, case, candidates["ours"], max(CHECKED, int(ITEMS * scale))))
        for case, candidates in CASES.items()
    ]


def _by_itself(case: str, run: Candidate, items: int) -> list[Row]:
    size = _bytes_an_item(run)
    rates = interleaved(RUNS, {"time": _rate(run, items=items), "cpu": _rate(run, process_time, items)})
    return [
        by_itself(case, rates["time"], n=items, unit="items/s", cpu_us=1e6 / rates["cpu"]),
        by_itself(f"{case}/bytes", size, n=TRACED, unit="B/item"),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write what is asked for."""
    title = "Stages inside one process, items a second (median of interleaved runs)"
    parser = options(title)
    parser.add_argument("--only", default="*", metavar="PATTERN", help='some of the cases: "map_*", "zip"')
    given = parser.parse_args(arguments)
    rows = measure(given.only)
    if not rows:
        parser.error(f"--only {given.only}: no such case; there are {', '.join(CASES)}")
    publish(title, rows, given.json)


if __name__ == "__main__":
    main()
