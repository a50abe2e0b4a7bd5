"""The steps of random pipelines: the operators over several streams."""

from __future__ import annotations

from hypothesis import strategies as st

from rstreams.operators.combine_latest import combine_latest
from rstreams.operators.concat_map import concat_map
from rstreams.operators.expand import expand
from rstreams.operators.map import map as map_
from rstreams.operators.merge_priority import merge_priority
from rstreams.operators.merge_sorted import merge_sorted
from rstreams.operators.race import race
from rstreams.operators.with_latest_from import with_latest_from
from rstreams.operators.zip import zip as zip_
from rstreams.sources.empty import empty
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.never import never
from rstreams.sources.of import of
from tests.operators.steps import Step

_some = st.integers(1, 5)
_numbers = st.lists(st.integers(0, 9), max_size=4)

STEPS: list[st.SearchStrategy[Step]] = [
    st.sampled_from(
        [
            Step("race", lambda s: race(s, never()), list),
            Step("merge_priority", lambda s: merge_priority(empty(), s), list),
            Step("combine_latest", lambda s: map_(combine_latest(s, of(3)), sum), lambda xs: [x + 3 for x in xs]),
            Step("with_latest_from", lambda s: map_(with_latest_from(s, of(3)), sum), lambda xs: [x + 3 for x in xs]),
            Step("merge_sorted", lambda s: merge_sorted(s, empty(), key=lambda _: 0), list),
            Step("expand", lambda s: expand(s, lambda x: of(x + 1), depth=1), lambda xs: [*xs, *(x + 1 for x in xs)]),
        ]
    ),
    st.tuples(_numbers, _some).map(
        lambda o: Step(
            f"zip(source, {o[0]}, prefetch={o[1]})",
            lambda s: map_(zip_(s, from_iterable(o[0]), prefetch=o[1]), sum),
            lambda xs: [x + y for x, y in zip(xs, o[0], strict=False)],
        )
    ),
    st.tuples(_some, _some).map(
        lambda o: Step(
            f"concat_map(prefetch={o[0]})",
            lambda s: concat_map(s, lambda x: from_iterable(range(x % o[1])), prefetch=o[0]),
            lambda xs: [y for x in xs for y in range(x % o[1])],
        )
    ),
]
