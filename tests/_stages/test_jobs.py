"""Runs that come to stages with workers: each item's end must be what it would be signal by signal.

Before such a stage stand others, whose functions may cancel or raise in the middle of a run, or end the stream there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from rstreams import operators as ops
from rstreams._core.run import runs_of
from rstreams.abc import Publisher, Subscriber
from rstreams.protocol.delivery import ACCEPTED, END, RELEASED, FailureStrategy, reject
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.protocol.played import PlayedReceiver, decode

Before = Literal["map", "do_on_next", "filter", "drop all", "take"]
Keeper = Literal["map_async", "flat_map", "concat_map"]


class Source:
    """Where a chain of operators begins; who subscribes to it is put on a link by the test."""

    subscriber: Subscriber[Any]

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        self.subscriber = subscriber


class Played:
    """Some operators and a stage with workers on a link whose peer is the test, and what is seen of them."""

    def __init__(
        self,
        before: list[Before],
        keeper: Keeper,
        *,
        by_runs: bool,
        concurrency: int,
        cancel_at: int | None = None,
        raise_at: int | None = None,
        decode: Callable[[bytes], int] = decode,
        on_failure: FailureStrategy = END,
    ) -> None:
        self.calls = 0
        self._cancel_at, self._raise_at = cancel_at, raise_at
        self.inner: list[ManualPublisher[int]] = []
        self.scheduler = VirtualScheduler()
        self.doors: list[Any] = []
        source = Source()
        chain: Publisher[Any] = source
        for kind in before:
            chain = self._apply(kind, chain)
        match keeper:
            case "map_async":
                chain = ops.map_async(chain, self._wait, concurrency=concurrency)
            case "flat_map":
                chain = ops.flat_map(chain, self._stream, concurrency=concurrency)
            case "concat_map":
                chain = ops.concat_map(chain, self._stream, prefetch=concurrency)
        self.probe = ProbeSubscriber[Any]()
        with self.scheduler:
            chain.subscribe(self.probe)
            assert runs_of(source.subscriber) is not None
            self.played = PlayedReceiver(
                probe=source.subscriber,  # type: ignore[arg-type] # it is not looked at
                decode=decode,
                window=16,
                on_failure=on_failure,
            )
        if not by_runs:
            self.played.end._items._on_run = None

    def _apply(self, kind: Before, source: Publisher[Any]) -> Publisher[Any]:
        match kind:
            case "map":
                return ops.map(source, self._called(lambda x: x))
            case "do_on_next":
                return ops.do_on_next(source, self._called(lambda _: None))
            case "filter":
                return ops.filter(source, self._called(lambda x: x % 3))
            case "drop all":
                return ops.filter(source, self._called(lambda _: False))
            case "take":
                return ops.take(source, 4)

    def _called(self, function: Callable[[int], Any]) -> Callable[[int], Any]:
        def call(item: int) -> Any:  # noqa: ANN401
            self.calls += 1
            if self.calls == self._cancel_at:
                self.probe.cancel()
            if self.calls == self._raise_at:
                raise ValueError(item)
            return function(item)

        return call

    async def _wait(self, item: int) -> int:
        door = self.scheduler.event()
        self.doors.append(door)
        await door.wait()
        return item

    def _stream(self, _: int) -> ManualPublisher[int]:
        self.inner.append(ManualPublisher())
        return self.inner[-1]

    def work(self, n: int) -> None:
        """Have workers handle up to `n` of the items that they have begun with."""
        for _ in range(n):
            self.scheduler.run()
            if self.doors:
                self.doors.pop(0).set()
            elif self.inner:
                self.inner.pop(0).complete()
        self.scheduler.advance(1)
        self.played.driver.turn()

    def observed(self) -> tuple[object, ...]:
        self.scheduler.run()
        self.played.driver.turn()
        ledger = self.played.end.ledger
        ended = self.probe.completed or self.probe.error is not None or self.calls >= (self._cancel_at or 99)
        return (
            self.calls,
            "any" if ended else len(self.doors) + len(self.inner),  # a run that ends early may come before its workers
            self.probe.items,
            (self.probe.completed, repr(self.probe.error)),
            self.played.outcomes,
            (ledger.demand, ledger.buffered, ledger.unsettled, self.played.end.counts().delivered),
            self.played.detach,
            list(map(repr, self.played.raised)),
        )


def odd_is_unreadable(payload: bytes) -> int:
    item = decode(payload)
    if item % 2:
        raise ValueError(item)
    return item


@pytest.mark.parametrize("keeper", ["map_async", "flat_map", "concat_map"])
@pytest.mark.parametrize("cancel_at", range(2, 7))
def test_items_kept_when_a_function_cancels_are_given_back(keeper: Keeper, cancel_at: int) -> None:
    played = Played(["map"], keeper, by_runs=True, concurrency=6, cancel_at=cancel_at)
    played.probe.request(100)
    played.played.driver.turn()
    played.played.transfer(1)
    played.played.transfer(5)
    assert played.played.outcomes == {**dict.fromkeys(range(6), RELEASED), cancel_at - 1: ACCEPTED}


@pytest.mark.parametrize("keeper", ["map_async", "flat_map", "concat_map"])
@given(
    before=st.lists(st.sampled_from(["map", "do_on_next", "filter", "drop all", "take"]), max_size=3),
    concurrency=st.integers(1, 6),
    cancel_at=st.one_of(st.none(), st.integers(1, 12)),
    raise_at=st.one_of(st.none(), st.integers(1, 12)),
    unreadable=st.booleans(),
    goes_on=st.booleans(),
    steps=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4)), min_size=1, max_size=4),
)
def test_runs_and_items_go_the_same_way(  # noqa: PLR0917 - as many things are drawn
    keeper: Keeper,
    before: list[Before],
    concurrency: int,
    cancel_at: int | None,
    raise_at: int | None,
    steps: list[tuple[int, int]],
    *,
    unreadable: bool,
    goes_on: bool,
) -> None:
    observed = []
    for by_runs in (True, False):
        played = Played(
            before,
            keeper,
            by_runs=by_runs,
            concurrency=concurrency,
            cancel_at=cancel_at,
            raise_at=raise_at,
            decode=odd_is_unreadable if unreadable else decode,
            on_failure=FailureStrategy(reject) if goes_on else END,
        )
        played.probe.request(100)
        played.played.driver.turn()
        for count, worked in steps:
            credit = played.played.driver.wire
            if played.played.detach is None and credit > 0:
                played.played.transfer(min(count, credit))
            played.work(worked)
        event(f"completed: {played.probe.completed}, error: {type(played.probe.error).__name__}")
        observed.append(played.observed())
    assert observed[0] == observed[1]
