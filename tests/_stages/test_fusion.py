"""A chain over an iterator runs as one loop; over anything else as stages. Both do exactly the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rstreams._core.demand import UNBOUNDED
from rstreams._stages.emission import IteratorPublisher
from rstreams._stages.fusion import _maker
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.operators.do_on_next import do_on_next
from rstreams.operators.filter import filter as filter_
from rstreams.operators.map import map as map_
from rstreams.operators.scan import scan
from rstreams.operators.skip import skip
from rstreams.operators.take import take
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.range import range as range_
from rstreams.testing import ProbeSubscriber


class Unfused:
    """A source that is nothing but a publisher, so that what stands on it are stages."""

    def __init__(self, source: Publisher[int]) -> None:
        self._source = source

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        self._source.subscribe(subscriber)


@dataclass(frozen=True)
class Act:
    """What user code does at its n-th call, besides its work."""

    at: int
    what: str


class World:
    """One run of a chain: everything that user code sees and does, in order."""

    def __init__(self, acts: Sequence[Act], *, fused: bool) -> None:
        self.seen: list[Any] = []
        self.subscription: Subscription | None = None
        self._acts = {act.at: act.what for act in acts}
        self._calls = 0
        self._fused = fused

    def see(self, *what: object) -> None:
        """Note that user code was called, and act if its time has come."""
        self.seen.append(what)
        self._calls += 1
        act = self._acts.get(self._calls)
        if act is None or self.subscription is None:
            return
        self.seen.append(act)
        if "request" in act:
            self.subscription.request(2)
        if "cancel" in act:
            self.subscription.cancel()
        if "wrong" in act:
            self.subscription.request(0)
        if "fail" in act:
            raise ValueError(self._calls)
        if "stop" in act:
            raise StopIteration(self._calls)
        if "interrupt" in act:
            raise KeyboardInterrupt(self._calls)

    def source(self, kind: str, items: list[int]) -> Publisher[int]:
        iterable: Iterable[int] = {"list": items, "generator": self._generate(items), "object": _Own(self, items)}[kind]
        source = from_iterable(iterable)
        return source if self._fused else Unfused(source)

    def _generate(self, items: list[int]) -> Iterator[int]:
        try:
            for x in items:
                self.see("pull", x)
                yield x
        finally:
            self.seen.append("closed")

    def chain(self, source: Publisher[int], kinds: Sequence[str]) -> Publisher[int]:
        for i, kind in enumerate(kinds):
            source = self._apply(source, kind, i)
        return source

    def _apply(self, source: Publisher[int], kind: str, i: int) -> Publisher[int]:
        if kind == "map":
            return map_(source, lambda x: self._called(i, x, x + 1))
        if kind == "filter":
            return filter_(source, lambda x: self._called(i, x, x % 3))
        if kind.startswith("scan"):
            seed = [i] if kind == "scan" else []
            return scan(source, lambda total, x: self._called(i, (total, x), total + x), *seed)
        if kind == "do_on_next":
            return do_on_next(source, lambda x: self._called(i, x, None))
        if kind.startswith("skip"):
            return skip(source, int(kind[-1]))
        return take(source, int(kind[-1]))

    def _called(self, i: int, x: object, result: Any) -> Any:  # noqa: ANN401 - whatever it is to return
        self.see(f"function {i}", x)
        return result

    # the subscriber

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.see("on_subscribe")

    def on_next(self, item: int) -> None:
        self.see("on_next", item)

    def on_error(self, error: BaseException) -> None:
        self.seen.append(("on_error", type(error), error.args))

    def on_complete(self) -> None:
        self.seen.append("on_complete")

    def request(self, n: int) -> None:
        assert self.subscription is not None
        self.seen.append(("request", n))
        self.subscription.request(n)


class _Own:
    """An iterator of the user's own, which may itself raise, and is not closed."""

    def __init__(self, world: World, items: list[int]) -> None:
        self._world = world
        self._items = iter(items)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self._world.see("pull")
        return next(self._items)


