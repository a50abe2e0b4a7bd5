"""Windows, buffers and groups, for the verification kit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rstreams.abc import Publisher
from rstreams.operators.buffer_boundary import buffer_boundary
from rstreams.operators.buffer_count import buffer_count
from rstreams.operators.buffer_count_or_time import buffer_count_or_time
from rstreams.operators.buffer_time import buffer_time
from rstreams.operators.buffer_until import buffer_until
from rstreams.operators.flat_map import flat_map
from rstreams.operators.group_by import group_by
from rstreams.operators.map import map as map_
from rstreams.operators.window_boundary import window_boundary
from rstreams.operators.window_count import window_count
from rstreams.operators.window_count_or_time import window_count_or_time
from rstreams.operators.window_time import window_time
from rstreams.sources.fail import fail
from rstreams.sources.never import never
from rstreams.sources.range import range as range_


def _one_by_one(windows: Publisher[Publisher[Any]]) -> Publisher[Any]:
    return flat_map(windows, lambda window: window, concurrency=1, prefetch=1)


PUBLISHERS: dict[str, Callable[[int], Publisher[Any]]] = {
    "buffer_count (overlapping)": lambda n: buffer_count(range_(n), 3, skip=1),
    "buffer_count (with gaps)": lambda n: buffer_count(range_(3 * n), 2, skip=3),
    "buffer_count_or_time": lambda n: buffer_count_or_time(range_(2 * n), 2, 1e9),
    "buffer_until": lambda n: buffer_until(range_(2 * n), lambda x: x % 2, max_items=5),
    "window_count": lambda n: map_(window_count(range_(2 * n), 2, prefetch=max(2 * n, 1)), type),
    "window_count (flat)": lambda n: _one_by_one(window_count(range_(n), 2)),
    "window_time": lambda n: _one_by_one(window_time(range_(n), 1.0)),
    "window_count_or_time": lambda n: _one_by_one(window_count_or_time(range_(n), 2, 1.0)),
    "window_boundary": lambda n: _one_by_one(window_boundary(range_(n), never())),
    "group_by": lambda n: map_(group_by(range_(n), lambda x: x, prefetch=max(n, 1)), lambda group: group.key),
    "group_by (flat)": lambda n: flat_map(group_by(range_(n), lambda x: x % 3, prefetch=4), lambda group: group),
}

SINGLES: dict[str, Callable[[], Publisher[Any]]] = {
    "buffer_time": lambda: buffer_time(range_(5), 1e9),
    "buffer_boundary": lambda: buffer_boundary(range_(5), never()),
}

PROCESSORS: dict[str, Callable[[Publisher[Any]], Publisher[Any]]] = {
    "buffer_count_or_time (1)": lambda s: map_(buffer_count_or_time(s, 1, 1e9), lambda items: items[0]),
    "buffer_until (each)": lambda s: map_(buffer_until(s, lambda _: True), lambda items: items[0]),
    "window_count (flat)": lambda s: _one_by_one(window_count(s, 2)),
    "window_time (flat)": lambda s: _one_by_one(window_time(s, 1.0)),
    "window_count_or_time (flat)": lambda s: _one_by_one(window_count_or_time(s, 2, 1.0)),
    "window_boundary (flat)": lambda s: _one_by_one(window_boundary(s, never())),
    "group_by (flat)": lambda s: _one_by_one(group_by(s, lambda _: 0)),
}

FAILING: dict[str, Callable[[], Publisher[Any]]] = {
    "buffer_count_or_time": lambda: buffer_count_or_time(fail(LookupError()), 2, 1.0),
    "buffer_until": lambda: buffer_until(fail(LookupError()), bool),
    "buffer_time": lambda: buffer_time(fail(LookupError()), 1.0),
    "buffer_boundary": lambda: buffer_boundary(fail(LookupError()), never()),
    "window_count": lambda: window_count(fail(LookupError()), 2),
    "window_time": lambda: window_time(fail(LookupError()), 1.0),
    "window_count_or_time": lambda: window_count_or_time(fail(LookupError()), 2, 1.0),
    "window_boundary": lambda: window_boundary(fail(LookupError()), never()),
    "group_by": lambda: group_by(fail(LookupError()), lambda x: x),
}
