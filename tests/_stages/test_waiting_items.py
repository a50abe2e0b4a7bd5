"""Items that wait for demand: their order, their holds, and the end behind them."""

from __future__ import annotations

from rstreams import Stream
from rstreams._core.demand import TURN_S, UNBOUNDED
from rstreams._stages.waiting_items import WaitingItems
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler


class All(WaitingItems[int]):
    """A stage that asks for all items at once."""

    asked = False

    def _ask(self) -> None:
        if not self.asked:
            self.asked = True
            self._upstream.request(UNBOUNDED)


def waiting(demand: int) -> tuple[All, ManualPublisher[int], ProbeSubscriber[int]]:
    probe, source = ProbeSubscriber[int](demand), ManualPublisher[int]()
    stage = All(probe)
    source.subscribe(stage)
    return stage, source, probe


def test_items_beyond_the_demand_wait_in_their_order_and_are_held() -> None:
    stage, source, probe = waiting(1)
    source.next(1, 2, 3)
    assert (probe.items, source.outcomes) == ([1], ["done", None, None])
    counts = stage.counts()
    assert counts is not None
    assert counts.buffered == 2
    probe.request(1)
    source.next(4)
    assert (probe.items, source.outcomes) == ([1, 2], ["done", "done", None, None])
    probe.request(5)
    assert probe.items == [1, 2, 3, 4]


def test_the_end_waits_behind_them() -> None:
    for error in (None, ValueError("x")):
        _, source, probe = waiting(1)
        source.next(1, 2)
        if error is None:
            source.complete()
        else:
            source.error(error)
        assert not probe.ended
        probe.request(1)
        assert (probe.items, probe.completed, probe.error) == ([1, 2], error is None, error)


def test_a_cancel_gives_them_back() -> None:
    _, source, probe = waiting(1)
    source.next(1, 2, 3)
    probe.cancel()
    assert (source.cancelled, source.outcomes) == (True, ["done", "released", "released"])


def test_a_request_from_inside_does_not_recurse() -> None:
    stage, source, probe = waiting(1)
    depth = [0]

    def ask(_: int) -> None:
        depth[0] += 1
        assert depth[0] == 1
        probe.request(1)
        depth[0] -= 1

    source.next(0, *range(1, 50))
    probe.on_item = ask
    probe.request(1)
    assert probe.items == list(range(50))
    assert not stage.ended


class Working(VirtualScheduler):
    """Time that also goes by while a function works."""

    worked_s = 0.0

    def now(self) -> float:
        return super().now() + self.worked_s


def test_items_that_wait_for_the_next_turn_are_no_deadlock() -> None:
    with Working() as time:

        def work(number: int) -> int:
            time.worked_s += TURN_S
            return number

        groups = Stream.from_iterable([0] * 50 + [1] * 40).group_by(lambda number: number, prefetch=8)
        parts = groups.flat_map(
            lambda group: Stream(group).limit_rate(50).map(work).take(40), concurrency=1, prefetch=7
        )
        probe = ProbeSubscriber[int](1)
        time.call_later(0.01, lambda: probe.request(100))  # just before the second look for a deadlock
        parts.subscribe(probe)
        time.advance(1.0)
    assert probe.error is None
    assert probe.items == [0] * 40 + [1] * 40
