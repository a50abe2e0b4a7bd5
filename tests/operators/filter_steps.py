"""The steps of random pipelines: operators that leave items out, and their kin."""

from __future__ import annotations

from itertools import dropwhile, groupby, takewhile
from itertools import pairwise as pairs

from hypothesis import strategies as st

from rstreams.operators.cast import cast
from rstreams.operators.default_if_empty import default_if_empty
from rstreams.operators.distinct import distinct
from rstreams.operators.distinct_until_changed import distinct_until_changed
from rstreams.operators.end_with import end_with
from rstreams.operators.enumerate import enumerate as enumerate_
from rstreams.operators.flatten import flatten
from rstreams.operators.ignore_elements import ignore_elements
from rstreams.operators.map import map as map_
from rstreams.operators.pairwise import pairwise
from rstreams.operators.skip_last import skip_last
from rstreams.operators.skip_until import skip_until
from rstreams.operators.skip_while import skip_while
from rstreams.operators.start_with import start_with
from rstreams.operators.switch_if_empty import switch_if_empty
from rstreams.operators.take_last import take_last
from rstreams.operators.take_until import take_until
from rstreams.operators.take_while import take_while
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.never import never
from rstreams.sources.of import of
from tests.operators.steps import Step

_small = st.integers(0, 4)
_numbers = st.lists(st.integers(0, 9), max_size=3)

STEPS: list[st.SearchStrategy[Step]] = [
    st.sampled_from(
        [
            Step("distinct", distinct, lambda xs: list(dict.fromkeys(xs))),
            Step("distinct_until_changed", distinct_until_changed, lambda xs: [x for x, _ in groupby(xs)]),
            Step("ignore_elements", ignore_elements, lambda _: []),
            Step("cast", lambda s: cast(s, int), list),
            Step("pairwise", lambda s: map_(pairwise(s), sum), lambda xs: [sum(pair) for pair in pairs(xs)]),
            Step("enumerate", lambda s: map_(enumerate_(s), sum), lambda xs: [i + x for i, x in enumerate(xs)]),
            Step("default_if_empty", lambda s: default_if_empty(s, 5), lambda xs: xs or [5]),
            Step("take_until(never)", lambda s: take_until(s, never()), list),
            Step("skip_until(now)", lambda s: skip_until(s, of(1)), list),
            Step(
                "flatten",
                lambda s: flatten(map_(s, lambda x: range(x % 3))),
                lambda xs: [y for x in xs for y in range(x % 3)],
            ),
        ]
    ),
    _small.map(
        lambda n: Step(
            f"take_while({n})",
            lambda s: take_while(s, lambda x: x <= n),
            lambda xs: list(takewhile(lambda x: x <= n, xs)),
        )
    ),
    _small.map(
        lambda n: Step(
            f"skip_while({n})",
            lambda s: skip_while(s, lambda x: x <= n),
            lambda xs: list(dropwhile(lambda x: x <= n, xs)),
        )
    ),
    _small.map(lambda n: Step(f"take_last({n})", lambda s: take_last(s, n), lambda xs: xs[-n:] if n else [])),
    _small.map(lambda n: Step(f"skip_last({n})", lambda s: skip_last(s, n), lambda xs: xs[:-n] if n else xs)),
    _numbers.map(lambda first: Step(f"start_with({first})", lambda s: start_with(s, *first), lambda xs: [*first, *xs])),
    _numbers.map(lambda last: Step(f"end_with({last})", lambda s: end_with(s, *last), lambda xs: [*xs, *last])),
    _numbers.map(
        lambda other: Step(
            f"switch_if_empty({other})", lambda s: switch_if_empty(s, from_iterable(other)), lambda xs: xs or other
        )
    ),
]
