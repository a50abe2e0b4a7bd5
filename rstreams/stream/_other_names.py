"""Names of operators in other libraries: an error for such a name gives ours."""

from __future__ import annotations

from typing import Final

OURS: Final = {
    # reactivex
    "amb": "race",
    "buffer": "buffer_count, buffer_time or buffer_boundary",
    "buffer_with_count": "buffer_count",
    "buffer_with_time": "buffer_time",
    "buffer_with_time_or_count": "buffer_count_or_time",
    "catch": "on_error_resume",
    "do": "do_on_next, do_on_error or do_on_complete",
    "do_action": "do_on_next, do_on_error or do_on_complete",
    "finally_action": "do_finally",
    "find": "filter and first",
    "first_or_default": "first_or_none, awaited, or first and default_if_empty",
    "flat_map_latest": "switch_map",
    "is_empty": "any, and its opposite",
    "observe_on": "map_blocking, for work that needs a thread: all signals stay in one",
    "on_error_resume_next": "concat(..., delay_errors=True) or on_error_resume",
    "pipe": "through, or a chain of methods",
    "run": "to_list, for_each or first_or_none, awaited",
    "select": "map",
    "some": "any",
    "starmap": "map, with a function of one tuple",
    "subscribe_on": "map_blocking, for work that needs a thread: all signals stay in one",
    "switch_latest": "switch_map, with a function that returns the inner stream",
    "tap": "do_on_next",
    "throttle_first": "throttle",
    "throttle_last": "sample",
    "throttle_with_timeout": "debounce",
    "where": "filter",
    "window": "window_count, window_time or window_boundary",
    "window_with_count": "window_count",
    "window_with_time": "window_time",
    # Reactor
    "block": "first_or_none, awaited, or rstreams.blocking",
    "buffer_timeout": "buffer_count_or_time",
    "collect_list": "collect",
    "concat_with": "concat",
    "delay_elements": "delay_each",
    "elapsed": "time_interval",
    "index": "enumerate",
    "merge_with": "merge",
    "publish_on": "map_blocking, for work that needs a thread: all signals stay in one",
    "window_timeout": "window_count_or_time",
    "zip_with": "zip",
}
