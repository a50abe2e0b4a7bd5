"""share, and what is the same for all that share a run in which every item goes to everyone."""

from __future__ import annotations

import gc
import logging
import weakref

import pytest

from rstreams._core.demand import SLICE, UNBOUNDED
from rstreams.abc import Subscription
from rstreams.errors import ConfigError, DemandError
from rstreams.operators.map import map as map_
from rstreams.operators.share import share
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.log_lines import tell_counts
from tests.operators.contract import OperatorContract


class TestShare(OperatorContract):
    build = share
    model = list
    requests = ((1, [1]), (3, [3]), (255, [255]), (300, [256]), (UNBOUNDED, [256]))


def played(*probes: ProbeSubscriber[int], window: int = 256) -> ManualPublisher[int]:
    source = ManualPublisher[int]()
    shared = share(source, window=window)
    for probe in probes:
        shared.subscribe(probe)
    return source


def test_the_source_runs_once_for_all() -> None:
    first, second = ProbeSubscriber[int](5), ProbeSubscriber[int](5)
    source = played(first, second)

    source.next(1, 2)
    source.complete()

    assert source.subscriptions == 1
    assert first.items == second.items == [1, 2]
    assert first.completed
    assert second.completed


def test_who_comes_later_gets_what_comes_later() -> None:
    source = ManualPublisher[int]()
    shared = share(source)
    first, second = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int](UNBOUNDED)
    shared.subscribe(first)
    source.next(1)
    shared.subscribe(second)
    source.next(2)

    assert first.items == [1, 2]
    assert second.items == [2]


def test_the_slowest_rules() -> None:
    quick, slow = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int]()
    source = ManualPublisher[int]()
    shared = share(source, window=4)
    shared.subscribe(quick)
    shared.subscribe(slow)
    assert source.requests == [4]

    source.next(1, 2, 3, 4)  # on their way when `slow` came
    assert source.requests == [4]
    assert quick.items == [1, 2, 3, 4]
    assert slow.items == []

    slow.request(1)
    assert slow.items == [1]
    assert source.requests == [4, 1]  # nothing was on its way any more: it does not wait for half of the window
    slow.request(4)
    assert slow.items == [1, 2, 3, 4]
    assert source.requests == [4, 1, 3]  # it has got all: the others may go ahead by four again
    source.next(5)
    assert quick.items == slow.items == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("window", [1, 2, 3, 7, 256])
def test_no_more_than_the_window_is_ever_on_its_way(window: int) -> None:
    source = ManualPublisher[int]()
    shared = share(source, window=window)
    probes = [ProbeSubscriber[int](UNBOUNDED) for _ in range(3)]
    for probe in probes:
        shared.subscribe(probe)

    for item in range(1000):
        assert 1 <= source.outstanding <= window
        source.next(item)

    assert all(probe.items == list(range(1000)) for probe in probes)


def test_the_last_to_leave_cancels() -> None:
    first, second = ProbeSubscriber[int](5), ProbeSubscriber[int](5)
    source = played(first, second)

    first.cancel()
    assert not source.cancelled
    source.next(1)
    second.cancel()

    assert source.cancelled
    assert first.signals == ["on_subscribe"]
    assert second.items == [1]


@pytest.mark.parametrize("end", ["complete", "error", "cancel"])
def test_after_the_end_of_a_run_another_one_begins(end: str) -> None:
    source = ManualPublisher[int]()
    shared = share(source)
    first, second = ProbeSubscriber[int](5), ProbeSubscriber[int](5)
    shared.subscribe(first)
    if end == "complete":
        source.complete()
    elif end == "error":
        source.error(ValueError())
    else:
        first.cancel()

    shared.subscribe(second)
    source.next(1)

    assert source.subscriptions == 2
    assert second.items == [1]


def test_who_leaves_no_longer_holds_up_the_others() -> None:
    quick, slow = ProbeSubscriber[int](10), ProbeSubscriber[int]()
    source = played(quick, slow, window=2)
    source.next(1, 2)
    assert source.outstanding == 0

    slow.cancel()

    assert source.outstanding == 2
    assert source.outcomes == ["done", "done"]


def test_an_item_is_done_when_all_have_let_go() -> None:
    first, second = ProbeSubscriber[int](2, hold=True), ProbeSubscriber[int](2, hold=True)
    source = played(first, second)
    source.next(1, 2)

    first.holds[0].done()
    assert source.outcomes == [None, None]
    second.holds[0].done()
    assert source.outcomes == ["done", None]
    second.holds[1].fail(ValueError())
    first.holds[1].done()
    assert source.outcomes == ["done", "failed"]


