"""The steps of random pipelines: operators that only look at a stream."""

from __future__ import annotations

from hypothesis import strategies as st

from rstreams.operators.checkpoint import checkpoint
from rstreams.operators.log import log
from rstreams.operators.name import name
from tests.operators.steps import Step

STEPS: list[st.SearchStrategy[Step]] = [
    st.sampled_from(
        [
            Step("name", lambda s: name(s, "items"), list),
            Step("log", lambda s: log(s, "items", level=1), list),
            Step("checkpoint", checkpoint, list),
        ]
    )
]
