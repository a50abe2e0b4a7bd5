"""Random pipelines under random demand, against a model on plain lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import accumulate, cycle
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscriber
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.steps import Numbers, Step

FAMILIES = [import_module(f"tests.operators.{file.stem}") for file in sorted(Path(__file__).parent.glob("*_steps.py"))]


def _again(pipeline: Sequence[Step]) -> str:
    """Return what who subscribes to it for a second time gets."""
    return next((step.again for step in reversed(pipeline) if step.again != "as the source"), "anew")


def _is_let_in(pipeline: Sequence[Step]) -> bool:
    """Tell whether nothing subscribes for a second time where that is refused."""
    return not any(step.repeats and _again(pipeline[:at]) == "refused" for at, step in enumerate(pipeline))


PIPELINES = st.lists(st.one_of(*(step for family in FAMILIES for step in family.STEPS)), max_size=6).filter(_is_let_in)
ITEMS = st.lists(st.integers(0, 9), max_size=20)


def _build(source: Numbers, pipeline: Sequence[Step]) -> Numbers:
    for step in pipeline:
        source = step.apply(source)
    return source


def _model(items: Sequence[int], pipeline: Sequence[Step]) -> list[int]:
    for at, step in enumerate(pipeline):
        if not step.repeats or _again(pipeline[:at]) == "anew":
            items = step.model(items)
    return list(items)


@pytest.fixture(scope="module", autouse=True)
def scheduler() -> Iterator[VirtualScheduler]:
    with VirtualScheduler() as scheduler:
        yield scheduler


@given(items=ITEMS, pipeline=PIPELINES, requests=st.lists(st.integers(1, 7), max_size=8), lazy=st.booleans())
def test_a_source_that_answers_at_once(
    scheduler: VirtualScheduler, items: list[int], pipeline: list[Step], requests: list[int], *, lazy: bool
) -> None:
    """What was requested is there, up to what there is; it is what the model says; and it ends once."""
    expected = _model(items, pipeline)
    probe = ProbeSubscriber[int]()
    _build(from_iterable(Lazily(items) if lazy else items), pipeline).subscribe(probe)
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


class Lazily:
    """Items that come out of a new generator each time: a pipeline may subscribe more than once."""

    def __init__(self, items: list[int]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[int]:
        yield from self._items


class Replaying(ManualPublisher[int]):
    """A source played by the test that has all its items again for whoever subscribes anew."""

    def __init__(self, items: Sequence[int]) -> None:
        super().__init__()
        self._items = items
        self.left: list[int] = []
        self.is_over = False

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        self.left = list(self._items)
        self.is_over = False
        super().subscribe(subscriber)


class Run:
    """A pipeline between a source and a subscriber that are both played by the test."""

    def __init__(self, scheduler: VirtualScheduler, items: Sequence[int], pipeline: Sequence[Step]) -> None:
        self.source, self.probe = Replaying(items), ProbeSubscriber[int](hold=True)
        self.requested = 0
        self._scheduler = scheduler
        _build(self.source, pipeline).subscribe(self.probe)
        scheduler.run()

    @property
    def open(self) -> bool:
        return self.source.subscriptions > 0 and not self.source.cancelled and not self.source.is_over

    def send(self, most: int) -> None:
        """Send items as far as they are wanted, and complete behind the last; so each time it is subscribed to."""
        while self.open:
            if not self.source.left:
                self.source.is_over = True
                self.source.complete()
            elif most and self.source.outstanding:
                most -= 1
                self.source.next(self.source.left.pop(0))
            else:
                return
            self._scheduler.run()

    def request(self, n: int) -> None:
        if not self.probe.ended:
            self.requested += n
            self.probe.request(n)
            self._scheduler.run()

    def fail(self) -> None:
        if self.open:
            self.source.is_over = True
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
    run.send(UNBOUNDED)

    assert run.probe.items == expected
    assert run.probe.signals == ["on_subscribe", *["on_next"] * len(expected), "on_complete"]


@pytest.mark.slow
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
    assume(all(step.name != "cache()" for step in pipeline))  # nobody ends its run: what waits is for the next one
    run = Run(scheduler, items, pipeline)
    for action, n in actions:
        run.send(n) if action == "send" else run.request(n)

    if end == "complete":
        run.request(UNBOUNDED)
        run.send(UNBOUNDED)
    elif end == "fail":
        run.fail()
    run.cancel()
    run.settle(outcomes)

    assert None not in run.source.outcomes
    assert run.probe.signals.count("on_complete") + run.probe.signals.count("on_error") <= 1
    assert {"on_complete", "on_error"}.isdisjoint(run.probe.signals[:-1])
