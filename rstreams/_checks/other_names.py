"""Names of other libraries: the error for such a name gives ours."""

from __future__ import annotations

import dis
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

OURS: Final = {
    # reactivex
    "amb": "race",
    "buffer": "buffer_count, buffer_time or buffer_boundary",
    "buffer_toggle": "window_boundary or buffer_boundary, with one stream of boundaries",
    "buffer_when": "buffer_boundary",
    "buffer_with_count": "buffer_count",
    "buffer_with_time": "buffer_time",
    "buffer_with_time_or_count": "buffer_count_or_time",
    "case": "defer, with a dict of streams",
    "catch": "on_error_resume",
    "catch_with_iterable": "on_error_resume",
    "cold": "rstreams.testing, with a diagram of marbles",
    "compose": "through",
    "concat_all": "concat_map, with a function that returns the inner stream",
    "concat_with_iterable": "concat",
    "create": "from_async_iterable or generate, or rstreams.push for items that come from elsewhere",
    "delay_subscription": "timer and concat_map",
    "delay_with_mapper": "concat_map or flat_map, with timer",
    "do": "do_on_next, do_on_error or do_on_complete",
    "do_action": "do_on_next, do_on_error or do_on_complete",
    "do_while": "repeat and take_while",
    "element_at_or_default": "element_at and default_if_empty",
    "exclusive": "on_overflow_drop and concat_map",
    "filter_indexed": "enumerate and filter",
    "finally_action": "do_finally",
    "find": "filter and first",
    "find_index": "enumerate, filter and first",
    "first_or_default": "first_or_none, awaited, or first and default_if_empty",
    "flat_map_indexed": "enumerate and flat_map",
    "flat_map_latest": "switch_map",
    "for_in": "from_iterable and concat_map",
    "fork_join": "zip, of streams that end with last",
    "from_": "from_iterable",
    "from_callback": "rstreams.push, such as Unicast",
    "from_list": "from_iterable",
    "from_marbles": "rstreams.testing, with a diagram of marbles",
    "generate_with_relative_time": "unfold and delay_each",
    "group_by_until": "group_by, with take_until or timeout on the groups",
    "group_join": "combine_latest or with_latest_from",
    "hot": "publish, of a stream of rstreams.testing",
    "if_then": "defer",
    "is_empty": "any, and its opposite",
    "join": "combine_latest or with_latest_from",
    "just": "of",
    "last_or_default": "last and default_if_empty",
    "map_indexed": "enumerate and map",
    "max_by": "max, with a key",
    "merge_all": "flat_map, with a function that returns the inner stream",
    "min_by": "min, with a key",
    "multicast": "publish, share or replay",
    "observe_on": "map_blocking, for work that needs a thread: all signals stay in one",
    "on_error_resume_next": "concat(..., delay_errors=True) or on_error_resume",
    "partition_indexed": "enumerate and partition",
    "pipe": "through, or a chain of methods",
    "pluck": "map, with operator.itemgetter",
    "pluck_attr": "map, with operator.attrgetter",
    "publish_value": "replay(1), or rstreams.push.Latest",
    "ref_count": "share, or publish().auto_connect()",
    "repeat_value": "of and repeat",
    "return_value": "of",
    "run": "to_list, for_each or first_or_none, awaited",
    "select": "map",
    "single_or_default": "single and default_if_empty",
    "single_or_default_async": "single and default_if_empty",
    "skip_last_with_time": "timestamp and filter",
    "skip_until_with_time": "skip_until, with timer",
    "skip_while_indexed": "enumerate and skip_while",
    "skip_with_time": "skip_until, with timer",
    "slice": "skip and take",
    "some": "any",
    "starmap": "map, with a function of one tuple",
    "starmap_indexed": "enumerate and map",
    "start": "from_callable",
    "start_async": "from_callable",
    "subscribe_on": "map_blocking, for work that needs a thread: all signals stay in one",
    "switch_latest": "switch_map, with a function that returns the inner stream",
    "switch_map_indexed": "enumerate and switch_map",
    "take_last_buffer": "take_last and collect",
    "take_last_with_time": "timestamp and take_last",
    "take_until_with_time": "take_until, with timer",
    "take_while_indexed": "enumerate and take_while",
    "take_with_time": "take_until, with timer",
    "tap": "do_on_next",
    "throttle_first": "throttle",
    "throttle_last": "sample",
    "throttle_with_mapper": "switch_map, with timer",
    "throttle_with_timeout": "debounce",
    "throw": "fail",
    "timeout_with_mapper": "timeout",
    "to_async": "from_callable",
    "to_future": "first_or_none, awaited",
    "to_iterable": "open, or rstreams.blocking",
    "to_marbles": "rstreams.testing, with a diagram of marbles",
    "where": "filter",
    "while_do": "repeat and take_while",
    "window": "window_count, window_time or window_boundary",
    "window_toggle": "window_boundary",
    "window_when": "window_boundary",
    "window_with_count": "window_count",
    "window_with_time": "window_time",
    "window_with_time_or_count": "window_count_or_time",
    "zip_latest": "combine_latest",
    "zip_with_iterable": "zip, with from_iterable",
    "zip_with_list": "zip, with from_iterable",
    # Reactor and others
    "block": "first_or_none, awaited, or rstreams.blocking",
    "block_first": "first_or_none, awaited, or rstreams.blocking",
    "block_last": "last and first_or_none, awaited",
    "buffer_timeout": "buffer_count_or_time",
    "collect_list": "collect",
    "concat_map_iterable": "map and flatten",
    "concat_with": "concat",
    "delay_elements": "delay_each",
    "do_on_each": "do_on_next, do_on_error and do_on_complete",
    "do_on_success": "do_on_complete",
    "do_on_terminate": "do_finally",
    "elapsed": "time_interval",
    "error": "fail",
    "exhaust_map": "on_overflow_drop and concat_map",
    "flat_map_iterable": "map and flatten",
    "flat_map_many": "flat_map",
    "flat_map_sequential": "concat_map, or map_async for async functions",
    "from_array": "from_iterable",
    "has_element": "contains",
    "has_elements": "any",
    "index": "enumerate",
    "just_or_empty": "of",
    "merge_map": "flat_map",
    "merge_with": "merge",
    "on_backpressure_buffer": "on_overflow_buffer",
    "on_backpressure_drop": "on_overflow_drop",
    "on_backpressure_error": "on_overflow_error",
    "on_backpressure_latest": "on_overflow_latest",
    "on_error_continue": "map, with a function that handles its own errors: an error ends a stream",
    "publish_on": "map_blocking, for work that needs a thread: all signals stay in one",
    "repeat_when": "repeat and delay_each",
    "retry_when": "retry_backoff, or on_error_resume",
    "select_many": "flat_map",
    "take_until_other": "take_until",
    "then": "ignore_elements",
    "then_many": "ignore_elements and concat",
    "window_timeout": "window_count_or_time",
    "zip_with": "zip",
}
"""Operators and terminals: what `Stream` has in their place."""

