"""Operators one on the other: as many as are accepted work, and the error says how many that is, and why."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest

from rstreams import Stream, operators
from rstreams._core.demand import UNBOUNDED
from rstreams._stages import depth
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.operators.pausable import Valve
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler

Grow = Callable[[Any], Any]


async def _itself(item: object) -> object:
    return item


CHAINS: dict[str, Grow] = {
    "all": lambda s: s.all(bool),
    "any": lambda s: s.any(bool),
    "average": lambda s: s.average(),
    "broadcast": lambda s: s.broadcast(),
    "buffer_boundary": lambda s: s.buffer_boundary(Stream.never()).flatten(),
    "buffer_count": lambda s: s.buffer_count(1),
    "buffer_count.flatten": lambda s: s.buffer_count(1).flatten(),
    "buffer_count_or_time": lambda s: s.buffer_count_or_time(1, 40),
    "buffer_time": lambda s: s.buffer_time(40),
    "buffer_until": lambda s: s.buffer_until(bool),
    "cache": lambda s: s.cache(),
    "cast": lambda s: s.cast(object),
    "checkpoint": lambda s: s.checkpoint(),
    "collect": lambda s: s.collect(),
    "combine_latest": lambda s: s.combine_latest(Stream.of(1)),
    "concat_map": lambda s: s.concat_map(Stream.of),
    "contains": lambda s: s.contains(1),
    "count": lambda s: s.count(),
    "debounce": lambda s: s.debounce(1),
    "default_if_empty": lambda s: s.default_if_empty(1),
    "delay": lambda s: s.delay(1),
    "delay_each": lambda s: s.delay_each(1),
    "dematerialize": lambda s: s.materialize().dematerialize(),
    "distinct": lambda s: s.distinct(),
    "distinct_until_changed": lambda s: s.distinct_until_changed(),
    "distribute": lambda s: s.distribute(),
    "do_finally": lambda s: s.do_finally(lambda _: None),
    "do_on_cancel": lambda s: s.do_on_cancel(lambda: None),
    "do_on_complete": lambda s: s.do_on_complete(lambda: None),
    "do_on_error": lambda s: s.do_on_error(lambda _: None),
    "do_on_next": lambda s: s.do_on_next(lambda _: None),
    "do_on_request": lambda s: s.do_on_request(lambda _: None),
    "do_on_subscribe": lambda s: s.do_on_subscribe(lambda: None),
    "element_at": lambda s: s.element_at(0),
    "enumerate": lambda s: s.enumerate(),
    "expand": lambda s: s.expand(lambda _: Stream.empty()),
    "filter": lambda s: s.filter(lambda _: True),
    "first": lambda s: s.first(),
    "flat_map": lambda s: s.flat_map(Stream.of),
    "flatten": lambda s: s.map(lambda x: [x]).flatten(),
    "group_by": lambda s: s.group_by(lambda x: x),
    "group_by.flat_map": lambda s: s.group_by(lambda x: x).flat_map(lambda g: g),
    "ignore_elements": lambda s: s.ignore_elements(),
    "last": lambda s: s.last(),
    "limit_rate": lambda s: s.limit_rate(10),
    "limit_request": lambda s: s.limit_request(10),
    "log": lambda s: s.log(),
    "map": lambda s: s.map(lambda x: x),
    "map_async": lambda s: s.map_async(_itself),
    "map_async2": lambda s: s.map_async(_itself, concurrency=2),
    "map_blocking": lambda s: s.map_blocking(lambda x: x),
    "materialize": lambda s: s.materialize(),
    "max": lambda s: s.max(key=lambda _: 0),
    "min": lambda s: s.min(key=lambda _: 0),
    "name": lambda s: s.name("x"),
    "on_error_complete": lambda s: s.on_error_complete(),
    "on_error_map": lambda s: s.on_error_map(lambda e: e),
    "on_error_resume": lambda s: s.on_error_resume(lambda _: Stream.empty()),
    "on_error_return": lambda s: s.on_error_return(1),
    "on_overflow_buffer": lambda s: s.on_overflow_buffer(10),
    "on_overflow_drop": lambda s: s.on_overflow_drop(),
    "on_overflow_error": lambda s: s.on_overflow_error(),
    "on_overflow_latest": lambda s: s.on_overflow_latest(),
    "on_overflow_reduce": lambda s: s.on_overflow_reduce(lambda a, _: a),
    "pairwise": lambda s: s.pairwise(),
    "parallel": lambda s: s.parallel(2, lambda x: x),
    "partition": lambda s: s.partition(lambda _: 0, 1)[0],
    "pausable": lambda s: s.pausable(Valve()),
    "publish": lambda s: s.publish().auto_connect(),
    "reduce": lambda s: s.reduce(lambda _, x: x, 0),
    "repeat": lambda s: s.repeat(1),
    "replay": lambda s: s.replay(1).auto_connect(),
    "retry": lambda s: s.retry(1),
    "retry_backoff": lambda s: s.retry_backoff(1),
    "sample": lambda s: s.sample(1),
    "scan": lambda s: s.scan(lambda _, x: x, 0),
    "sequence_equal": lambda s: s.sequence_equal(Stream.of(1)),
    "share": lambda s: s.share(),
    "single": lambda s: s.single(),
    "skip": lambda s: s.skip(0),
    "skip_last": lambda s: s.skip_last(1),
    "skip_until": lambda s: s.skip_until(Stream.of(1)),
    "skip_while": lambda s: s.skip_while(lambda _: False),
    "sum": lambda s: s.sum(),
    "switch_if_empty": lambda s: s.switch_if_empty(Stream.of(1)),
    "switch_if_empty_r": lambda s: Stream.empty().switch_if_empty(s),
    "switch_map": lambda s: s.switch_map(Stream.of),
    "take": lambda s: s.take(10),
    "take_last": lambda s: s.take_last(10),
    "take_until": lambda s: s.take_until(Stream.never()),
    "take_while": lambda s: s.take_while(lambda _: True),
    "throttle": lambda s: s.throttle(1),
    "time_interval": lambda s: s.time_interval(),
    "timeout": lambda s: s.timeout(1000),
    "timestamp": lambda s: s.timestamp(),
    "to_dict": lambda s: s.to_dict(lambda _: 0),
    "to_set": lambda s: s.map(lambda _: 1).to_set(),
    "window_boundary": lambda s: s.window_boundary(Stream.never()).concat_map(lambda w: w),
    "window_count": lambda s: s.window_count(1).concat_map(lambda w: w),
    "window_count_or_time": lambda s: s.window_count_or_time(1, 40).concat_map(lambda w: w),
    "window_time": lambda s: s.window_time(40).concat_map(lambda w: w),
    "with_latest_from": lambda s: s.with_latest_from(Stream.of(1)),
    "zip": lambda s: s.zip(Stream.of(1)),
    "concat": lambda s: s.name("part").concat(Stream.of(1)),
    "concat behind": lambda s: Stream.of(1).concat(s.name("part")),
    "merge": lambda s: s.name("part").merge(Stream.of(1)),
    "merge behind": lambda s: Stream.of(1).merge(s.name("part")),
    "merge_priority": lambda s: s.name("part").merge_priority(Stream.of(1)),
    "merge_sorted": lambda s: s.name("part").merge_sorted(Stream.of(1)),
    "race": lambda s: s.name("part").race(Stream.never()),
    "start_with": lambda s: s.name("part").start_with(1),
    "end_with": lambda s: s.name("part").end_with(1),
    "defer": lambda s: Stream.defer(lambda: s.name("part")),
    "using": lambda s: Stream.using(nullcontext, lambda _: s),
    "flat_map inside": lambda s: Stream.of(1).flat_map(lambda _: s),
    "concat_map inside": lambda s: Stream.of(1).concat_map(lambda _: s),
    "switch_map inside": lambda s: Stream.of(1).switch_map(lambda _: s),
    "expand inside": lambda s: Stream.of(1).expand(lambda _: s, depth=1),
    "on_error_resume inside": lambda s: Stream.fail(ValueError()).on_error_resume(lambda _: s),
    "timeout inside": lambda s: Stream.never().timeout(1, fallback=s),
}


def test_all_operators_are_tried() -> None:
    assert set(operators.__all__) <= {name.split()[0].split(".")[0] for name in CHAINS}


def _chain(grow: Grow, source: Publisher[Any], links: int) -> Stream[Any]:
    stream = Stream(source)
    for _ in range(links):
        stream = grow(stream)
    return stream


def _refusal(grow: Grow, links: int) -> str | None:
    """Return the text of the error of a chain that is too long, None if it begins."""
    with VirtualScheduler():
        probe = ProbeSubscriber[Any](UNBOUNDED)
        try:
            _chain(grow, Stream.never(), links).subscribe(probe)
        except ConfigError as error:
            return str(error)
        assert probe.error is None
        probe.cancel()
        return None


def _most(grow: Grow) -> int:
    """Return the most links of a chain that is accepted."""
    fits, too_many = 1, 256
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if _refusal(grow, middle) is None:
            fits = middle
        else:
            too_many = middle
    return fits


@pytest.mark.slow
@pytest.mark.parametrize("grow", CHAINS.values(), ids=CHAINS)
def test_a_chain_that_is_accepted_has_enough_calls(grow: Grow, caplog: pytest.LogCaptureFixture) -> None:
    most = _most(grow)
    for end in ("request", "complete", "error", "cancel"):
        error = _deeper(100, partial(_run, grow, most, end))
        assert error is None or isinstance(error, LookupError), end
    assert "RecursionError" not in caplog.text


def _deeper(calls: int, function: Callable[[], BaseException | None]) -> BaseException | None:
    """Call `function` inside further calls, of which the program may have some."""
    return _deeper(calls - 1, function) if calls else function()


def _run(grow: Grow, links: int, end: str) -> BaseException | None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[Any](), ProbeSubscriber[Any](UNBOUNDED)
        _chain(grow, Stream.of(1) if end == "request" else source, links).subscribe(probe)
        scheduler.advance(100.0)
        if source.subscriptions:
            source.next(1)
        if source.subscriptions and not source.cancelled and end == "error":
            source.error(LookupError())
        elif source.subscriptions and not source.cancelled and end == "complete":
            source.complete()
        scheduler.advance(100.0)
        probe.cancel()
    return probe.error


def test_the_refusal_names_the_limit_and_the_ways_out() -> None:
    with pytest.raises(ConfigError) as caught:
        _chain(lambda s: s.take(9), Stream.never(), 1000).subscribe(ProbeSubscriber[int]())

    limit = sys.getrecursionlimit()
    assert re.fullmatch(
        rf"too many operators stand one on the other: a signal through them takes up to 8\d\d calls inside each other, "
        rf"and Python's recursion limit is {limit}, of which 200 are left to the program; join streams with concat or "
        r"merge, put many functions into one operator, read pages with unfold or expand, or raise "
        r"sys\.setrecursionlimit\(\)",
        str(caught.value),
    )


def test_nothing_has_begun_when_a_chain_is_refused() -> None:
    begun: list[None] = []
    source = Stream.never().do_on_subscribe(lambda: begun.append(None))

    with pytest.raises(ConfigError):
        _chain(lambda s: s.take(9), source, 1000).subscribe(ProbeSubscriber[int]())

    assert not begun


async def test_a_terminal_raises_it() -> None:
    with pytest.raises(ConfigError, match="too many operators"):
        await _chain(lambda s: s.take(9), Stream.of(1), 1000).to_list()


async def test_pages_that_ask_for_the_next_one() -> None:
    def pages(number: int) -> Stream[int]:
        return Stream.of(number).concat(Stream.defer(lambda: pages(number + 1)))

    assert await pages(0).take(20).to_list() == list(range(20))
    with pytest.raises(ConfigError, match="read pages with unfold or expand"):
        await pages(0).to_list()


def test_a_higher_limit_of_the_program_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "getrecursionlimit", lambda: 10_000)

    assert depth.depth_of(_Deep(9000)) == 9000
    depth.require_room(_Deep(9000))
    with pytest.raises(ConfigError, match="limit is 10000"):
        depth.require_room(_Deep(9801))


class _Deep(ProbeSubscriber[int]):
    def __init__(self, calls_inside: int) -> None:
        super().__init__()
        self.calls_inside = calls_inside
