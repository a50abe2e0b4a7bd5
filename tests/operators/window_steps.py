"""The steps of random pipelines: windows, buffers and groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from rstreams.abc import Publisher
from rstreams.operators.buffer_boundary import buffer_boundary
from rstreams.operators.buffer_count import buffer_count
from rstreams.operators.buffer_count_or_time import buffer_count_or_time
from rstreams.operators.buffer_time import buffer_time
from rstreams.operators.buffer_until import buffer_until
from rstreams.operators.flat_map import flat_map
from rstreams.operators.group_by import group_by
from rstreams.operators.map import map as map_
from rstreams.operators.reduce import reduce
from rstreams.operators.window_boundary import window_boundary
from rstreams.operators.window_count import window_count
from rstreams.operators.window_count_or_time import window_count_or_time
from rstreams.operators.window_time import window_time
from rstreams.sources.never import never
from tests.operators.steps import Numbers, Step

FAR = 1e9  # seconds: what a random pipeline never sees the end of


def _sums(count: int, skip: int) -> Callable[[Sequence[int]], list[int]]:
    return lambda xs: [sum(xs[i : i + count]) for i in range(0, len(xs), skip)]


def _total(window: Publisher[int]) -> Publisher[int]:
    return reduce(window, lambda a, x: a + x, 0)


def _joined(windows: Publisher[Publisher[int]]) -> Numbers:
    return flat_map(windows, lambda window: window, concurrency=1, prefetch=2)


def _all_in_one(xs: Sequence[int]) -> list[int]:
    return [sum(xs)] if xs else []


def _steps() -> list[st.SearchStrategy[Step]]:
    some = st.integers(1, 5)
    pair = st.tuples(some, some)
    return [
        st.sampled_from(
            [
                Step("buffer_time", lambda s: map_(buffer_time(s, FAR), sum), _all_in_one),
                Step("buffer_boundary", lambda s: map_(buffer_boundary(s, never()), sum), _all_in_one),
                Step("group_by(one key)", lambda s: _joined(group_by(s, lambda _: 0, prefetch=3)), list),
            ]
        ),
        some.map(
            lambda n: Step(
                f"buffer_until(no item, max_items={n})",
                lambda s: map_(buffer_until(s, lambda _: False, max_items=n), sum),
                _sums(n, n),
            )
        ),
        pair.map(
            lambda o: Step(
                f"buffer_count({o[0]}, skip={o[1]})",
                lambda s: map_(buffer_count(s, o[0], skip=o[1]), sum),
                _sums(o[0], o[1]),
            )
        ),
        some.map(
            lambda n: Step(
                f"buffer_count_or_time({n})", lambda s: map_(buffer_count_or_time(s, n, FAR), sum), _sums(n, n)
            )
        ),
        pair.map(
            lambda o: Step(
                f"window_count({o[0]}, prefetch={o[1]})",
                lambda s: flat_map(window_count(s, o[0], prefetch=o[1]), _total, concurrency=1),
                _sums(o[0], o[0]),
            )
        ),
        pair.map(
            lambda o: Step(
                f"window_count({o[0]}, skip={o[1]})",
                lambda s: flat_map(window_count(s, o[0], skip=o[1]), _total, concurrency=1),
                _sums(o[0], o[1]),
            )
        ),
        some.map(
            lambda n: Step(f"window_time(prefetch={n})", lambda s: _joined(window_time(s, FAR, prefetch=n)), list)
        ),
        some.map(
            lambda n: Step(
                f"window_count_or_time({n})", lambda s: _joined(window_count_or_time(s, n, FAR, prefetch=2)), list
            )
        ),
        some.map(
            lambda n: Step(
                f"window_boundary(prefetch={n})", lambda s: _joined(window_boundary(s, never(), prefetch=n)), list
            )
        ),
    ]


STEPS = _steps()