CLASSES: Final = {
    "AsyncSubject": "cache, of a stream that ends with last",
    "BackpressureStrategy": "on_overflow_buffer, on_overflow_drop and the like",
    "BehaviorProcessor": "rstreams.push.Latest",
    "BehaviorSubject": "rstreams.push.Latest",
    "CompositeDisposable": "rstreams.Scope, whose end is the end of its subscriptions",
    "ConnectableFlux": "publish or replay",
    "ConnectableObservable": "publish or replay",
    "Disposable": "rstreams.Scope, whose end is the end of its subscriptions",
    "EmitResult": "rstreams.push.EmitResult",
    "EmitterProcessor": "rstreams.push.Multicast",
    "Flowable": "rstreams.Stream",
    "Flux": "rstreams.Stream",
    "Latest": "rstreams.push.Latest",
    "Maybe": "rstreams.Stream",
    "Mono": "rstreams.Stream",
    "Multicast": "rstreams.push.Multicast",
    "Observable": "rstreams.Stream",
    "Observer": "rstreams.abc.Subscriber",
    "PublishProcessor": "rstreams.push.Multicast",
    "PublishSubject": "rstreams.push.Multicast",
    "Replay": "rstreams.push.Replay",
    "ReplayProcessor": "rstreams.push.Replay",
    "ReplaySubject": "rstreams.push.Replay",
    "Schedulers": "map_blocking, for work that needs a thread: all signals stay in one",
    "Single": "rstreams.Stream",
    "Sinks": "rstreams.push, with Unicast, Multicast, Replay and Latest",
    "StepVerifier": "rstreams.testing.StreamVerifier",
    "StreamVerifier": "rstreams.testing.StreamVerifier",
    "Subject": "rstreams.push.Multicast",
    "TestObserver": "rstreams.testing.ProbeSubscriber",
    "TestScheduler": "rstreams.testing.VirtualScheduler",
    "TestSubscriber": "rstreams.testing.ProbeSubscriber",
    "Unicast": "rstreams.push.Unicast",
    "UnicastProcessor": "rstreams.push.Unicast",
    "UnicastSubject": "rstreams.push.Unicast",
    "VirtualTimeScheduler": "rstreams.testing.VirtualScheduler",
}
"""Classes: what is here in their place."""

