"""Stages through which runs of items go: each item's way and end must be what they would be signal by signal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from rstreams import operators as ops
from rstreams._core.demand import UNBOUNDED
from rstreams._core.fast_paths import signals_later
from rstreams._core.run import runs_of
from rstreams.abc import Publisher, Subscriber
from rstreams.protocol.delivery import ACCEPTED, END, FAILED, RELEASED, FailureStrategy, Outcome, reject
from rstreams.sinks.for_each_sink import ForEachSink
from rstreams.sinks.list_sink import ListSink
from rstreams.sinks.sink import Sink
from rstreams.testing import ProbeSubscriber
from tests.protocol.played import PlayedReceiver, decode

Kind = Literal["map", "filter", "scan", "do_on_next", "skip", "take", "name"]

operators = st.sampled_from(["map", "filter", "scan", "do_on_next", "skip", "take", "name"])


@dataclass
class Source:
    """Where a chain of operators begins; who subscribes to it is put on a link by the test."""

    subscriber: Subscriber[Any] = field(init=False)

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        self.subscriber = subscriber


class Run:
    """A chain of operators on a link whose peer is the test, and what is seen of it.

    Args:
        kinds: The operators.
        listed: Whether the items are collected, or a function is called with each.
        raise_at: At which call of any function it raises.
        cancel_at: At which call the subscription is cancelled from inside.
        by_runs: Whether the link hands over runs, or item by item.
    """

    def __init__(
        self,
        kinds: list[Kind],
        *,
        listed: bool = False,
        raise_at: int | None = None,
        cancel_at: int | None = None,
        by_runs: bool = True,
        decode: Callable[[bytes], int] = decode,
        on_failure: FailureStrategy = END,
    ) -> None:
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self._raise_at, self._cancel_at = raise_at, cancel_at
        self.sink: Sink[int] = ListSink(never_mind) if listed else ForEachSink(never_mind, self._seen)
        source = Source()
        chain: Publisher[Any] = source
        for kind in kinds:
            chain = self._apply(kind, chain)
        chain.subscribe(self.sink)
        self.played = PlayedReceiver(
            probe=source.subscriber,  # type: ignore[arg-type] # it is not looked at
            decode=decode,
            window=16,
            on_failure=on_failure,
        )
        assert runs_of(source.subscriber) is not None
        if not by_runs:
            self.played.end._items._on_run = None

    def _apply(self, kind: Kind, source: Publisher[Any]) -> Publisher[Any]:  # noqa: PLR0911
        match kind:
            case "map":
                return ops.map(source, self._called("map", lambda x: x + 1))
            case "filter":
                return ops.filter(source, self._called("filter", lambda x: x % 3))
            case "scan":
                return ops.scan(source, self._called("scan", lambda total, x: total + x), 0)
            case "do_on_next":
                return ops.do_on_next(source, self._called("do_on_next", lambda _: None))
            case "skip":
                return ops.skip(source, 2)
            case "take":
                return ops.take(source, 5)
            case "name":
                return ops.name(source, "numbers")

    def _called(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: int) -> Any:  # noqa: ANN401
            self.calls.append((name, args))
            if len(self.calls) == self._cancel_at:
                self.sink.cancel()
            if len(self.calls) == self._raise_at:
                raise ValueError(name, args)
            return function(*args)

        return call

    def _seen(self, item: int) -> None:
        self._called("seen", lambda _: None)(item)

    def observed(self) -> tuple[object, ...]:
        played, sink = self.played, self.sink
        if isinstance(sink, ListSink):
            sink.settle()
            played.driver.turn()
        ledger = played.end.ledger
        return (
            self.calls,
            sink.items if isinstance(sink, ListSink) else None,
            (repr(sink.error), sink.ended, sink.outstanding),
            played.outcomes,
            (ledger.demand, ledger.buffered, ledger.unsettled, played.end.counts().delivered),
            played.detach,
            list(map(repr, played.raised)),
        )


def never_mind() -> None:
    """Hear of a change."""


def odd_is_unreadable(payload: bytes) -> int:
    item = decode(payload)
    if item % 2:
        raise ValueError(item)
    return item


@given(
    kinds=st.lists(operators, min_size=1, max_size=4),
    listed=st.booleans(),
    raise_at=st.one_of(st.none(), st.integers(1, 40)),
    cancel_at=st.one_of(st.none(), st.integers(1, 40)),
    unreadable=st.booleans(),
    goes_on=st.booleans(),
    requests=st.lists(st.one_of(st.integers(1, 9), st.just(UNBOUNDED)), min_size=1, max_size=4),
    transfers=st.lists(st.integers(1, 6), max_size=4),
    settled=st.booleans(),
)
def test_runs_and_items_go_the_same_way(
    kinds: list[Kind],
    raise_at: int | None,
    cancel_at: int | None,
    requests: list[int],
    transfers: list[int],
    *,
    listed: bool,
    unreadable: bool,
    goes_on: bool,
    settled: bool,
) -> None:
    observed = []
    for by_runs in (True, False):
        run = Run(
            kinds,
            listed=listed,
            raise_at=raise_at,
            cancel_at=cancel_at,
            by_runs=by_runs,
            decode=odd_is_unreadable if unreadable else decode,
            on_failure=FailureStrategy(reject) if goes_on else END,
        )
        for n in requests:
            run.sink.request(n)
            run.played.driver.turn()
            for count in transfers:
                credit = run.played.driver.wire
                if run.played.detach is None and credit > 0:
                    run.played.transfer(min(count, credit), settled=settled)
        event(f"ended: {run.sink.ended}, error: {type(run.sink.error).__name__}")
        observed.append(run.observed())
    assert observed[0] == observed[1]


def outcomes_of(run: Run, count: int) -> dict[Any, Outcome]:
    run.sink.request(9)
    run.played.driver.turn()
    run.played.transfer(count)
    run.played.driver.turn()
    return run.played.outcomes


@pytest.mark.parametrize("kind", ["map", "filter", "scan", "do_on_next"])
def test_the_item_a_function_raises_for_has_failed_and_those_behind_it_are_given_back(kind: Kind) -> None:
    run = Run(["map", kind], listed=True, raise_at=4)  # the second function, with the second item
    assert outcomes_of(run, 4) == {1: FAILED, 2: RELEASED, 3: RELEASED}
    assert isinstance(run.sink, ListSink)
    run.sink.give_back()
    run.played.driver.turn()
    assert run.played.outcomes[0] == RELEASED
    assert len(run.sink.items) == 1
    assert isinstance(run.sink.error, ValueError)


def test_an_interrupt_is_raised_and_the_item_in_hand_has_failed() -> None:
    run = Run(["filter"])

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    run.sink._function = interrupt  # type: ignore[attr-defined]
    run.sink.request(9)
    run.played.driver.turn()
    with pytest.raises(KeyboardInterrupt):
        run.played.transfer(3)
    run.played.driver.turn()
    assert run.played.outcomes == {0: ACCEPTED, 1: FAILED, 2: RELEASED}, "the filter drops 0"


def test_runs_go_no_further_than_to_a_stage_that_takes_none() -> None:
    source = Source()
    ops.map(ops.last(source), abs).subscribe(ListSink(never_mind))
    assert runs_of(source.subscriber) is None
    ops.last(ops.map(source, abs)).subscribe(ListSink(never_mind))
    assert runs_of(source.subscriber) is None
    ops.map(source, abs).subscribe(ProbeSubscriber[int]())
    assert runs_of(source.subscriber) is None


def test_a_sink_that_takes_all_asks_a_link_for_all_at_once_through_the_stages() -> None:
    source = Source()
    sink = ListSink[int](never_mind)
    sink.request(4, top_up_at=2)
    ops.filter(ops.map(source, abs), bool).subscribe(sink)
    played = PlayedReceiver(probe=source.subscriber, window=16)  # type: ignore[arg-type]
    played.driver.turn()
    assert (played.end.ledger.demand, played.driver.credit()) == (UNBOUNDED, 16)
    assert signals_later(sink._subscription)


def test_a_source_that_says_nothing_of_its_signals_is_asked_for_a_part() -> None:
    sink = ListSink[int](never_mind)
    sink.request(4, top_up_at=2)
    ops.map(Asked(), abs).subscribe(sink)
    assert not signals_later(sink._subscription)
    assert sink.outstanding == 4


class Asked:
    """A source that never sends anything."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        """Remember nothing."""

    def cancel(self) -> None:
        """End."""

    def hold(self) -> Any:  # noqa: ANN401
        raise AssertionError
