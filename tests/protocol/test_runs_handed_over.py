"""Subscribers that take many items in one call: each item's end must be what it would be signal by signal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

import pytest

from rstreams import operators
from rstreams._core.demand import UNBOUNDED
from rstreams._core.run import Run, runs_of
from rstreams.abc import Publisher, Subscriber
from rstreams.protocol.delivery import ACCEPTED, END, FAILED, RELEASED, FailureStrategy, reject
from rstreams.sinks.for_each_sink import ForEachSink
from rstreams.sinks.list_sink import ListSink
from rstreams.sinks.sink import Sink
from tests.protocol.played import PlayedReceiver, decode


def played_to(
    sink: Sink[int], *, decode: Callable[[bytes], int] = decode, on_failure: FailureStrategy = END
) -> PlayedReceiver:
    return PlayedReceiver(probe=cast("Any", sink), decode=decode, on_failure=on_failure, window=16)


def odd_is_unreadable(payload: bytes) -> int:
    item = decode(payload)
    if item % 2:
        raise ValueError(item)
    return item


class Changes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def test_a_run_is_counted_as_its_items_would_be() -> None:
    changes = Changes()
    sink = ListSink[int](changes)
    played = played_to(sink)
    sink.request(5, top_up_at=2)
    played.driver.turn()
    played.transfer(2)
    played.driver.turn()
    assert (sink.items, sink.outstanding, changes.count) == ([0, 1], 3, 0)
    played.transfer(3)
    played.driver.turn()
    assert (sink.items, sink.outstanding, changes.count) == ([0, 1, 2, 3, 4], 0, 1)
    assert (played.outcomes, played.end.ledger.unsettled) == ({}, 5)
    sink.settle()
    played.driver.turn()
    assert played.outcomes == dict.fromkeys(range(5), ACCEPTED)
    assert (played.end.counts().delivered, played.end.counts().buffered) == (5, 0)
    assert (played.end.ledger.unsettled, played.end.ledger.buffered) == (0, 0)


@pytest.mark.parametrize("kind", ["list", "function"])
def test_a_sink_that_takes_all_asks_a_link_for_all_at_once(kind: str) -> None:
    changes, seen = Changes(), list[int]()
    sink: Sink[int] = ListSink(changes) if kind == "list" else ForEachSink(changes, seen.append)
    sink.request(4, top_up_at=2)  # ahead of the subscription, as its terminal does
    played = played_to(sink)
    played.driver.turn()
    assert (played.end.ledger.demand, played.driver.credit()) == (UNBOUNDED, 16)
    played.transfer(8)
    played.driver.turn()
    assert (sink.items if isinstance(sink, ListSink) else seen) == list(range(8))
    assert (played.end.ledger.demand, changes.count) == (UNBOUNDED, 0)


def test_what_came_settled_leaves_the_window_at_once() -> None:
    sink = ListSink[int](Changes())
    played = played_to(sink)
    sink.request(8)
    played.driver.turn()
    played.transfer(3, settled=True)
    played.driver.turn()
    assert sink.items == [0, 1, 2]
    assert played.outcomes == {}
    assert played.end.ledger.unsettled == 0


def test_the_item_a_function_raises_for_has_failed_and_those_behind_it_are_given_back() -> None:
    seen: list[int] = []

    def function(item: int) -> None:
        seen.append(item)
        if item == 2:
            raise KeyError(item)

    sink = ForEachSink[int](Changes(), function)
    played = played_to(sink)
    sink.request(8)
    played.driver.turn()
    played.transfer(5)
    played.driver.turn()
    assert seen == [0, 1, 2]
    assert isinstance(sink.error, KeyError)
    assert played.outcomes == {0: ACCEPTED, 1: ACCEPTED, 2: FAILED, 3: RELEASED, 4: RELEASED}
    assert played.end.counts().delivered == 3
    assert played.end.ledger.unsettled == played.end.ledger.buffered == 0


def test_a_function_that_cancels_gets_nothing_more() -> None:
    seen: list[int] = []

    def function(item: int) -> None:
        seen.append(item)
        if item == 1:
            sink.cancel()

    sink = ForEachSink[int](Changes(), function)
    played = played_to(sink)
    sink.request(8)
    played.driver.turn()
    played.transfer(4)
    played.driver.turn()
    assert seen == [0, 1]
    assert played.outcomes == {0: ACCEPTED, 1: ACCEPTED, 2: RELEASED, 3: RELEASED}
    assert sink.outstanding == 6


@pytest.mark.parametrize("kind", ["list", "function"])
def test_what_cannot_be_decoded_ends_it_behind_what_came_before(kind: str) -> None:
    seen: list[int] = []
    sink: Sink[int] = ListSink(Changes()) if kind == "list" else ForEachSink(Changes(), seen.append)
    played = played_to(sink, decode=odd_is_unreadable)
    sink.request(8)
    played.driver.turn()
    played.transfer(4)
    played.driver.turn()
    assert (sink.items if isinstance(sink, ListSink) else seen) == [0]
    assert isinstance(sink.error, ValueError)
    if isinstance(sink, ListSink):
        sink.give_back()
        played.driver.turn()
    first = RELEASED if kind == "list" else ACCEPTED
    assert played.outcomes == {0: first, 1: FAILED, 2: RELEASED, 3: RELEASED}
    assert played.end.ledger.unsettled == played.end.ledger.buffered == 0


@pytest.mark.parametrize("kind", ["list", "function"])
def test_where_the_strategy_goes_on_so_does_the_run_and_more_is_asked_for(kind: str) -> None:
    seen: list[int] = []
    sink: Sink[int] = ListSink(Changes()) if kind == "list" else ForEachSink(Changes(), seen.append)
    played = played_to(sink, decode=odd_is_unreadable, on_failure=FailureStrategy(reject))
    sink.request(6)
    played.driver.turn()
    played.transfer(6)
    played.driver.turn()
    assert (sink.items if isinstance(sink, ListSink) else seen) == [0, 2, 4]
    if isinstance(sink, ListSink):
        sink.settle()
        played.driver.turn()
    assert {tag: outcome.kind for tag, outcome in played.outcomes.items()} == {
        tag: "rejected" if tag % 2 else "accepted" for tag in range(6)
    }
    assert sink.outstanding == 3
    assert (played.end.ledger.demand, played.end.counts().delivered) == (3, 3)


def test_an_interrupt_is_raised_and_the_item_in_hand_has_failed() -> None:
    def function(item: int) -> None:
        if item == 1:
            raise KeyboardInterrupt

    sink = ForEachSink[int](Changes(), function)
    played = played_to(sink)
    sink.request(8)
    played.driver.turn()
    with pytest.raises(KeyboardInterrupt):
        played.transfer(4)
    played.driver.turn()
    assert played.outcomes == {0: ACCEPTED, 1: FAILED, 2: RELEASED, 3: RELEASED}
    assert played.end.ledger.unsettled == played.end.ledger.buffered == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError()])
def test_who_raises_before_an_item_is_taken_has_failed_none_of_them(error: BaseException) -> None:
    class Raising(ListSink[int]):
        def on_run(self, run: Run[int]) -> None:  # noqa: ARG002
            raise error

    sink = Raising(Changes())
    played = played_to(sink)
    sink.request(8)
    played.driver.turn()
    with nullcontext() if isinstance(error, Exception) else pytest.raises(KeyboardInterrupt):
        played.transfer(4)
    played.driver.turn()
    assert played.raised == [error]
    assert played.outcomes == dict.fromkeys(range(4), RELEASED)
    assert played.end.ledger.unsettled == played.end.ledger.buffered == 0


class _Onto:
    """Lets a chain of operators be subscribed to a link that the test plays."""

    def __init__(self) -> None:
        self.subscriber: Subscriber[int] | None = None

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        self.subscriber = subscriber


def played_through(make: Callable[[Publisher[int]], Publisher[int]], sink: Sink[int]) -> PlayedReceiver:
    onto = _Onto()
    make(onto).subscribe(sink)
    assert runs_of(onto.subscriber) is not None
    return PlayedReceiver(probe=cast("Any", onto.subscriber), decode=decode, window=16)


PASSING: dict[str, Callable[[Publisher[int]], Publisher[int]]] = {
    "checkpoint": lambda source: operators.checkpoint(source, "here"),
    "do_finally": lambda source: operators.do_finally(source, lambda _: None),
    "do_on_cancel": lambda source: operators.do_on_cancel(source, lambda: None),
    "do_on_complete": lambda source: operators.do_on_complete(source, lambda: None),
    "do_on_error": lambda source: operators.do_on_error(source, lambda _: None),
    "do_on_next": lambda source: operators.do_on_next(source, lambda _: None),
    "do_on_request": lambda source: operators.do_on_request(source, lambda _: None),
    "do_on_subscribe": lambda source: operators.do_on_subscribe(source, lambda: None),
    "name": lambda source: operators.name(source, "numbers"),
    "on_error_complete": operators.on_error_complete,
    "on_error_map": lambda source: operators.on_error_map(source, lambda error: error),
    "take": lambda source: operators.take(source, 4),
}


@pytest.mark.parametrize("name", PASSING)
def test_an_operator_that_passes_items_on_passes_on_their_runs(name: str) -> None:
    seen: list[int] = []
    sink = ForEachSink[int](Changes(), seen.append)
    sink.request(8)
    played = played_through(PASSING[name], sink)
    played.driver.turn()
    played.transfer(4)
    played.driver.turn()
    assert seen == [0, 1, 2, 3]
    assert played.outcomes == dict.fromkeys(range(4), ACCEPTED)


@pytest.mark.parametrize("kind", ["list", "function"])
def test_take_ends_in_the_middle_of_a_run_and_the_items_behind_are_given_back(kind: str) -> None:
    seen: list[int] = []
    sink: Sink[int] = ListSink(Changes()) if kind == "list" else ForEachSink(Changes(), seen.append)
    sink.request(8)
    played = played_through(lambda source: operators.take(source, 3), sink)
    played.driver.turn()
    assert played.driver.wire == 3, "never more than it takes"
    played.driver.wire = 5  # a sender that sends more
    played.transfer(5)
    played.driver.turn()
    assert (sink.items if isinstance(sink, ListSink) else seen) == [0, 1, 2]
    assert (sink.ended, sink.error) == (True, None)
    if isinstance(sink, ListSink):
        sink.settle()
        played.driver.turn()
    assert played.outcomes == {**dict.fromkeys(range(3), ACCEPTED), 3: RELEASED, 4: RELEASED}


def test_take_gives_back_as_failed_the_item_that_a_function_raises_for() -> None:
    def refuse_the_last(item: int) -> None:
        if item == 2:
            raise KeyError(item)

    sink = ForEachSink[int](Changes(), refuse_the_last)
    sink.request(8)
    played = played_through(lambda source: operators.take(source, 3), sink)
    played.driver.turn()
    played.transfer(3)
    played.driver.turn()
    assert isinstance(sink.error, KeyError)
    assert played.outcomes == {0: ACCEPTED, 1: ACCEPTED, 2: FAILED}
