"""What the verification kit examines of the aggregates, of signals as items, of blocking functions and of resources."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from rstreams.abc import Publisher
from rstreams.notifications import Next
from rstreams.operators.all import all as all_
from rstreams.operators.any import any as any_
from rstreams.operators.average import average
from rstreams.operators.collect import collect
from rstreams.operators.contains import contains
from rstreams.operators.count import count
from rstreams.operators.dematerialize import dematerialize
from rstreams.operators.map import map as map_
from rstreams.operators.map_blocking import map_blocking
from rstreams.operators.materialize import materialize
from rstreams.operators.max import max as max_
from rstreams.operators.min import min as min_
from rstreams.operators.sequence_equal import sequence_equal
from rstreams.operators.sum import sum as sum_
from rstreams.operators.take import take
from rstreams.operators.to_dict import to_dict
from rstreams.operators.to_set import to_set
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.from_callable import from_callable
from rstreams.sources.from_future import from_future
from rstreams.sources.range import range as range_
from rstreams.sources.unfold import unfold
from rstreams.sources.using import using


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


def _async(publisher: Publisher[Any]) -> Publisher[Any]:
    def acquire() -> AbstractAsyncContextManager[None]:
        return _nothing()

    return using(acquire, lambda _: publisher)


def _down(n: int) -> tuple[int, int] | None:
    return (n, n - 1) if n else None


async def _down_async(n: int) -> tuple[int, int] | None:
    return _down(n)


async def _seven() -> int:
    return 7


def _refuse(*_: object) -> Any:  # noqa: ANN401 - it returns nothing
    raise LookupError


def _future(result: int) -> Future[int]:
    future = Future[int]()
    future.set_result(result)
    return future


PUBLISHERS: dict[str, Callable[[int], Publisher[Any]]] = {
    "unfold": lambda n: unfold(n, _down),
    "unfold (async)": lambda n: unfold(n, _down_async),
    "using": lambda n: using(nullcontext, lambda _: range_(n)),
    "using (async)": lambda n: _async(range_(n)),
    "dematerialize (of materialize)": lambda n: dematerialize(materialize(range_(n))),
    "materialize (but the end)": lambda n: take(materialize(range_(n)), n),
}

PROCESSORS: dict[str, Callable[[Publisher[Any]], Publisher[Any]]] = {
    "dematerialize": lambda s: dematerialize(map_(s, Next)),
    "map_blocking": lambda s: map_blocking(s, lambda x: x),
    "map_blocking (concurrency=4)": lambda s: map_blocking(s, lambda x: x, concurrency=4, ordered=False),
    "using (over a source)": lambda s: using(nullcontext, lambda _: s),
}

SINGLES: dict[str, Callable[[], Publisher[Any]]] = {
    "all": lambda: all_(range_(10), lambda x: x < 5),
    "any": lambda: any_(range_(10), lambda x: x > 5),
    "average": lambda: average(range_(10)),
    "contains": lambda: contains(range_(10), 3),
    "count": lambda: count(range_(10)),
    "max": lambda: max_(range_(10)),
    "min": lambda: min_(range_(10)),
    "sum": lambda: sum_(range_(10)),
    "to_dict": lambda: to_dict(range_(10), str),
    "to_set": lambda: to_set(range_(10)),
    "collect": lambda: collect(range_(10)),
    "sequence_equal": lambda: sequence_equal(range_(10), range_(10)),
    "sequence_equal (of different ones)": lambda: sequence_equal(range_(10), range_(9), prefetch=1),
    "materialize": lambda: materialize(empty()),
    "materialize (of an error)": lambda: materialize(fail(LookupError())),
    "from_callable": lambda: from_callable(lambda: 7),
    "from_callable (async)": lambda: from_callable(_seven),
    "from_future": lambda: from_future(_future(7)),
}

# The other failing twins are in failing_cases.py. `materialize` has none: an error is an item of it.
FAILING: dict[str, Callable[[], Publisher[Any]]] = {"using (async)": lambda: using(_nothing, _refuse)}
