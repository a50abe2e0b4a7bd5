"""The steps of random pipelines: the sharing family, each with one subscriber."""

from __future__ import annotations

from hypothesis import strategies as st

from rstreams.operators.broadcast import broadcast
from rstreams.operators.cache import cache
from rstreams.operators.distribute import distribute
from rstreams.operators.map import map as map_
from rstreams.operators.parallel import parallel
from rstreams.operators.partition import partition
from rstreams.operators.replay import replay
from rstreams.operators.share import share
from tests.operators.steps import Step

windows = st.integers(1, 5)

# Not publish().auto_connect(): what its last subscriber left waits for the next one, so that it has no outcome.


def _of_window(window: int) -> st.SearchStrategy[Step]:
    named = f"(window={window})"
    return st.sampled_from(
        [
            Step(f"share{named}", lambda s: share(s, window=window), list),
            Step(f"broadcast{named}", lambda s: broadcast(s, window=window), list, again="end"),
            Step(f"replay(2{named}).ref_count()", lambda s: replay(s, 2, window=window).ref_count(), list),
            Step(f"distribute{named}", lambda s: distribute(s, window=window), list, again="end"),
            Step(f"partition{named}", lambda s: partition(s, lambda _: 0, 1, window=window)[0], list, again="refused"),
            Step(
                f"parallel(1{named})",
                lambda s: parallel(s, 1, lambda items: map_(items, lambda x: x + 1), window=window),
                lambda xs: [x + 1 for x in xs],
            ),
        ]
    )


STEPS: list[st.SearchStrategy[Step]] = [
    windows.flatmap(_of_window),
    st.just(Step("cache()", cache, list, again="anew")),
]
