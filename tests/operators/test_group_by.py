import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import Counts, Scannable
from rstreams.abc import Publisher
from rstreams.errors import BufferOverflow, ConfigError, DemandError, RStreamsError
from rstreams.operators.flat_map import flat_map
from rstreams.operators.group_by import GroupedPublisher, group_by
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import OperatorContract
from tests.operators.groups import Groups
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
    assert str(second.error) == "a group of group_by takes only one subscriber, and it has had one"


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
    assert isinstance(subscription, Scannable)

    assert subscription.counts() == Counts(requested=3, delivered=2, buffered=3)