PUSHED: Final = {
    "as_flux": "Stream, which takes it",
    "as_observable": "Stream, which takes it",
    "dispose": "complete or fail",
    "emit_complete": "complete",
    "emit_error": "fail",
    "emit_next": "emit",
    "next": "emit",
    "on_complete": "complete",
    "on_completed": "complete",
    "on_error": "fail",
    "on_next": "emit",
    "push": "emit",
    "put": "send, awaited",
    "put_nowait": "emit",
    "tryEmitComplete": "complete",
    "tryEmitError": "fail",
    "tryEmitNext": "emit",
    "try_emit_complete": "complete",
    "try_emit_error": "fail",
    "try_emit_next": "emit",
}
"""Methods of subjects and sinks: what a push source has in their place."""


def hint(name: str, owner: object, ours: Mapping[str, str]) -> str:
    """Return what stands for `name` here, as the end of a sentence; "" if nothing does.

    Args:
        name: A name that `owner` does not have; also in camel case.
        owner: What was asked for it.
        ours: Other libraries' names for what `owner` has.
    """
    snake = _snake(name)
    found = ours.get(name) or ours.get(snake) or (snake if snake != name and hasattr(owner, snake) else "")
    return found and f"; here it is {found}"


def no_method(pushed: object, name: str) -> AttributeError:
    """Return the error for a method that a push source does not have; an operator is one of a stream that takes it."""
    kind = type(pushed).__name__
    found = "" if name.startswith("_") else hint(name, pushed, PUSHED) or _hint_in_module(name)
    found = found.replace("it is a method: Stream.", f"a stream of it has that: Stream({kind.lower()}).")
    return AttributeError(f"{kind!r} object has no attribute {name!r}{found}", name=name, obj=pushed)


def answer_names(module: str) -> None:
    """Let the error for a name that `module` does not have say what is in its place."""

    def answer(name: str) -> object:
        raise missing_name(module, name)

    vars(sys.modules[module])["__getattr__"] = answer  # not as a function of it: type checkers would allow any name


def missing_name(module: str, name: str) -> Exception:
    """Return the error for a name that `module` does not have; called by its `__getattr__`.

    An `ImportError` for `from module import name`: Python would replace an `AttributeError` by one without the hint.
    """
    hint_for_it = "" if name.startswith("_") else _hint_in_module(name)
    frame = sys._getframe(2)  # noqa: SLF001 - Python's own way to the asking code
    if hint_for_it and dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM":
        return ImportError(f"cannot import name {name!r} from {module!r}{hint_for_it}", name=module)
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint_for_it}", name=name)


def _hint_in_module(name: str) -> str:
    if name in CLASSES:
        return f"; here it is {CLASSES[name]}"
    stream: Any = import_module("rstreams.stream").Stream  # only for an error: it stands above this module
    for each in (name, _snake(name)):
        if hasattr(stream, each):
            return f"; it is a method: Stream.{each}"
        if each in OURS:
            return f"; in Stream it is {OURS[each]}"
    return ""


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower() if name[:1].islower() else name
