import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rstreams._demand import UNBOUNDED
from rstreams._runs import Counted, Counts
from rstreams.abc import Publisher, Subscription
from rstreams.errors import BufferOverflow, ConfigError, DemandError, RStreamsError, SpecViolation
from rstreams.operators.flat_map import flat_map
from rstreams.operators.group_by import GroupedPublisher, group_by
from rstreams.operators.map import map as map_
from rstreams.operators.reduce import reduce
from rstreams.operators.take import take
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import OperatorContract
from tests.operators.scheduled import ScheduledFunctionContract


@pytest.fixture(autouse=True)
def scheduler() -> Iterator[VirtualScheduler]:
    with VirtualScheduler() as scheduler:
        yield scheduler


class TestGroupByOneKey(ScheduledFunctionContract):
    build = staticmethod(lambda source: flat_map(group_by(source, lambda _: 0), lambda group: group, concurrency=1))
    model = staticmethod(lambda items: items)
    requests = ((1, [256]), (5, [256]), (UNBOUNDED, [256]))
    failing = staticmethod(lambda source, function: flat_map(group_by(source, lambda _: function()), lambda g: g))

    def test_a_user_function_may_cancel(self) -> None:
        source, probe = self._subscribe_with(lambda: probe.cancel())  # noqa: PLW0108 - there is no probe yet
        self.feed(source, [1])

        assert source.cancelled
        assert probe.signals == ["on_subscribe"]
        assert source.outcomes == ["done"]


class TestGroupByUnscheduled(OperatorContract):
    build = staticmethod(lambda source: flat_map(group_by(source, lambda _: 0, prefetch=3), lambda group: group))
    model = staticmethod(lambda items: items)
    requests = ((1, [3]), (5, [3]), (UNBOUNDED, [3]))

    @pytest.fixture(autouse=True)
    def no_scheduler(self, scheduler: VirtualScheduler) -> None:
        scheduler.__exit__(None, None, None)


class Groups:
    """The groups of a played source, each with a probe of its own."""

    def __init__(self, request: int = UNBOUNDED, inner: int = UNBOUNDED, *, hold: bool = False, **options: int) -> None:
        self.source = ManualPublisher[int]()
        self.of: dict[int, ProbeSubscriber[int]] = {}
        self.publishers: dict[int, GroupedPublisher[int, int]] = {}

        def take_group(group: GroupedPublisher[int, int]) -> None:
            self.publishers[group.key] = group
            if inner >= 0:
                self.of[group.key] = ProbeSubscriber[int](inner, hold=hold)
                group.subscribe(self.of[group.key])

        self.probe = ProbeSubscriber[GroupedPublisher[int, int]](request, on_item=take_group)
        group_by(self.source, lambda x: x % 10, **options).subscribe(self.probe)


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
@pytest.mark.parametrize("option", ["prefetch", "max_groups"])
def test_a_wrong_option_is_named(option: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"group_by\({option}={value!r}\): {option} must be 1 or more"):
        group_by(range_(1), lambda x: x, **{option: value})


def test_items_go_to_the_group_of_their_key() -> None:
    groups = Groups()

    groups.source.next(1, 2, 11, 12, 21)
    groups.source.complete()

    assert groups.of[1].items == [1, 11, 21]
    assert groups.of[2].items == [2, 12]
    assert groups.of[1].completed
    assert groups.of[2].completed
    assert groups.probe.signals == ["on_subscribe", "on_next", "on_next", "on_complete"]
    assert groups.source.outcomes == ["done"] * 5


def test_a_group_has_one_subscriber() -> None:
    groups = Groups()
    groups.source.next(1)
    second = ProbeSubscriber[int](1)

    groups.publishers[1].subscribe(second)

    assert second.signals == ["on_subscribe", "on_error"]
    assert isinstance(second.error, RStreamsError)
    assert str(second.error) == "a group of group_by has one subscriber, and this one has had its own"


def test_nobody_cannot_subscribe_to_a_group() -> None:
    groups = Groups(inner=-1)
    groups.source.next(1)

    with pytest.raises(TypeError, match=r"1\.9"):
        groups.publishers[1].subscribe(None)  # type: ignore[arg-type]


