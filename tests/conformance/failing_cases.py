"""The failing twins of operators and sources that the other files describe only by what they emit."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from rstreams.abc import Publisher
from rstreams.sources.fail import fail

BROKEN = fail(LookupError("failed"))

_APPLIED: dict[str, Callable[[Callable[..., Publisher[Any]]], Publisher[Any]]] = {
    "all": lambda op: op(BROKEN, bool),
    "any": lambda op: op(BROKEN, bool),
    "average": lambda op: op(BROKEN),
    "contains": lambda op: op(BROKEN, 3),
    "count": lambda op: op(BROKEN),
    "default_if_empty": lambda op: op(BROKEN, 7),
    "element_at": lambda op: op(BROKEN, 3),
    "first": lambda op: op(BROKEN),
    "ignore_elements": lambda op: op(BROKEN),
    "last": lambda op: op(BROKEN),
    "limit_request": lambda op: op(BROKEN, 5),
    "max": lambda op: op(BROKEN),
    "min": lambda op: op(BROKEN),
    "on_overflow_drop": lambda op: op(BROKEN),
    "on_overflow_error": lambda op: op(BROKEN),
    "on_overflow_latest": lambda op: op(BROKEN),
    "on_overflow_reduce": lambda op: op(BROKEN, operator.add),
    "pairwise": lambda op: op(BROKEN),
    "single": lambda op: op(BROKEN),
    "sum": lambda op: op(BROKEN),
    "take_last": lambda op: op(BROKEN, 3),
    "to_dict": lambda op: op(BROKEN, str),
    "to_set": lambda op: op(BROKEN),
    "collect": lambda op: op(BROKEN),
    "using": lambda source: source(nullcontext, lambda _: BROKEN),
}


def _failing(name: str) -> Callable[[], Publisher[Any]]:
    def make() -> Publisher[Any]:
        try:
            module = import_module(f"rstreams.operators.{name}")
        except ModuleNotFoundError:
            module = import_module(f"rstreams.sources.{name}")
        return _APPLIED[name](getattr(module, name))

    return make


FAILING: dict[str, Callable[[], Publisher[Any]]] = {name: _failing(name) for name in _APPLIED}
