"""The steps of random pipelines: the demand family."""

from __future__ import annotations

from hypothesis import strategies as st

from rstreams.operators.limit_rate import limit_rate
from rstreams.operators.limit_request import limit_request
from rstreams.operators.on_overflow_buffer import on_overflow_buffer
from rstreams.operators.pausable import Valve, pausable
from tests.operators.steps import Numbers, Step

small = st.integers(0, 5)
some = st.integers(1, 5)


def _flapping(source: Numbers, size: int) -> Numbers:
    """Pause and resume once more before every subscription is through."""
    valve = Valve()
    paused = pausable(source, valve, size=size)
    valve.pause()
    valve.resume()
    return paused


STEPS: list[st.SearchStrategy[Step]] = [
    st.tuples(some, small).map(
        lambda o: Step(f"limit_rate({o[0]}, {o[1] % o[0]})", lambda s: limit_rate(s, o[0], o[1] % o[0]), list)
    ),
    small.map(lambda n: Step(f"limit_request({n})", lambda s: limit_request(s, n), lambda xs: xs[:n])),
    some.map(lambda n: Step(f"pausable(size={n})", lambda s: _flapping(s, n), list)),
    st.just(Step("on_overflow_buffer(1000)", lambda s: on_overflow_buffer(s, 1000), list)),
]
