"""Every item to one subscriber: straight, or kept until it is asked for, within one bound."""

from __future__ import annotations

from collections import deque

from rstreams._core.claims import Claims, claims_on
from rstreams._core.demand import UNBOUNDED, take_demand
from rstreams._core.sight import Counts
from rstreams._stages.router import RoutedMember, Routing
from rstreams.abc import Subscriber
from rstreams.testing import ManualPublisher, ProbeSubscriber


class ToFirst(Routing[int, RoutedMember[int]]):
    """A run whose items all go to the subscriber that came first."""

    def __init__(self, window: int) -> None:
        super().__init__("to_first", window)
        self.kept: deque[tuple[int, Claims]] = deque()

    def kept_for(self, member: RoutedMember[int]) -> int:
        return len(self.kept) if member is self.members[0] else 0

    def on_next(self, item: int) -> None:
        self._outstanding -= 1
        member = self.members[0]
        if self._busy or self.kept or not member.limit:
            self.kept.append((item, claims_on(self.hold())))
            self.update()
        else:
            self._hand_over(member, item)

    def _member(self, subscriber: Subscriber[int]) -> RoutedMember[int]:
        return RoutedMember(self, subscriber)

    def _next(self) -> RoutedMember[int] | None:
        return self.members[0] if self.kept and self.members[0].limit else None

    def _serve_item(self, member: RoutedMember[int]) -> None:
        item, hold = self.kept.popleft()
        member.limit = take_demand(member.limit, 1)
        member.emit(item, hold)
        hold.done()

    def _is_through(self, member: RoutedMember[int]) -> bool:  # noqa: ARG002 - one for all
        return not self.kept

    def _ask(self) -> None:
        demand = min(sum(member.limit for member in self.members), UNBOUNDED)
        self._ask_for(demand, self._window - len(self.kept))


def played(window: int, *demands: int) -> tuple[ToFirst, ManualPublisher[int], list[ProbeSubscriber[int]]]:
    run, source = ToFirst(window), ManualPublisher[int]()
    probes = [ProbeSubscriber[int](demand) for demand in demands]
    for probe in probes:
        run.join(probe)
    run.connect(source)
    return run, source, probes


def test_it_asks_for_the_demand_of_all_within_its_window() -> None:
    _, source, _ = played(8, 2, 3)
    assert source.requests == [5]
    _, source, _ = played(4, 2, 3)
    assert source.requests == [4]


def test_what_the_member_has_not_asked_for_is_kept_and_held() -> None:
    run, source, probes = played(8, 1, 2)
    source.next(1, 2, 3)
    assert (probes[0].items, probes[1].items) == ([1], [])
    assert source.outcomes == ["done", None, None]
    assert run.numbers == (2, 2, 8)
    assert run.members[0].counts() == Counts(1, 1, 2)
    probes[0].request(2)
    assert (probes[0].items, source.outcomes) == ([1, 2, 3], ["done"] * 3)


def test_the_item_of_a_member_that_raises_has_failed() -> None:
    _, source, probes = played(8, 1, 1)
    error = ValueError("x")

    def refuse(_: int) -> None:
        raise error

    probes[0].on_item = refuse
    source.next(1)
    assert (source.outcomes, source.errors) == (["failed"], [error])
    assert not source.cancelled
