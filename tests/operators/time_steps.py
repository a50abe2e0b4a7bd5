"""The steps of random pipelines: the operators about errors and ends, and those that need a clock but no time."""

from __future__ import annotations

from hypothesis import strategies as st

from rstreams.operators.concat import concat
from rstreams.operators.do_finally import do_finally
from rstreams.operators.do_on_cancel import do_on_cancel
from rstreams.operators.do_on_request import do_on_request
from rstreams.operators.do_on_subscribe import do_on_subscribe
from rstreams.operators.map import map as map_
from rstreams.operators.on_error_complete import on_error_complete
from rstreams.operators.on_error_map import on_error_map
from rstreams.operators.on_error_return import on_error_return
from rstreams.operators.repeat import repeat
from rstreams.operators.retry import retry
from rstreams.operators.retry_backoff import retry_backoff
from rstreams.operators.time_interval import time_interval
from rstreams.operators.timeout import timeout
from rstreams.operators.timestamp import timestamp
from rstreams.sources.fail import fail
from tests.operators.steps import Numbers, Step


def _then_fails(source: Numbers) -> Numbers:
    return concat(source, fail(LookupError()))


STEPS: list[st.SearchStrategy[Step]] = [
    st.sampled_from(
        [
            Step("do_finally", lambda s: do_finally(s, lambda _: None), list),
            Step("do_on_subscribe", lambda s: do_on_subscribe(s, lambda: None), list),
            Step("do_on_request", lambda s: do_on_request(s, lambda _: None), list),
            Step("do_on_cancel", lambda s: do_on_cancel(s, lambda: None), list),
            Step("on_error_map", lambda s: on_error_map(s, lambda error: error), list),
            Step("on_error_complete", lambda s: on_error_complete(_then_fails(s)), list),
            Step("on_error_return", lambda s: on_error_return(_then_fails(s), 4), lambda xs: [*xs, 4]),
            Step("repeat(1)", lambda s: repeat(s, 1), list),
            Step("repeat(2)", lambda s: repeat(s, 2), lambda xs: [*xs, *xs], repeats=True),
            Step("retry(1)", lambda s: retry(s, 1), list),
            Step(
                "retry_backoff(1), failing",
                lambda s: on_error_complete(retry_backoff(_then_fails(s), 1, first_s=0)),
                lambda xs: [*xs, *xs],
            ),
            Step("timeout(1e9)", lambda s: timeout(s, 1e9), list),
            Step("timestamp", lambda s: map_(timestamp(s), lambda stamped: stamped.item), list),
            Step("time_interval", lambda s: map_(time_interval(s), lambda timed: timed.item), list),
            Step("retry(1), failing", lambda s: on_error_complete(retry(_then_fails(s), 1)), lambda xs: [*xs, *xs]),
        ]
    )
]
