"""The operators that only look at a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rstreams.abc import Publisher
from rstreams.operators.checkpoint import checkpoint
from rstreams.operators.log import log
from rstreams.operators.name import name

PROCESSORS: dict[str, Callable[[Publisher[Any]], Publisher[Any]]] = {
    "name": lambda source: name(source, "items"),
    "log": lambda source: log(source, "items", level=1),
    "checkpoint": checkpoint,
}
