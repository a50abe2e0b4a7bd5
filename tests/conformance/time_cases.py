"""What the verification kit examines of the operators with a clock, and of those about errors and ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rstreams.abc import Publisher
from rstreams.operators.concat import concat
from rstreams.operators.debounce import debounce
from rstreams.operators.delay import delay
from rstreams.operators.delay_each import delay_each
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
from rstreams.operators.sample import sample
from rstreams.operators.take import take
from rstreams.operators.throttle import throttle
from rstreams.operators.time_interval import time_interval
from rstreams.operators.timeout import timeout
from rstreams.operators.timestamp import timestamp
from rstreams.sources.fail import fail
from rstreams.sources.interval import interval
from rstreams.sources.of import of
from rstreams.sources.range import range as range_
from rstreams.sources.timer import timer

PUBLISHERS: dict[str, Callable[[int], Publisher[Any]]] = {
    # which tick it is depends on when it is asked for
    "interval": lambda n: take(map_(interval(0.001), lambda _: "tick"), n),
    "on_error_complete (after an error)": lambda n: on_error_complete(concat(range_(n), fail(LookupError()))),
}

PROCESSORS: dict[str, Callable[[Publisher[Any]], Publisher[Any]]] = {
    "timestamp": lambda s: map_(timestamp(s), lambda stamped: stamped.item),
    "time_interval": lambda s: map_(time_interval(s), lambda timed: timed.item),
    "delay": lambda s: delay(s, 0.001),
    "delay_each": lambda s: delay_each(s, 0.001),
    "timeout": lambda s: timeout(s, 1e9),
    "retry": lambda s: retry(s, 0),
    "retry_backoff": lambda s: retry_backoff(s, 0),
    "repeat": lambda s: repeat(s, 1),
    "on_error_map": lambda s: on_error_map(s, lambda error: error),
    "do_finally": lambda s: do_finally(s, lambda _: None),
    "do_on_subscribe": lambda s: do_on_subscribe(s, lambda: None),
    "do_on_request": lambda s: do_on_request(s, lambda _: None),
    "do_on_cancel": lambda s: do_on_cancel(s, lambda: None),
}

SINGLES: dict[str, Callable[[], Publisher[Any]]] = {
    "timer": lambda: timer(0.001),
    "debounce": lambda: debounce(range_(10), 1.0),
    "throttle": lambda: throttle(of(1), 1.0),
    "sample": lambda: sample(range_(10), 1.0),
    "on_error_return": lambda: on_error_return(fail(LookupError()), 0),
}

FAILING: dict[str, Callable[[], Publisher[Any]]] = {
    "debounce": lambda: debounce(fail(LookupError()), 1.0),
    "throttle": lambda: throttle(fail(LookupError()), 1.0),
    "sample": lambda: sample(fail(LookupError()), 1.0),
    "on_error_complete (after an error)": lambda: on_error_complete(fail(LookupError()), lambda _: False),
}