def test_an_item_that_waits_for_a_slow_one_is_held() -> None:
    quick, slow = ProbeSubscriber[int](10), ProbeSubscriber[int](hold=True)
    source = played(quick, slow)
    source.next(1)
    assert quick.items == [1]
    assert source.outcomes == [None]

    slow.request(1)
    assert slow.items == [1]
    assert source.outcomes == [None]
    slow.holds[0].fail(ValueError())
    assert source.outcomes == ["failed"]


def test_an_error_waits_for_what_a_slow_one_has_not_got() -> None:
    quick, slow = ProbeSubscriber[int](10), ProbeSubscriber[int](1)
    source = played(quick, slow)
    source.next(1, 2)
    error = ValueError("of the source")

    source.error(error)
    assert quick.error is error
    assert not slow.ended
    slow.request(1)

    assert slow.items == [1, 2]
    assert slow.error is error
    assert source.outcomes == ["done", "done"]


def test_an_error_goes_at_once_to_one_that_has_asked_for_nothing() -> None:
    quick, slow = ProbeSubscriber[int](10), ProbeSubscriber[int]()
    source = played(quick, slow)
    source.next(1)
    error = ValueError("of the source")

    source.error(error)

    assert quick.error is slow.error is error
    assert slow.items == []
    assert None not in source.outcomes


def test_completion_waits_for_what_a_slow_one_has_not_got() -> None:
    quick, slow = ProbeSubscriber[int](10), ProbeSubscriber[int]()
    source = played(quick, slow)
    source.next(1)
    source.complete()
    assert quick.completed
    assert not slow.completed

    slow.request(1)

    assert slow.items == [1]
    assert slow.completed
    assert source.outcomes == ["done"]


def test_a_subscriber_that_raises_leaves_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_item: int) -> None:
        raise ArithmeticError

    first, bad, third = ProbeSubscriber[int](9), ProbeSubscriber[int](9, on_item=refuse), ProbeSubscriber[int](9)
    source = played(first, bad, third)

    with caplog.at_level(logging.ERROR, "rstreams"):
        source.next(1, 2)

    assert first.items == third.items == [1, 2]
    assert bad.items == [1]
    assert source.outcomes == ["failed", "done"]
    assert "counts as cancelled" in caplog.text


def test_two_that_raise_at_the_same_item(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_item: int) -> None:
        raise ArithmeticError

    probes = [ProbeSubscriber[int](9, on_item=refuse), ProbeSubscriber[int](9), ProbeSubscriber[int](9, on_item=refuse)]
    source = played(*probes)

    with caplog.at_level(logging.ERROR, "rstreams"):
        source.next(1, 2)

    assert [probe.items for probe in probes] == [[1], [1, 2], [1]]
    tell_counts()
    assert len(caplog.records) == 2


def test_when_all_raise_the_last_one_is_heard(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_item: int) -> None:
        raise ArithmeticError

    source = played(ProbeSubscriber[int](9, on_item=refuse), ProbeSubscriber[int](9, on_item=refuse))

    with caplog.at_level(logging.ERROR, "rstreams"), pytest.raises(ArithmeticError):
        source.next(1)

    assert source.cancelled
    assert len(caplog.records) == 1


def test_one_that_raises_over_an_item_that_waited() -> None:
    def refuse(_item: int) -> None:
        raise ArithmeticError

    bad, good = ProbeSubscriber[int](on_item=refuse), ProbeSubscriber[int](9)
    source = played(good, bad)
    source.next(1)

    bad.request(1)

    assert good.items == [1]
    assert source.outcomes == ["failed"]
    source.next(2)
    assert bad.items == [1]
    assert good.items == [1, 2]


def test_an_interrupt_is_not_taken_for_a_mistake_of_one_subscriber() -> None:
    def interrupt(_item: int) -> None:
        raise KeyboardInterrupt

    source = played(ProbeSubscriber[int](9, on_item=interrupt), ProbeSubscriber[int](9))

    with pytest.raises(KeyboardInterrupt):
        source.next(1)

    assert source.cancelled


def test_one_that_cancels_another_in_the_midst_of_an_item() -> None:
    second = ProbeSubscriber[int](9)
    first = ProbeSubscriber[int](9, on_item=lambda _item: second.cancel())
    third = ProbeSubscriber[int](9)
    source = played(first, second, third)

    source.next(1, 2)

    assert first.items == third.items == [1, 2]
    assert second.signals == ["on_subscribe"]


def test_one_that_brings_in_another_in_the_midst_of_an_item() -> None:
    source = ManualPublisher[int]()
    shared = share(source)
    late = ProbeSubscriber[int](9)
    first = ProbeSubscriber[int](9, on_item=lambda item: shared.subscribe(late) if item == 1 else None)
    second = ProbeSubscriber[int](9)
    shared.subscribe(first)
    shared.subscribe(second)

    source.next(1, 2)

    assert first.items == second.items == [1, 2]
    assert late.items == [2]


