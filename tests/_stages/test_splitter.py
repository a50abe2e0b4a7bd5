"""How group_by ends: its groups and it, by completion, failure or cancel."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscription
from rstreams.errors import SpecViolation
from rstreams.operators.flat_map import flat_map
from rstreams.operators.group_by import group_by
from rstreams.operators.map import map as map_
from rstreams.operators.reduce import reduce
from rstreams.operators.take import take
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.groups import Groups


@pytest.fixture(autouse=True)
def scheduler() -> Iterator[VirtualScheduler]:
    with VirtualScheduler() as scheduler:
        yield scheduler


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


def test_a_failure_reaches_groups_behind_their_items() -> None:
    groups, error = Groups(inner=0), ValueError()
    groups.source.next(1, 2)

    groups.source.error(error)
    assert [groups.of[1].error, groups.of[2].error, groups.probe.error] == [None, None, error]
    for group in groups.of.values():
        group.request(1)

    assert [groups.of[1].items, groups.of[2].items] == [[1], [2]]
    assert [groups.of[1].error, groups.of[2].error] == [error] * 2
    assert groups.source.outcomes == ["done", "done"]


def test_a_group_subscribed_to_after_the_failure_hears_of_it() -> None:
    groups, error = Groups(inner=-1), ValueError()
    groups.source.next(1)
    groups.source.error(error)

    groups.publishers[1].subscribe(late := ProbeSubscriber[int](1))

    assert late.error is error


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


def test_take_on_the_groups_lets_those_taken_go_on(scheduler: VirtualScheduler) -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    groups = take(group_by(range_(100), lambda x: x % 10), 2)
    flat_map(groups, lambda group: reduce(group, lambda a, x: a + x, 0)).subscribe(probe)
    scheduler.run()

    assert probe.items == [sum(range(0, 100, 10)), sum(range(1, 100, 10))]
    assert probe.completed


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
