"""Whatever gathers the messages of a queue, and however it ends: each is in the result or in the queue, but the oldest.

A queue, a link over the local driver, a random pipeline and a terminal's sink; no time, no network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from rstreams import operators as ops
from rstreams.abc import Publisher
from rstreams.message import decode_body, encode_item
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.protocol.frames import Settlement
from rstreams.sinks.list_sink import ListSink
from rstreams.sources.from_iterable import from_iterable
from tests.conformance.links import LocalLink

Stage = Callable[[Publisher[Any]], Publisher[Any]]


def flat(items: Any) -> list[int]:  # noqa: ANN401 - a number, or lists of lists of them
    return [items] if isinstance(items, int) else [number for part in items for number in flat(part)]


# What each needs to be held at once is its number; what comes of it is numbers, or lists of them.
STAGES: dict[str, tuple[int, Stage]] = {
    "map": (1, lambda source: ops.map(source, lambda x: x)),
    "filter": (1, lambda source: ops.filter(source, lambda _: True)),
    "do_on_next": (1, lambda source: ops.do_on_next(source, lambda _: None)),
    "skip": (1, lambda source: ops.skip(source, 0)),
    "buffer_count": (2, lambda source: ops.buffer_count(source, 2)),
    "buffer_count_of_three": (3, lambda source: ops.buffer_count(source, 3)),
    "buffer_until": (1, lambda source: ops.buffer_until(source, lambda items: flat(items)[-1] % 3 == 0)),
    "flat_map": (1, lambda source: ops.flat_map(source, lambda x: from_iterable([x]), concurrency=1)),
    "concat_map": (1, lambda source: ops.concat_map(source, lambda x: from_iterable([x]))),
    "share": (1, lambda source: ops.share(source, window=2)),
    "collect": (1, ops.collect),
    "reduce": (1, lambda source: ops.reduce(source, lambda so_far, x: [*so_far, x], [])),
}
PIPELINES = st.lists(st.sampled_from(sorted(STAGES)), max_size=3)


class Run:
    """A queue with a link to a terminal's sink, through a pipeline."""

    def __init__(self, pipeline: Sequence[str], window: int, capacity: int, fail_at: int | None) -> None:
        self.queue = Queue("work", MemoryStorage(capacity))
        self.seen: list[int] = []
        self.sent = 0
        self._fail_at = fail_at
        self.sink = ListSink[Any](lambda: None)
        stream: Publisher[Any] = LocalLink(self.queue, Settlement.AT_LEAST_ONCE, window)
        stream = ops.map(stream, lambda message: self._see(decode_body(message)))
        for name in pipeline:
            stream = STAGES[name][1](stream)
        self.sink.request(2**63 - 1)
        stream.subscribe(self.sink)

    def _see(self, number: int) -> int:
        if number == self._fail_at:
            raise ValueError(number)
        self.seen.append(number)
        return number

    def send(self, count: int) -> None:
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        from_iterable([encode_item(number) for number in numbers]).subscribe(self.queue.producer())

    def ready(self) -> list[int]:
        """Return what is left in the queue."""
        left = ListSink[bytes](lambda: None)
        left.request(2**63 - 1)
        self.queue.subscribe(left)
        return [decode_body(message) for message in left.items]


def need_of(pipeline: Sequence[str]) -> int:
    need = 1
    for name in pipeline:
        need *= STAGES[name][0]
    return need


@given(
    pipeline=PIPELINES,
    window=st.integers(1, 12),
    sends=st.lists(st.integers(1, 9), max_size=6),
    fail_at=st.one_of(st.none(), st.integers(0, 30)),
)
def test_what_reaches_nobody_is_in_the_queue_again(
    pipeline: list[str], window: int, sends: list[int], fail_at: int | None
) -> None:
    run = Run(pipeline, window, 1000, fail_at)
    for count in sends:
        run.send(count)
    if window < need_of(pipeline):
        return  # refused, or lists that never fill: not what this is about
    failed = fail_at is not None and fail_at < run.sent
    if not run.sink.ended:
        assert run.seen == list(range(run.sent)), "nothing is stopped by what is held"
    run.sink.cancel()
    run.sink.give_back()
    statistics = run.queue.statistics()
    assert (statistics.unsettled, statistics.modified) == (0, int(failed and run.sink.error is not None))
    assert statistics.accepted + statistics.ready == run.sent
    if len(run.seen) < window:
        event("no more than the window holds")
        assert statistics.accepted == 0
    else:
        event("more than the window holds")
        assert statistics.ready >= min(run.sent, window // 2), "no more is let go than must be"
    assert run.ready() == list(range(statistics.accepted, run.sent)), "the oldest alone were settled"


@given(pipeline=PIPELINES, window=st.integers(1, 12), sends=st.lists(st.integers(1, 9), max_size=6))
def test_what_reaches_its_caller_is_settled(pipeline: list[str], window: int, sends: list[int]) -> None:
    if window < need_of(pipeline):
        return
    run = Run(pipeline, window, 1000, None)
    for count in sends:
        run.send(count)
    run.sink.cancel()
    run.sink.settle()
    statistics = run.queue.statistics()
    assert statistics.unsettled == 0
    returned = flat(run.sink.items)
    ready = run.ready()
    assert not set(returned) & set(ready)
    oldest = set(range(statistics.accepted))
    assert set(returned) | set(ready) | oldest == set(range(run.sent))


@pytest.mark.slow
@given(
    pipeline=PIPELINES,
    window=st.integers(6, 30),
    capacity=st.integers(6, 12),
    sends=st.lists(st.integers(1, 30), max_size=4),
)
def test_a_queue_smaller_than_the_window_stops_nothing(
    pipeline: list[str], window: int, capacity: int, sends: list[int]
) -> None:
    if need_of(pipeline) > 3:
        return  # its lists would need more messages at once than the queue has room for
    run = Run(pipeline, window, capacity, None)
    for count in sends:
        run.send(count)
    assert run.seen == list(range(run.sent))
