"""The demand family for the verification kit."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from rstreams.abc import Publisher
from rstreams.operators.limit_rate import limit_rate
from rstreams.operators.limit_request import limit_request
from rstreams.operators.on_overflow_buffer import on_overflow_buffer
from rstreams.operators.on_overflow_drop import on_overflow_drop
from rstreams.operators.on_overflow_error import on_overflow_error
from rstreams.operators.on_overflow_latest import on_overflow_latest
from rstreams.operators.on_overflow_reduce import on_overflow_reduce
from rstreams.operators.pausable import Valve, pausable
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.of import of

MANY = 2**31

PROCESSORS: dict[str, Callable[[Publisher[Any]], Publisher[Any]]] = {
    "limit_rate": lambda source: limit_rate(source, 4),
    "limit_rate (one at a time)": lambda source: limit_rate(source, 1),
    "limit_request (large)": lambda source: limit_request(source, MANY),
    "on_overflow_buffer (large)": lambda source: on_overflow_buffer(source, MANY),
    "on_overflow_buffer (large, drop_oldest)": lambda source: on_overflow_buffer(source, MANY, strategy="drop_oldest"),
    "pausable": lambda source: pausable(source, Valve()),
    "pausable (size=1)": lambda source: pausable(source, Valve(), size=1),
}

PUBLISHERS: dict[str, Callable[[int], Publisher[Any]]] = {
    "limit_request": lambda n: limit_request(from_iterable(range(n + 1)), n),
}

# What these emit of more than one item depends on when it is requested.
SINGLES: dict[str, Callable[[], Publisher[Any]]] = {
    "on_overflow_drop": lambda: on_overflow_drop(of(1)),
    "on_overflow_error": lambda: on_overflow_error(of(1)),
    "on_overflow_latest": lambda: on_overflow_latest(of(1)),
    "on_overflow_reduce": lambda: on_overflow_reduce(of(1), operator.add),
}