def test_items_wait_in_a_group_until_it_is_asked_for_and_read() -> None:
    groups = Groups(request=1, inner=1, prefetch=4)
    groups.source.next(1, 2, 11, 12)
    assert list(groups.of) == [1]
    assert groups.of[1].items == [1]
    assert groups.source.outcomes == ["done", None, None, None]
    assert groups.source.requests == [4, 1]  # the one that left

    groups.probe.request(1)
    assert groups.of[2].items == [2]
    groups.of[2].request(5)
    groups.of[1].request(5)

    assert groups.of[2].items == [2, 12]
    assert groups.of[1].items == [1, 11]
    assert groups.source.outcomes == ["done"] * 4
    assert groups.source.requests == [4, 1, 3]


def test_never_more_than_prefetch_items_are_asked_for_or_wait() -> None:
    groups = Groups(inner=0, prefetch=8)
    source = groups.source
    for step in range(200):
        while source.outstanding:
            source.next(len(source.outcomes))
        assert source.outcomes.count(None) == 8
        groups.of[source.outcomes.index(None) % 10].request(step % 3 + 1)
        assert source.outcomes.count(None) + source.outstanding <= 8


def test_a_group_nobody_reads_stops_the_others() -> None:
    groups = Groups(inner=-1, prefetch=3)
    groups.source.next(1, 11, 21)

    assert groups.source.outstanding == 0
    groups.publishers[1].subscribe(reader := ProbeSubscriber[int](UNBOUNDED))

    assert reader.items == [1, 11, 21]
    assert groups.source.outstanding == 3


def test_what_a_group_has_waiting_comes_before_its_end() -> None:
    groups = Groups(inner=0)
    groups.source.next(1)
    groups.source.complete()
    assert groups.probe.completed
    assert not groups.of[1].completed

    groups.of[1].request(1)

    assert groups.of[1].items == [1]
    assert groups.of[1].completed


def test_groups_that_wait_for_demand_come_before_the_completion() -> None:
    groups = Groups(request=1)
    groups.source.next(1, 2)
    groups.source.complete()
    assert not groups.probe.completed

    groups.probe.request(1)

    assert groups.probe.completed
    assert groups.of[2].items == [2]
    assert groups.of[2].completed


def test_a_group_that_was_cancelled_is_opened_again_by_its_key() -> None:
    groups = Groups()
    groups.source.next(1)
    first = groups.of[1]

    first.cancel()
    groups.source.next(11)

    assert first.items == [1]
    assert groups.of[1].items == [11]
    assert groups.of[1] is not first


def test_a_failure_reaches_groups_and_stream_at_once() -> None:
    groups, error = Groups(inner=0), ValueError()
    groups.source.next(1, 2)

    groups.source.error(error)

    assert [groups.of[1].error, groups.of[2].error, groups.probe.error] == [error] * 3
    assert groups.source.outcomes == ["released", "released"]


def test_a_group_subscribed_to_after_the_failure_hears_of_it() -> None:
    groups, error = Groups(inner=-1), ValueError()
    groups.source.next(1)
    groups.source.error(error)

    groups.publishers[1].subscribe(late := ProbeSubscriber[int](1))

    assert late.error is error


def test_a_key_that_is_not_hashable_ends_the_stream() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[Any](1)
    group_by(source, lambda x: [x]).subscribe(probe)  # type: ignore[type-var]

    source.next(1)

    assert isinstance(probe.error, TypeError)
    assert source.outcomes == ["failed"]
    assert source.cancelled


def test_one_group_more_than_allowed_ends_the_stream() -> None:
    groups = Groups(max_groups=2)
    groups.source.next(1, 2, 11)
    assert groups.probe.error is None

    groups.source.next(3)

    assert isinstance(groups.probe.error, BufferOverflow)
    assert str(groups.probe.error) == "group_by(max_groups=2): the key 3 would open a group more than that"
    assert groups.of[1].error is groups.probe.error
    assert groups.source.outcomes == ["done", "done", "done", "failed"]


def test_groups_that_have_a_subscriber_outlive_the_cancel() -> None:
    groups = Groups()
    groups.source.next(1)

    groups.probe.cancel()
    groups.source.next(11, 2)
    assert not groups.source.cancelled
    assert groups.of[1].items == [1, 11]
    assert list(groups.of) == [1]
    assert groups.source.outcomes == ["done"] * 3
    groups.of[1].cancel()

    assert groups.source.cancelled


