"""What the verification kit examines of issue 2's sources and operators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from rstreams.abc import Publisher
from rstreams.operators.buffer_count import buffer_count
from rstreams.operators.concat import concat
from rstreams.operators.do_on_complete import do_on_complete
from rstreams.operators.do_on_error import do_on_error
from rstreams.operators.do_on_next import do_on_next
from rstreams.operators.filter import filter as filter_
from rstreams.operators.flat_map import flat_map
from rstreams.operators.map import map as map_
from rstreams.operators.map_async import map_async
from rstreams.operators.merge import merge
from rstreams.operators.on_error_resume import on_error_resume
from rstreams.operators.reduce import reduce
from rstreams.operators.scan import scan
from rstreams.operators.skip import skip
from rstreams.operators.take import take
from rstreams.sources.defer import defer
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.from_async_iterable import from_async_iterable
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.generate import generate
from rstreams.sources.never import never
from rstreams.sources.of import of
from rstreams.sources.range import range as range_


def _lazily(n: int) -> Iterator[int]:
    yield from range(n)


class _Numbers:
    """An async iterable that can be gone through more than once."""

    def __init__(self, n: int) -> None:
        self._n = n

    async def __aiter__(self) -> AsyncIterator[int]:
        for x in range(self._n):
            yield x


async def _same(x: int) -> int:
    return x


def _raise(error: Exception) -> Publisher[Any]:
    raise error


PUBLISHERS: dict[str, Callable[[int], Publisher[Any]]] = {
    "from_iterable (range)": lambda n: from_iterable(range(n)),
    "from_iterable (list)": lambda n: from_iterable([*range(n)]),
    "defer (generators)": lambda n: defer(lambda: from_iterable(_lazily(n))),
    "of": lambda n: of(*range(n)),
    "range": range_,
    "generate": lambda n: generate(0, lambda x: (x, x + 1) if x < n else None),
    "from_async_iterable": lambda n: from_async_iterable(_Numbers(n)),
    "filter (even)": lambda n: filter_(range_(2 * n), lambda x: x % 2 == 0),
    "take": lambda n: take(range_(n + 5), n),
    "skip": lambda n: skip(range_(n + 5), 5),
    "buffer_count": lambda n: buffer_count(range_(max(3 * n - 1, 0)), 3),
    "concat (of halves)": lambda n: concat(range_(n // 2), range_(n - n // 2)),
    "merge (of halves)": lambda n: merge(range_(n // 2), range_(n - n // 2)),
    "flat_map (to many)": lambda n: flat_map(of(n // 2, n - n // 2), range_),
    "flat_map (of flat_map)": lambda n: flat_map(flat_map(range_(n), of), of),
    "on_error_resume (after an error)": lambda n: on_error_resume(
        concat(range_(n // 2), fail(LookupError())), lambda _: range_(n - n // 2)
    ),
    "scan (of a long chain)": lambda n: scan(filter_(map_(skip(take(range_(n + 2), n + 2), 2), abs), bool), max, 0),
}

PROCESSORS: dict[str, Callable[[Publisher[Any]], Publisher[Any]]] = {
    "map": lambda s: map_(s, lambda x: x),
    "filter": lambda s: filter_(s, lambda _: True),
    "scan": lambda s: scan(s, lambda _, x: x, None),
    "do_on_next": lambda s: do_on_next(s, lambda _: None),
    "do_on_error": lambda s: do_on_error(s, lambda _: None),
    "do_on_complete": lambda s: do_on_complete(s, lambda: None),
    "on_error_resume": lambda s: on_error_resume(s, _raise),
    "take (all)": lambda s: take(s, 2**70),
    "skip (none)": lambda s: skip(s, 0),
    "buffer_count (1)": lambda s: map_(buffer_count(s, 1), lambda items: items[0]),
    "concat (one)": concat,
    "concat (empty, one, empty)": lambda s: concat(empty(), s, empty()),
    "merge (one)": merge,
    "flat_map": lambda s: flat_map(s, of),
    "flat_map (concurrency=1)": lambda s: flat_map(s, of, concurrency=1, prefetch=1),
    "map_async": lambda s: map_async(s, _same),
    "map_async (concurrency=4)": lambda s: map_async(s, _same, concurrency=4, ordered=False),
}

SINGLES: dict[str, Callable[[], Publisher[Any]]] = {
    "reduce": lambda: reduce(range_(10), lambda a, x: a + x, 0),
    "reduce (of nothing)": lambda: reduce(empty(), lambda a, x: a + x, 0),
}

ITEMLESS: dict[str, Callable[[], Publisher[Any]]] = {"empty": empty}


class _Unready:
    """Something to go through that cannot even begin."""

    def __iter__(self) -> Iterator[int]:
        raise LookupError

    def __aiter__(self) -> AsyncIterator[int]:
        raise LookupError


def _refuse(*_: object) -> Any:  # noqa: ANN401 - it returns nothing
    raise LookupError


FAILING: dict[str, Callable[[], Publisher[Any]]] = {
    "from_iterable (list)": lambda: from_iterable(_Unready()),
    "from_iterable (range)": lambda: from_iterable(_Unready()),
    "defer (generators)": lambda: defer(_refuse),
    "from_async_iterable": lambda: from_async_iterable(_Unready()),
    "concat (of halves)": lambda: concat(empty(), fail(LookupError())),
    "merge (of halves)": lambda: merge(never(), fail(LookupError())),
    "on_error_resume (after an error)": lambda: on_error_resume(fail(LookupError()), _refuse),
    "scan (of a long chain)": lambda: scan(filter_(map_(fail(LookupError()), abs), bool), max, 0),
    "reduce": lambda: reduce(fail(LookupError()), max, 0),
    "reduce (of nothing)": lambda: reduce(fail(LookupError()), max, 0),
}
