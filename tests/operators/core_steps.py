"""The steps of random pipelines: the operators of the first days."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import strategies as st

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
from rstreams.sources.empty import empty
from rstreams.sources.from_iterable import from_iterable
from tests.operators.steps import Numbers, Step


async def _plus_one(x: int) -> int:
    return x + 1


def _steps() -> list[st.SearchStrategy[Step]]:
    small = st.integers(0, 5)
    some = st.integers(1, 5)
    numbers = st.lists(st.integers(0, 9), max_size=4)
    return [
        st.sampled_from(
            [
                Step("map", lambda s: map_(s, lambda x: x * 3), lambda xs: [x * 3 for x in xs]),
                Step("filter", lambda s: filter_(s, lambda x: x % 2), lambda xs: [x for x in xs if x % 2]),
                Step("scan", lambda s: scan(s, lambda a, x: a + x, 1), lambda xs: [*accumulate(xs, initial=1)][1:]),
                Step("reduce", lambda s: reduce(s, lambda a, x: a + x, 1), lambda xs: [sum(xs, start=1)]),
                Step("do_on_next", lambda s: do_on_next(s, lambda _: None), list),
                Step("do_on_error", lambda s: do_on_error(s, lambda _: None), list),
                Step("do_on_complete", lambda s: do_on_complete(s, lambda: None), list),
                Step("merge", lambda s: merge(empty(), s, empty()), list),
            ]
        ),
        small.map(lambda n: Step(f"take({n})", lambda s: take(s, n), lambda xs: xs[:n])),
        small.map(lambda n: Step(f"skip({n})", lambda s: skip(s, n), lambda xs: xs[n:])),
        some.map(
            lambda n: Step(
                f"buffer_count({n})",
                lambda s: map_(buffer_count(s, n), sum),
                lambda xs: [sum(xs[i : i + n]) for i in range(0, len(xs), n)],
            )
        ),
        st.tuples(some, some).map(
            lambda o: Step(
                f"flat_map(concurrency=1, prefetch={o[0]})",
                lambda s: flat_map(s, lambda x: from_iterable(range(x % o[1])), concurrency=1, prefetch=o[0]),
                lambda xs: [y for x in xs for y in range(x % o[1])],
            )
        ),
        some.map(
            lambda n: Step(
                f"map_async(concurrency={n})",
                lambda s: map_async(s, _plus_one, concurrency=n),
                lambda xs: [x + 1 for x in xs],
            )
        ),
        numbers.map(
            lambda more: Step(
                f"concat(source, {more})", lambda s: concat(s, from_iterable(more)), lambda xs: [*xs, *more]
            )
        ),
        numbers.map(
            lambda first: Step(
                f"concat({first}, source)", lambda s: concat(from_iterable(first), s), lambda xs: [*first, *xs]
            )
        ),
        numbers.map(
            lambda more: Step(
                f"on_error_resume({more})",
                lambda s: on_error_resume(_failing_at(s, 7), lambda _: from_iterable(more)),
                lambda xs: [*xs[: xs.index(7)], *more] if 7 in xs else xs,
            )
        ),
    ]


def _failing_at(source: Numbers, number: int) -> Numbers:
    def check(x: int) -> None:
        if x == number:
            raise LookupError(number)

    return do_on_next(source, check)


STEPS = _steps()