def test_groups_without_a_subscriber_are_closed_by_the_cancel() -> None:
    groups = Groups(inner=-1)
    groups.source.next(1)

    groups.probe.cancel()
    groups.publishers[1].subscribe(late := ProbeSubscriber[int](1))

    assert groups.source.cancelled
    assert groups.source.outcomes == ["released"]
    assert str(late.error) == "this group of group_by was not subscribed to before its stream was cancelled"


def test_what_waits_in_one_cancelled_group_is_done(scheduler: VirtualScheduler) -> None:
    groups = Groups(inner=0, prefetch=2)
    groups.source.next(1, 11)

    groups.of[1].cancel()
    assert groups.source.outcomes == [None, None]
    scheduler.run()

    assert groups.source.outcomes == ["done", "done"]
    assert groups.source.outstanding == 2
    assert scheduler.timers == 0


def test_what_waits_is_given_back_if_the_stream_is_cancelled_in_the_same_turn(scheduler: VirtualScheduler) -> None:
    groups = Groups(inner=0)
    groups.source.next(1, 11)

    groups.of[1].cancel()
    groups.probe.cancel()

    assert groups.source.outcomes == ["released", "released"]
    assert groups.source.cancelled
    assert scheduler.timers == 0


def test_flat_map_that_fails_gives_back_what_waits_in_groups() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    flat_map(group_by(source, lambda x: x % 2), lambda g: map_(g, lambda x: 8 // x), prefetch=1).subscribe(probe)
    source.next(1, 3, 5, 7, 2)
    assert source.outcomes == ["done", None, None, None, None]

    source.next(0)
    probe.request(2)

    assert isinstance(probe.error, ZeroDivisionError) or source.cancelled is False
    probe.cancel()
    assert None not in source.outcomes
    assert "released" in source.outcomes


def test_a_waiting_item_has_the_outcome_of_what_it_is_emitted_as() -> None:
    groups = Groups(inner=0, hold=True)
    groups.source.next(1, 11)

    groups.of[1].request(2)
    groups.of[1].holds[0].fail(ValueError())
    assert groups.source.outcomes == ["failed", None]
    groups.of[1].holds[1].done()

    assert groups.source.outcomes == ["failed", "done"]


def test_an_item_on_its_way_straight_through_can_be_held() -> None:
    groups = Groups(hold=True)
    groups.source.next(1, 11)
    groups.of[1].holds[1].release()

    assert groups.source.outcomes == [None, "released"]


def test_a_wrong_demand_ends_that_group_alone() -> None:
    groups = Groups()
    groups.source.next(1, 2)

    groups.of[1].request(0)
    groups.source.next(12)

    assert isinstance(groups.of[1].error, DemandError)
    assert groups.of[2].items == [2, 12]
    assert groups.probe.error is None


@pytest.mark.parametrize("inner", [0, 1, UNBOUNDED])
def test_a_subscriber_that_raises_ends_it_all(inner: int) -> None:
    groups, error = Groups(inner=inner), ArithmeticError()
    groups.source.next(1, 2, 12)

    def fail(_item: int) -> None:
        raise error

    groups.of[1].on_item = fail
    with pytest.raises(ArithmeticError):
        if inner:
            groups.of[1].request(1)
            groups.source.next(11)
        else:
            groups.of[1].request(1)

    assert groups.source.cancelled
    assert groups.of[1].error is None  # it counts as cancelled
    assert groups.of[2].error is error
    assert groups.probe.error is error
    assert None not in groups.source.outcomes


def test_a_subscriber_to_groups_that_raises_ends_it_all() -> None:
    source, error = ManualPublisher[int](), ArithmeticError()

    def fail(_group: object) -> None:
        raise error

    probe = ProbeSubscriber[Any](1, on_item=fail)
    group_by(source, lambda x: x).subscribe(probe)
    with pytest.raises(ArithmeticError):
        source.next(1)

    assert source.cancelled
    assert probe.signals == ["on_subscribe", "on_next"]
    assert source.outcomes == ["failed"]


def test_a_demand_of_one_at_a_time_inside_on_next_does_not_recurse(scheduler: VirtualScheduler) -> None:
    count = 0

    def ask(group: GroupedPublisher[int, int]) -> None:
        def one_more(_item: int) -> None:
            nonlocal count
            count += 1
            reader.request(1)

        reader = ProbeSubscriber[int](1, on_item=one_more)
        group.subscribe(reader)

    probe = ProbeSubscriber[GroupedPublisher[int, int]](UNBOUNDED, on_item=ask)
    group_by(range_(20_000), lambda x: x % 3, prefetch=5).subscribe(probe)
    scheduler.advance(1)

    assert count == 20_000
    assert probe.completed


def test_take_on_the_groups_lets_those_taken_go_on(scheduler: VirtualScheduler) -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    groups = take(group_by(range_(100), lambda x: x % 10), 2)
    flat_map(groups, lambda group: reduce(group, lambda a, x: a + x, 0)).subscribe(probe)
    scheduler.run()

    assert probe.items == [sum(range(0, 100, 10)), sum(range(1, 100, 10))]
    assert probe.completed


class Link(ManualPublisher[int]):
    window = 4


def test_over_a_link_the_window_bounds_too() -> None:
    source, probe = Link(), ProbeSubscriber[Publisher[int]](1)
    group_by(source, lambda x: x).subscribe(probe)

    assert source.requests == [4]


def test_what_is_requested_from_another_thread_is_refused() -> None:
    groups = Groups(inner=0)
    groups.source.next(1)
    refused: list[BaseException] = []

    def ask() -> None:
        try:
            groups.of[1].request(1)
        except BaseException as error:
            refused.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()

    assert len(refused) == 1
    assert groups.of[1].items == []


def test_the_counts_are_those_of_the_groups() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[Any](3)
    group_by(source, lambda x: x).subscribe(probe)
    source.next(1, 2, 2)
    subscription = probe.subscription
    assert isinstance(subscription, Counted)

    assert subscription.counts() == Counts(requested=3, delivered=2, buffered=3)


def test_a_subscriber_that_raises_in_on_subscribe_has_cancelled_its_group() -> None:
    groups = Groups(inner=-1)
    groups.source.next(1)

    class Refuses(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        groups.publishers[1].subscribe(Refuses())
    groups.source.next(11)

    assert groups.probe.error is None
    assert len(groups.probe.items) == 2


def test_what_waits_in_a_group_cancelled_after_the_source_is_complete_is_done(scheduler: VirtualScheduler) -> None:
    groups = Groups(request=1, inner=0)
    groups.source.next(1, 2)
    groups.source.complete()

    groups.of[1].cancel()
    scheduler.run()

    assert groups.source.outcomes == ["done", None]
    groups.probe.cancel()
    assert groups.source.outcomes == ["done", "released"]


def test_what_waits_in_a_group_cancelled_after_the_end_is_given_back() -> None:
    groups = Groups(inner=0)
    groups.source.next(1)
    groups.source.complete()
    assert groups.probe.completed

    groups.of[1].cancel()

    assert groups.source.outcomes == ["released"]


def test_a_key_function_that_fails_after_the_cancel_reaches_the_groups_left() -> None:
    source, probe, reader = ManualPublisher[int](), ProbeSubscriber[Any](UNBOUNDED), ProbeSubscriber[int](UNBOUNDED)
    probe.on_item = lambda group: group.subscribe(reader)
    group_by(source, lambda x: 8 // x).subscribe(probe)
    source.next(1)
    probe.cancel()

    source.next(0)

    assert isinstance(reader.error, ZeroDivisionError)
    assert probe.error is None
    assert source.outcomes == ["done", "failed"]
    assert source.cancelled


def test_a_cancel_from_another_thread_is_refused() -> None:
    source, probe, reader = ManualPublisher[int](), ProbeSubscriber[Any](UNBOUNDED), ProbeSubscriber[int](UNBOUNDED)
    probe.on_item = lambda group: group.subscribe(reader)
    group_by(source, lambda x: x).subscribe(probe)
    source.next(1)
    raised: list[SpecViolation] = []

    def elsewhere() -> None:
        for each in (reader, probe):
            try:
                each.cancel()
            except SpecViolation as error:
                raised.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()

    assert [error.rule for error in raised] == ["2.7", "2.7"]
    source.next(1)
    assert reader.items == [1, 1]
    assert not source.cancelled