def test_a_source_that_answers_in_the_midst_of_an_item_waits_its_turn() -> None:
    source = ManualPublisher[int]()
    shared = share(source)
    first = ProbeSubscriber[int](9, on_item=lambda item: source.next(2) if item == 1 else None)
    seen: list[tuple[int, ...]] = []
    second = ProbeSubscriber[int](9, on_item=lambda _item: seen.append(tuple(first.items)))
    shared.subscribe(first)
    shared.subscribe(second)

    source.next(1)

    assert first.items == second.items == [1, 2]
    assert seen == [(1,), (1, 2)]


def test_a_wrong_demand_ends_only_its_own_subscription() -> None:
    bad, good = ProbeSubscriber[int](1), ProbeSubscriber[int](1)
    source = played(bad, good)

    bad.request(0)
    source.next(1)

    assert isinstance(bad.error, DemandError)
    assert good.items == [1]
    assert not source.cancelled


def test_a_subscriber_may_request_and_cancel_before_the_run_begins() -> None:
    class Cancels(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            subscription.cancel()

    source = played(Cancels(5))

    assert source.subscriptions == 0


def test_a_subscriber_that_raises_in_on_subscribe_is_not_there() -> None:
    class Raises(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:
            subscription.request(1)
            raise ArithmeticError

    source = ManualPublisher[int]()
    shared = share(source)
    with pytest.raises(ArithmeticError):
        shared.subscribe(Raises())
    probe = ProbeSubscriber[int](1)
    shared.subscribe(probe)
    source.next(1)

    assert probe.items == [1]


def test_a_long_wait_is_worked_off_in_turns() -> None:
    n = 3 * SLICE
    with VirtualScheduler() as scheduler:
        quick, slow = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int]()
        source = played(quick, slow, window=n + 1)
        source.next(*range(n))

        slow.request(n + 1)
        assert len(slow.items) == SLICE
        source.next(n)  # comes meanwhile, and waits behind the others
        slow.request(1)
        scheduler.run()

        assert slow.items == list(range(n + 1))
        assert quick.items == slow.items
        assert scheduler.timers == 0


@pytest.mark.parametrize("who", ["slow", "all"])
def test_a_cancel_between_two_turns(who: str) -> None:
    with VirtualScheduler() as scheduler:
        quick, slow = ProbeSubscriber[int](UNBOUNDED), ProbeSubscriber[int]()
        source = played(quick, slow, window=2 * SLICE)
        source.next(*range(2 * SLICE))
        slow.request(UNBOUNDED)

        slow.cancel()
        if who == "all":
            quick.cancel()
        scheduler.run()

        assert len(slow.items) == SLICE
        assert source.cancelled == (who == "all")
        assert scheduler.timers == 0
        assert set(source.outcomes) == {"done"}


@pytest.mark.slow
def test_items_are_not_kept_alive() -> None:
    class Thing:
        pass

    source = ManualPublisher[Thing]()
    shared = share(source)
    quick, slow = ProbeSubscriber[Thing](9), ProbeSubscriber[Thing]()
    shared.subscribe(quick)
    shared.subscribe(slow)
    thing = Thing()
    known = weakref.ref(thing)
    source.next(thing)
    slow.request(1)

    quick.items.clear()
    slow.items.clear()
    del thing
    gc.collect()

    assert known() is None


def test_it_can_stand_in_the_midst_of_a_pipeline() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    map_(share(map_(range_(1000), lambda x: x + 1)), lambda x: x * 2).subscribe(probe)

    assert probe.items == [2 * x for x in range(1, 1001)]


@pytest.mark.parametrize("window", [0, -1, 1.5, True])
def test_a_window_that_cannot_be(window: int) -> None:
    with pytest.raises(ConfigError, match=r"share\(window=.*\): window must be 1 or more items"):
        share(range_(3), window=window)


@pytest.mark.parametrize("stays", [True, False])
def test_the_last_one_leaves_while_another_one_is_coming(stays: bool) -> None:  # noqa: FBT001 - a parameter
    source, first = ManualPublisher[int](), ProbeSubscriber[int](1)
    shared = share(source)
    shared.subscribe(first)

    class Follows(ProbeSubscriber[int]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            first.cancel()
            if not stays:
                subscription.cancel()

    probe = Follows(2)
    shared.subscribe(probe)

    assert source.cancelled is not stays
    assert source.subscriptions == 1
    if stays:
        source.next(1)
        assert probe.items == [1]
