"""Every operator of reactivex: how `test_rx_operators` tries it, and how docs/guides/reactivex.md lists it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import reactivex
from reactivex import Notification, Observable, operators
from reactivex.notification import OnCompleted, OnNext
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.subject import Subject

NUMBERS = (3, 1, 2, 2, 5)


@dataclass(frozen=True)
class Works:
    """An operator that does inside a stream what it does to an observable.

    Attributes:
        make: Makes it, with arguments that show what it does.
        items: What goes in.
        note: What a user should know of it.
    """

    make: Callable[[], Callable[[Observable[Any]], Any]]
    items: Sequence[Any] = NUMBERS
    note: str = ""


@dataclass(frozen=True)
class Cannot:
    """An operator that cannot stand inside a stream.

    Attributes:
        make: Makes it.
        why: The reason.
    """

    make: Callable[[], Callable[[Observable[Any]], Any]]
    why: str


_now = CurrentThreadScheduler.singleton()
_STREAMS = (reactivex.of(1, 2), reactivex.of(3), reactivex.empty(), reactivex.of(4))
_SIGNALS: tuple[Notification[int], ...] = (OnNext(1), OnNext(2), OnCompleted())
_PAIRS = ((1, 2), (3, 4))


def _seconds(seconds: float) -> Observable[int]:
    return reactivex.timer(seconds)


def _fails_once() -> Callable[[Observable[Any]], Any]:
    failures = iter([ValueError("the first time")])

    def fail(x: Any) -> Any:  # noqa: ANN401 - as it comes
        if x == 2 and (failure := next(failures, None)) is not None:
            raise failure
        return x

    return lambda source: source.pipe(operators.map(fail), operators.retry(2))


def _divided(x: int) -> int:
    return 6 // (x - 2)


def _times(n: int) -> Callable[[Any], bool]:
    left = iter(range(n))
    return lambda _: next(left, None) is not None


TABLE: dict[str, Works | Cannot] = {
    "all": Works(lambda: operators.all(lambda x: x > 0)),
    "amb": Works(lambda: operators.amb(reactivex.never())),
    "as_observable": Works(operators.as_observable),
    "average": Works(operators.average),
    "buffer": Works(lambda: operators.buffer(reactivex.interval(1.0))),
    "buffer_toggle": Works(lambda: operators.buffer_toggle(reactivex.of(1), lambda _: _seconds(1))),
    "buffer_when": Works(lambda: operators.buffer_when(lambda: _seconds(1))),
    "buffer_with_count": Works(lambda: operators.buffer_with_count(2)),
    "buffer_with_time": Works(lambda: operators.buffer_with_time(1.0)),
    "buffer_with_time_or_count": Works(lambda: operators.buffer_with_time_or_count(1.0, 2)),
    "catch": Works(lambda: lambda source: source.pipe(operators.map(_divided), operators.catch(_STREAMS[0]))),
    "combine_latest": Works(lambda: operators.combine_latest(reactivex.of(7))),
    "concat": Works(lambda: operators.concat(reactivex.of(7))),
    "concat_all": Works(operators.concat_all, _STREAMS),
    "concat_map": Works(lambda: operators.concat_map(lambda x: reactivex.of(x, x))),
    "contains": Works(lambda: operators.contains(2)),
    "count": Works(operators.count),
    "debounce": Works(lambda: operators.debounce(1.0), note="takes the time of the scope"),
    "default_if_empty": Works(lambda: operators.default_if_empty(7), ()),
    "delay": Works(lambda: operators.delay(1.0), note="a kept item is acknowledged at once"),
    "delay_subscription": Works(lambda: operators.delay_subscription(1.0)),
    "delay_with_mapper": Works(lambda: operators.delay_with_mapper(lambda _: _seconds(1))),
    "dematerialize": Works(operators.dematerialize, _SIGNALS),
    "distinct": Works(operators.distinct, note="remembers without limit"),
    "distinct_until_changed": Works(operators.distinct_until_changed),
    "do": Works(lambda: operators.do(reactivex.observer.Observer())),
    "do_action": Works(lambda: operators.do_action(lambda _: None)),
    "do_while": Works(lambda: operators.do_while(_times(1)), note="starts the source again"),
    "element_at": Works(lambda: operators.element_at(1)),
    "element_at_or_default": Works(lambda: operators.element_at_or_default(9, 7)),
    "exclusive": Works(operators.exclusive, _STREAMS),
    "expand": Works(lambda: operators.expand(lambda x: reactivex.empty() if x > 4 else reactivex.of(x + 3))),
    "filter": Works(lambda: operators.filter(lambda x: x > 1)),
    "filter_indexed": Works(lambda: operators.filter_indexed(lambda _, i: i > 1)),
    "finally_action": Works(lambda: operators.finally_action(lambda: None)),
    "find": Works(lambda: operators.find(lambda x, _i, _s: x == 2)),
    "find_index": Works(lambda: operators.find_index(lambda x, _i, _s: x == 2)),
    "first": Works(operators.first),
    "first_or_default": Works(lambda: operators.first_or_default(lambda x: x > 9, 7)),
    "flat_map": Works(
        lambda: operators.flat_map(lambda x: reactivex.of(x, x)),
        note="all results of one item at once count towards `max_expansion`",
    ),
    "flat_map_indexed": Works(lambda: operators.flat_map_indexed(reactivex.of)),
    "flat_map_latest": Works(lambda: operators.flat_map_latest(lambda x: reactivex.of(x, x))),
    "fork_join": Works(lambda: operators.fork_join(reactivex.of(7))),
    "group_by": Works(
        lambda: operators.group_by(lambda x: x % 2),
        note="its groups are observables: use them inside the same `rx`, or `Stream.group_by`",
    ),
    "group_by_until": Works(lambda: operators.group_by_until(lambda x: x % 2, None, lambda _: _seconds(1))),
    "group_join": Works(
        lambda: operators.group_join(reactivex.of(7), lambda _: reactivex.never(), lambda _: reactivex.never())
    ),
    "ignore_elements": Works(operators.ignore_elements),
    "is_empty": Works(operators.is_empty),
    "join": Works(lambda: operators.join(reactivex.of(7), lambda _: reactivex.never(), lambda _: reactivex.never())),
    "last": Works(operators.last),
    "last_or_default": Works(lambda: operators.last_or_default(7), ()),
    "map": Works(lambda: operators.map(lambda x: x * 10)),
    "map_indexed": Works(lambda: operators.map_indexed(lambda x, i: (x, i))),
    "materialize": Works(operators.materialize),
    "max": Works(operators.max),
    "max_by": Works(lambda: operators.max_by(lambda x: x)),
    "merge": Works(lambda: operators.merge(reactivex.of(7))),
    "merge_all": Works(operators.merge_all, _STREAMS),
    "min": Works(operators.min),
    "min_by": Works(lambda: operators.min_by(lambda x: x)),
    "multicast": Works(
        lambda: operators.multicast(subject_factory=lambda _: Subject(), mapper=lambda shared: shared),
        note="with a mapper; without one its result is never connected",
    ),
    "observe_on": Works(
        lambda: operators.observe_on(_now), note="not onto another thread: the stream then fails (rule 1.3)"
    ),
    "on_error_resume_next": Works(lambda: operators.on_error_resume_next(reactivex.of(7))),
    "pairwise": Works(operators.pairwise),
    "partition": Cannot(lambda: operators.partition(lambda x: x > 1), "it returns a list of two observables"),
    "partition_indexed": Cannot(
        lambda: operators.partition_indexed(lambda _, i: i > 1), "it returns a list of two observables"
    ),
    "pluck": Works(lambda: operators.pluck("a"), ({"a": 1}, {"a": 2})),
    "pluck_attr": Works(lambda: operators.pluck_attr("a"), (SimpleNamespace(a=1), SimpleNamespace(a=2))),
    "publish": Works(
        lambda: operators.publish(lambda shared: shared),
        note="with a mapper; without one its result is never connected",
    ),
    "publish_value": Works(
        lambda: operators.publish_value(7, lambda shared: shared),
        note="with a mapper; without one its result is never connected",
    ),
    "reduce": Works(lambda: operators.reduce(lambda a, x: a + x, 0)),
    "ref_count": Works(
        lambda: lambda source: source.pipe(operators.publish(), operators.ref_count()),
        note="behind an operator that gives a connectable observable, in the same `rx`",
    ),
    "repeat": Works(lambda: operators.repeat(2), note="starts the source again"),
    "replay": Works(
        lambda: operators.replay(mapper=lambda shared: shared),
        note="with a mapper; without one its result is never connected",
    ),
    "retry": Works(_fails_once, note="starts the source again"),
    "sample": Works(lambda: operators.sample(1.0), note="takes the time of the scope"),
    "scan": Works(lambda: operators.scan(lambda a, x: a + x, 0)),
    "sequence_equal": Works(lambda: operators.sequence_equal(reactivex.of(*NUMBERS))),
    "share": Works(operators.share),
    "single": Works(lambda: operators.single(lambda x: x == 5)),
    "single_or_default": Works(lambda: operators.single_or_default(lambda x: x == 9, 7)),
    "single_or_default_async": Works(lambda: operators.single_or_default_async(has_default=True, default_value=7), ()),
    "skip": Works(lambda: operators.skip(2)),
    "skip_last": Works(lambda: operators.skip_last(2)),
    "skip_last_with_time": Works(lambda: operators.skip_last_with_time(0.0)),
    "skip_until": Works(lambda: operators.skip_until(reactivex.of(1))),
    "skip_until_with_time": Works(lambda: operators.skip_until_with_time(0.0)),
    "skip_while": Works(lambda: operators.skip_while(lambda x: x != 2)),
    "skip_while_indexed": Works(lambda: operators.skip_while_indexed(lambda _, i: i < 2)),
    "skip_with_time": Works(lambda: operators.skip_with_time(0.0)),
    "slice": Works(lambda: operators.slice(1, 4, 2)),
    "some": Works(lambda: operators.some(lambda x: x == 2)),
    "starmap": Works(lambda: operators.starmap(lambda a, b: a + b), _PAIRS),
    "starmap_indexed": Works(lambda: operators.starmap_indexed(lambda a, b, i: (a, b, i)), _PAIRS),
    "start_with": Works(lambda: operators.start_with(8, 9)),
    "subscribe_on": Works(lambda: operators.subscribe_on(_now)),
    "sum": Works(operators.sum),
    "switch_latest": Works(operators.switch_latest, _STREAMS),
    "switch_map": Works(lambda: operators.switch_map(lambda x: reactivex.of(x, x))),
    "switch_map_indexed": Works(lambda: operators.switch_map_indexed(reactivex.of)),
    "take": Works(lambda: operators.take(2), note="requests no further item of the source"),
    "take_last": Works(lambda: operators.take_last(2)),
    "take_last_buffer": Works(lambda: operators.take_last_buffer(2)),
    "take_last_with_time": Works(lambda: operators.take_last_with_time(1.0)),
    "take_until": Works(lambda: operators.take_until(reactivex.never())),
    "take_until_with_time": Works(lambda: operators.take_until_with_time(1.0)),
    "take_while": Works(lambda: operators.take_while(lambda x: x != 2)),
    "take_while_indexed": Works(lambda: operators.take_while_indexed(lambda _, i: i < 2)),
    "take_with_time": Works(lambda: operators.take_with_time(1.0)),
    "tap": Works(lambda: operators.tap(lambda _: None)),
    "throttle_first": Works(lambda: operators.throttle_first(1.0), note="takes the time of the scope"),
    "throttle_with_mapper": Works(lambda: operators.throttle_with_mapper(lambda _: _seconds(1))),
    "throttle_with_timeout": Works(lambda: operators.throttle_with_timeout(1.0)),
    "time_interval": Works(operators.time_interval),
    "timeout": Works(
        lambda: operators.timeout(1.0),
        note="its time also runs while nothing is requested, unlike that of `Stream.timeout`",
    ),
    "timeout_with_mapper": Works(lambda: operators.timeout_with_mapper(reactivex.never(), lambda _: reactivex.never())),
    "timestamp": Works(operators.timestamp),
    "to_dict": Works(lambda: operators.to_dict(lambda x: x)),
    # A future that needs no event loop.
    "to_future": Cannot(lambda: operators.to_future(cast("Any", Future)), "it returns a future"),
    "to_iterable": Works(operators.to_iterable),
    "to_list": Works(operators.to_list),
    "to_marbles": Works(operators.to_marbles),
    "to_set": Works(operators.to_set),
    "while_do": Works(lambda: operators.while_do(_times(2)), note="starts the source again"),
    "window": Works(
        lambda: operators.window(reactivex.interval(1.0)),
        note="its windows are observables: use them inside the same `rx`",
    ),
    "window_toggle": Works(lambda: operators.window_toggle(reactivex.of(1), lambda _: _seconds(1))),
    "window_when": Works(lambda: operators.window_when(lambda: _seconds(1))),
    "window_with_count": Works(lambda: operators.window_with_count(2)),
    "window_with_time": Works(lambda: operators.window_with_time(1.0)),
    "window_with_time_or_count": Works(lambda: operators.window_with_time_or_count(1.0, 2)),
    "with_latest_from": Works(lambda: operators.with_latest_from(reactivex.of(7))),
    "zip": Works(lambda: operators.zip(reactivex.of(7, 8))),
    "zip_latest": Works(lambda: operators.zip_latest(reactivex.of(7))),
    "zip_with_iterable": Works(lambda: operators.zip_with_iterable([7, 8])),
    "zip_with_list": Works(lambda: operators.zip_with_list([7, 8])),
}


def installed() -> list[str]:
    """Return the names of all operators of the installed version."""
    return [
        name
        for name, function in vars(operators).items()
        if inspect.isfunction(function) and function.__module__ == operators.__name__ and not name.startswith("_")
    ]


def table() -> str:
    """Return the table as docs/guides/reactivex.md has it."""
    lines = ["| operator | inside a stream |", "|---|---|"]
    for name, entry in TABLE.items():
        if isinstance(entry, Works):
            lines.append(f"| `{name}` | {': '.join(filter(None, ['works', entry.note]))} |")
        else:
            lines.append(f"| `{name}` | cannot: {entry.why} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201 - what it is for
