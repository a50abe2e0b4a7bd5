"""The steps of random pipelines: aggregates, signals as items, blocking functions."""

from __future__ import annotations

from contextlib import nullcontext

from hypothesis import strategies as st

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
from rstreams.operators.start_with import start_with
from rstreams.operators.sum import sum as sum_
from rstreams.operators.to_dict import to_dict
from rstreams.operators.to_set import to_set
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.using import using
from tests.operators.steps import Step

_small = st.integers(0, 9)

STEPS: list[st.SearchStrategy[Step]] = [
    st.sampled_from(
        [
            Step("count", count, lambda xs: [len(xs)]),
            Step("count(odd)", lambda s: count(s, lambda x: x % 2), lambda xs: [sum(x % 2 for x in xs)]),
            Step("sum", sum_, lambda xs: [sum(xs)]),
            Step("min", lambda s: min_(start_with(s, 5)), lambda xs: [min(5, *xs, 5)]),
            Step(
                "max(key)",
                lambda s: max_(start_with(s, 5), lambda x: x % 4),
                lambda xs: [max([5, *xs], key=lambda x: x % 4)],
            ),
            Step(
                "average",
                lambda s: map_(average(start_with(s, 5)), int),
                lambda xs: [int(sum([5, *xs]) / (len(xs) + 1))],
            ),
            Step("collect", lambda s: map_(collect(s), sum), lambda xs: [sum(xs)]),
            Step("to_set", lambda s: map_(to_set(s), sum), lambda xs: [sum(set(xs))]),
            Step(
                "to_dict",
                lambda s: map_(to_dict(s, lambda x: x % 3), lambda d: sum(d.values())),
                lambda xs: [sum({x % 3: x for x in xs}.values())],
            ),
            Step("dematerialize(materialize)", lambda s: dematerialize(materialize(s)), list),
            Step(
                "materialize",
                lambda s: map_(materialize(s), lambda signal: len(type(signal).__name__)),
                lambda xs: [len("Next")] * len(xs) + [len("Completed")],
            ),
            Step("using", lambda s: using(nullcontext, lambda _: s), list),
        ]
    ),
    _small.map(lambda n: Step(f"all(< {n})", lambda s: all_(s, lambda x: x < n), lambda xs: [all(x < n for x in xs)])),
    _small.map(lambda n: Step(f"any(> {n})", lambda s: any_(s, lambda x: x > n), lambda xs: [any(x > n for x in xs)])),
    _small.map(lambda n: Step(f"contains({n})", lambda s: contains(s, n), lambda xs: [n in xs])),
    st.tuples(st.integers(1, 5), st.lists(_small, max_size=5)).map(
        lambda o: Step(
            f"sequence_equal({o[1]}, prefetch={o[0]})",
            lambda s: sequence_equal(s, from_iterable(o[1]), prefetch=o[0]),
            lambda xs: [list(xs) == o[1]],
        )
    ),
    st.integers(1, 5).map(
        lambda n: Step(
            f"map_blocking(concurrency={n})",
            lambda s: map_blocking(s, lambda x: x + 2, concurrency=n),
            lambda xs: [x + 2 for x in xs],
        )
    ),
]