KINDS = st.sampled_from(
    ["map", "filter", "scan", "scan without seed", "do_on_next", "skip 0", "skip 2", "take 2", "take 4"]
)
WHAT = st.sampled_from(
    ["request", "cancel", "wrong", "fail", "stop", "interrupt", "cancel, fail", "request, stop", "cancel, request"]
)
ACTS = st.lists(st.builds(Act, at=st.integers(2, 30), what=WHAT), max_size=3)
REQUESTS = st.lists(st.sampled_from([1, 1, 2, 3, 5, UNBOUNDED - 1, UNBOUNDED, 0]), max_size=5)


@pytest.mark.slow
@example(items=[0, 0], kind="generator", kinds=["skip 2"], acts=[Act(at=2, what="cancel")], requests=[2])
@given(
    items=st.lists(st.integers(0, 9), max_size=12),
    kind=st.sampled_from(["list", "generator", "object"]),
    kinds=st.lists(KINDS, min_size=1, max_size=5),
    acts=ACTS,
    requests=REQUESTS,
)
def test_the_loop_and_the_stages_do_the_same(
    items: list[int], kind: str, kinds: list[str], acts: list[Act], requests: list[int]
) -> None:
    def run(*, fused: bool) -> list[Any]:
        world = World(acts, fused=fused)
        try:
            world.chain(world.source(kind, items), kinds).subscribe(world)
            for n in requests:
                world.request(n)
        except (ValueError, StopIteration, KeyboardInterrupt) as error:  # by the subscriber, or no Exception
            world.seen.append(("raised", type(error), error.args))
        return list(world.seen)  # a generator nobody cancelled is closed some time later

    assert run(fused=True) == run(fused=False)


def test_simple_operators_over_an_iterator_are_one_publisher() -> None:
    chain = do_on_next(scan(skip(filter_(map_(range_(9), abs), bool), 1), max, 0), print)

    assert isinstance(chain, IteratorPublisher)
    assert isinstance(map_(take(chain, 1), abs), IteratorPublisher) is False


def test_a_chain_does_not_change_the_one_it_was_made_of() -> None:
    source = map_(range_(3), lambda x: x + 1)
    one, other = map_(source, lambda x: x * 10), filter_(source, lambda x: x % 2)
    probes = [ProbeSubscriber[int](UNBOUNDED) for _ in range(3)]

    for publisher, probe in zip((source, one, other), probes, strict=True):
        publisher.subscribe(probe)

    assert [probe.items for probe in probes] == [[1, 2, 3], [10, 20, 30], [1, 3]]


def test_each_subscriber_has_its_own_state() -> None:
    chain = scan(skip(range_(5), 2), lambda total, x: total + x, 0)
    first, second = ProbeSubscriber[int](1), ProbeSubscriber[int](2)

    chain.subscribe(first)
    chain.subscribe(second)
    first.request(2)

    assert first.items == [2, 5, 9]
    assert second.items == [2, 5]


def test_the_same_kinds_are_maker_once() -> None:
    _maker.cache_clear()
    for _ in range(5):
        map_(filter_(range_(3), bool), str).subscribe(ProbeSubscriber[str]())

    assert _maker.cache_info().misses == 1


def test_a_function_that_fails_after_its_own_cancel_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    for source in (from_iterable([1]), Unfused(from_iterable([1]))):
        probe = ProbeSubscriber[float](1)

        def cancel_and_fail(x: int, probe: ProbeSubscriber[float] = probe) -> float:
            probe.cancel()
            return x / 0

        map_(source, cancel_and_fail).subscribe(probe)

        assert probe.signals == ["on_subscribe"]
        assert "failed, after its subscription had ended" in caplog.text
        assert "ZeroDivisionError" in caplog.text
        caplog.clear()
