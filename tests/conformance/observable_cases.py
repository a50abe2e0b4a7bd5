"""What comes from reactivex and goes through it, for the verification kit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import reactivex
from reactivex import operators as ops

from rstreams.abc import Publisher
from rstreams.observables import from_observable, rx

PUBLISHERS: dict[str, Callable[[int], Publisher[Any]]] = {
    "from_observable": lambda n: from_observable(reactivex.from_iterable(range(n)), size=2**31),
    "from_observable (drop_oldest)": lambda n: from_observable(
        reactivex.from_iterable(range(n)), overflow="drop_oldest", size=2**31
    ),
}

PROCESSORS: dict[str, Callable[[Publisher[Any]], Publisher[Any]]] = {
    "rx": lambda source: rx(source, ops.map(lambda x: x)),
}
