"""Random pipelines under random demand, against a model on plain lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams._demand import UNBOUNDED
from rstreams._scheduler import current_scheduler
from rstreams.abc import Publisher
from rstreams.operators.buffer_count import buffer_count
from rstreams.operators.concat import concat
from rstreams.operators.do_on_complete import do_on_complete
from rstreams.operators.do_on_error import do_on_error
from rstreams.operators.do_on_next import do_on_next
from rstreams.operators.filter import filter as filter_
from rstreams.operators.flat_map import flat_map
from rstreams.operators.map import map as map_
from rstreams.operators.map_async import map_async
from rstreams.operators.merge import merge
from rstreams.operators.on_error_resume import on_error_resume
from rstreams.operators.reduce import reduce
from rstreams.operators.scan import scan
from rstreams.operators.skip import skip
from rstreams.operators.take import take
from rstreams.sources.empty import empty
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler

Numbers = Publisher[int]


@dataclass(frozen=True)
class Step:
    """One operator of a pipeline over whole numbers, and what it makes of a list of them."""

    name: str
    apply: Callable[[Numbers], Numbers]
    model: Callable[[Sequence[int]], Sequence[int]]

    def __repr__(self) -> str:
        return self.name


async def _plus_one(x: int) -> int:
    return x + 1


def _steps() -> st.SearchStrategy[Step]:
    small = st.integers(0, 5)
    some = st.integers(1, 5)
    numbers = st.lists(st.integers(0, 9), max_size=4)
    return st.one_of(
        st.sampled_from(
            [
                Step("map", lambda s: map_(s, lambda x: x * 3), lambda xs: [x * 3 for x in xs]),
                Step("filter", lambda s: filter_(s, lambda x: x % 2), lambda xs: [x for x in xs if x % 2]),
                Step("scan", lambda s: scan(s, lambda a, x: a + x, 1), lambda xs: [*accumulate(xs, initial=1)][1:]),
                Step("reduce", lambda s: reduce(s, lambda a, x: a + x, 1), lambda xs: [sum(xs, start=1)]),
                Step("do_on_next", lambda s: do_on_next(s, lambda _: None), list),
                Step("do_on_error", lambda s: do_on_error(s, lambda _: None), list),
                Step("do_on_complete", lambda s: do_on_complete(s, lambda: None), list),
                Step("merge", lambda s: merge(empty(), s, empty()), list),
            ]
        ),
        small.map(lambda n: Step(f"take({n})", lambda s: take(s, n), lambda xs: xs[:n])),
        small.map(lambda n: Step(f"skip({n})", lambda s: skip(s, n), lambda xs: xs[n:])),
        some.map(
            lambda n: Step(
                f"buffer_count({n})",
                lambda s: map_(buffer_count(s, n), sum),
                lambda xs: [sum(xs[i : i + n]) for i in range(0, len(xs), n)],
            )
        ),
        st.tuples(some, some).map(
            lambda o: Step(
                f"flat_map(concurrency=1, prefetch={o[0]})",
                lambda s: flat_map(s, lambda x: from_iterable(range(x % o[1])), concurrency=1, prefetch=o[0]),
                lambda xs: [y for x in xs for y in range(x % o[1])],
            )
        ),
        some.map(
            lambda n: Step(
                f"map_async(concurrency={n})",
                lambda s: map_async(s, _plus_one, concurrency=n),
                lambda xs: [x + 1 for x in xs],
            )
        ),
        numbers.map(
            lambda more: Step(
                f"concat(source, {more})", lambda s: concat(s, from_iterable(more)), lambda xs: [*xs, *more]
            )
        ),
        numbers.map(
            lambda first: Step(
                f"concat({first}, source)", lambda s: concat(from_iterable(first), s), lambda xs: [*first, *xs]
            )
        ),
        numbers.map(
            lambda more: Step(
                f"on_error_resume({more})",
                lambda s: on_error_resume(_failing_at(s, 7), lambda _: from_iterable(more)),
                lambda xs: [*xs[: xs.index(7)], *more] if 7 in xs else xs,
            )
        ),
    )


def _failing_at(source: Numbers, number: int) -> Numbers:
    def check(x: int) -> None:
        if x == number:
            raise LookupError(number)

    return do_on_next(source, check)


PIPELINES = st.lists(_steps(), max_size=6)
ITEMS = st.lists(st.integers(0, 9), max_size=20)


def _build(source: Numbers, pipeline: Sequence[Step]) -> Numbers:
    for step in pipeline:
        source = step.apply(source)
    return source


def _model(items: Sequence[int], pipeline: Sequence[Step]) -> list[int]:
    for step in pipeline:
        items = step.model(items)
    return list(items)


@pytest.fixture(scope="module", autouse=True)
def scheduler() -> Iterator[VirtualScheduler]:
    scheduler = VirtualScheduler()
    token = current_scheduler.set(scheduler)
    yield scheduler
    current_scheduler.reset(token)


@given(items=ITEMS, pipeline=PIPELINES, requests=st.lists(st.integers(1, 7), max_size=8), lazy=st.booleans())
def test_a_source_that_answers_at_once(
    scheduler: VirtualScheduler, items: list[int], pipeline: list[Step], requests: list[int], *, lazy: bool
) -> None:
    """What was requested is there, up to what there is; it is what the model says; and it ends once."""
    expected = _model(items, pipeline)
    probe = ProbeSubscriber[int]()
    _build(from_iterable(_lazily(items) if lazy else items), pipeline).subscribe(probe)
    scheduler.run()

    for requested in accumulate(requests):
        if not probe.ended:
            probe.request(requested - len(probe.items))  # all asked for before has come
            scheduler.run()
        assert probe.items == expected[:requested]
    probe.request(UNBOUNDED)
    scheduler.run()

    assert probe.items == expected
    assert probe.signals == ["on_subscribe", *["on_next"] * len(expected), "on_complete"]


def _lazily(items: list[int]) -> Iterator[int]:
    yield from items


class Run:
    """A pipeline between a source and a subscriber that are both played by the test."""

    def __init__(self, scheduler: VirtualScheduler, items: Sequence[int], pipeline: Sequence[Step]) -> None:
        self.source, self.probe = ManualPublisher[int](), ProbeSubscriber[int](hold=True)
        self.requested = 0
        self._scheduler = scheduler
        self._left = list(items)
        self._ended = False
        _build(self.source, pipeline).subscribe(self.probe)
        scheduler.run()

    @property
    def open(self) -> bool:
        return self.source.subscriptions > 0 and not self.source.cancelled and not self._ended

    def send(self, most: int) -> None:
        """Send items as far as they are wanted, and complete behind the last."""
        while most and self._left and self.open and self.source.outstanding:
            self.source.next(self._left.pop(0))
            self._scheduler.run()
            most -= 1
        if self.open and not self._left:
            self._ended = True
            self.source.complete()
            self._scheduler.run()

    def request(self, n: int) -> None:
        if not self.probe.ended:
            self.requested += n
            self.probe.request(n)
            self._scheduler.run()

    def fail(self) -> None:
        if self.open:
            self._ended = True
            self.source.error(RuntimeError("at the end"))
            self._scheduler.run()

    def cancel(self) -> None:
        self.probe.cancel()
        self._scheduler.run()

    def settle(self, outcomes: Sequence[str]) -> None:
        """Let go of all that was received, with these outcomes in turn."""
        for hold, outcome in zip(self.probe.holds, cycle(outcomes), strict=False):
            if outcome == "failed":
                hold.fail(ValueError())
            elif outcome == "released":
                hold.release()
            else:
                hold.done()


ACTIONS = st.lists(st.tuples(st.sampled_from(["request", "send"]), st.integers(1, 9)))
OUTCOMES = st.lists(st.sampled_from(["done", "failed", "released"]), min_size=1)


@given(items=ITEMS, pipeline=PIPELINES, actions=ACTIONS)
def test_a_source_that_answers_when_it_likes(
    scheduler: VirtualScheduler, items: list[int], pipeline: list[Step], actions: list[tuple[str, int]]
) -> None:
    """Never more than requested, in the model's order, and all of it in the end."""
    expected, run = _model(items, pipeline), Run(scheduler, items, pipeline)

    for action, n in actions:
        run.send(n) if action == "send" else run.request(n)
        assert len(run.probe.items) <= run.requested
        assert run.probe.items == expected[: len(run.probe.items)]
    run.request(UNBOUNDED)
    run.send(len(items))

    assert run.probe.items == expected
    assert run.probe.signals == ["on_subscribe", *["on_next"] * len(expected), "on_complete"]


@given(
    items=ITEMS,
    pipeline=PIPELINES,
    actions=ACTIONS,
    end=st.sampled_from(["complete", "fail", "cancel"]),
    outcomes=OUTCOMES,
)
def test_every_item_has_an_outcome_in_the_end(
    scheduler: VirtualScheduler,
    items: list[int],
    pipeline: list[Step],
    actions: list[tuple[str, int]],
    *,
    end: str,
    outcomes: list[str],
) -> None:
    """Whatever happens, nothing stays unsettled once the subscriber has let go; and nothing follows the end."""
    run = Run(scheduler, items, pipeline)
    for action, n in actions:
        run.send(n) if action == "send" else run.request(n)

    if end == "complete":
        run.request(UNBOUNDED)
        run.send(len(items))
    elif end == "fail":
        run.fail()
    run.cancel()
    run.settle(outcomes)

    assert None not in run.source.outcomes
    assert run.probe.signals.count("on_complete") + run.probe.signals.count("on_error") <= 1
    assert {"on_complete", "on_error"}.isdisjoint(run.probe.signals[:-1])
