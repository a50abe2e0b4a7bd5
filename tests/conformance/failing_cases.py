"""The failing twins of what other files describe only by what it emits."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from rstreams.abc import Publisher
from rstreams.operators.limit_request import limit_request
from rstreams.operators.on_overflow_drop import on_overflow_drop
from rstreams.operators.on_overflow_error import on_overflow_error
from rstreams.operators.on_overflow_latest import on_overflow_latest
from rstreams.operators.on_overflow_reduce import on_overflow_reduce
from rstreams.sources.fail import fail

BROKEN = fail(LookupError("failed"))

FAILING: dict[str, Callable[[], Publisher[Any]]] = {
    "limit_request": lambda: limit_request(BROKEN, 5),
    "on_overflow_drop": lambda: on_overflow_drop(BROKEN),
    "on_overflow_error": lambda: on_overflow_error(BROKEN),
    "on_overflow_latest": lambda: on_overflow_latest(BROKEN),
    "on_overflow_reduce": lambda: on_overflow_reduce(BROKEN, operator.add),
}
