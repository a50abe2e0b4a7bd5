import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rstreams._demand import UNBOUNDED
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import ConfigError, DemandError, SpecViolation
from rstreams.operators.repeat import repeat
from rstreams.sources.defer import defer
from rstreams.sources.empty import empty
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import OperatorContract, _depth


class TestRepeat(OperatorContract):
    build = staticmethod(lambda source: repeat(source, 1))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_unmet_demand_goes_to_the_next_subscription() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](3)
    repeat(source).subscribe(probe)
    source.next(1)
    source.complete()
    source.next(2)

    assert source.subscriptions == 2
    assert source.requests == [3, 2]
    assert probe.items == [1, 2]
    assert not probe.ended


def test_a_source_that_ends_at_once_leaves_turns_and_can_be_cancelled() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](1)
        repeat(empty()).subscribe(probe)

        assert not probe.ended
        assert scheduler.timers == 1
        probe.cancel()
        assert scheduler.timers == 0


def test_many_in_a_row_do_not_recurse() -> None:
    probe = ProbeSubscriber[int](1)
    repeat(empty(), 20_000).subscribe(probe)

    assert probe.ended


@pytest.mark.parametrize("count", [-1, 0, 1.5, True, "1"])
def test_a_wrong_count_is_named(count: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(
        ConfigError,
        match=re.escape(f"repeat(count={count!r}): count must be ") + "1 or more(, a whole number)?$",
    ):
        repeat(ManualPublisher[int](), count)


def counted(tries: list[None]) -> Publisher[int]:
    def make() -> Publisher[int]:
        tries.append(None)
        return empty()

    return defer(make)


def test_without_a_scope_an_endless_loop_that_brings_nothing_fails() -> None:
    tries: list[None] = []
    probe = ProbeSubscriber[int](1)
    repeat(counted(tries)).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert str(probe.error) == (
        "repeat: the source completed without an item 1024 times in a row, and there is no scope that could go on with "
        "something else: give a count, or subscribe inside `async with rstreams.Scope()`"
    )
    assert len(tries) == 1025  # the first time, and once more each time
    assert probe.signals == ["on_subscribe", "on_error"]


def test_without_a_scope_an_endless_loop_with_items_goes_on_until_it_is_cancelled() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    probe.on_item = lambda _: probe.cancel() if len(probe.items) == 5_000 else None
    repeat(of(1, 2)).subscribe(probe)

    assert len(probe.items) == 5_000
    assert not probe.ended


def test_in_a_scope_it_can_be_cancelled_between_the_turns() -> None:
    tries: list[None] = []
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](1)
        repeat(counted(tries)).subscribe(probe)
        assert len(tries) == 1025
        scheduler.call_later(0, probe.cancel)
        scheduler.run()

    assert len(tries) == 2 * 1024 + 1  # the turn that was set before the cancel, and none after it
    assert probe.signals == ["on_subscribe"]


def test_a_cancel_out_of_the_source_ends_the_loop() -> None:
    tries: list[None] = []
    probe = ProbeSubscriber[int](1)

    def make() -> Publisher[int]:
        tries.append(None)
        if len(tries) == 3:
            probe.cancel()
        return empty()

    repeat(defer(make)).subscribe(probe)

    assert len(tries) == 3
    assert probe.signals == ["on_subscribe"]


class Broken(ManualPublisher[int]):
    """Breaks 1.9 the second time."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        if self.subscriptions:
            raise self.reason
        super().subscribe(subscriber)

    reason = OSError("no second time")


def test_a_source_whose_subscribe_raises_ends_the_stream() -> None:
    source, probe = Broken(), ProbeSubscriber[int](1)
    repeat(source).subscribe(probe)
    source.complete()

    assert probe.error is Broken.reason
    assert probe.signals == ["on_subscribe", "on_error"]


def test_what_the_subscriber_raises_in_a_later_subscription_is_raised() -> None:
    def on_item(item: int) -> None:
        if len(probe.items) == 3:
            raise ArithmeticError(item)

    probe = ProbeSubscriber[int](UNBOUNDED, on_item=on_item)
    with pytest.raises(ArithmeticError):
        repeat(of(1, 2)).subscribe(probe)

    assert probe.signals == ["on_subscribe", *["on_next"] * 3]


def test_an_item_held_from_before_keeps_its_own_outcome() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](4, hold=True)
    repeat(source).subscribe(probe)
    source.next(1, 2)
    source.complete()
    source.next(3)
    assert source.outcomes == [None] * 3

    probe.holds[0].done()
    probe.holds[1].fail(ValueError())
    probe.cancel()
    probe.holds[2].release()

    assert source.outcomes == ["done", "failed", "released"]


def test_demand_without_limit_stays_so() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED - 1)
    repeat(source).subscribe(probe)
    source.next(1)
    source.complete()
    probe.request(5)
    source.next(2)
    source.complete()

    assert source.requests == [UNBOUNDED - 1, UNBOUNDED - 2, 5, UNBOUNDED]


def test_without_demand_it_waits_for_a_request() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    repeat(source, 2).subscribe(probe)
    source.next(1)
    source.complete()
    source.complete()  # a source that breaks 1.7 is not taken for the next one
    assert source.subscriptions == 1
    probe.request(2)
    assert source.subscriptions == 2
    assert source.requests == [1, 2]
    source.next(2)
    source.complete()

    assert probe.items == [1, 2]
    assert probe.completed
    assert not source.cancelled


def test_a_wrong_demand_while_it_waits_ends_it() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    repeat(source).subscribe(probe)
    source.next(1)
    source.complete()
    probe.request(0)
    probe.request(1)

    assert isinstance(probe.error, DemandError)
    assert source.subscriptions == 1


def test_a_request_from_another_thread_while_it_waits_changes_nothing() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    repeat(source).subscribe(probe)
    source.next(1)
    source.complete()
    with ThreadPoolExecutor(1) as threads, pytest.raises(SpecViolation):
        threads.submit(probe.request, 1).result()
    assert source.subscriptions == 1
    probe.request(1)

    assert source.subscriptions == 2


def test_one_by_one_from_inside_on_next_the_stack_stays_flat() -> None:
    depths: list[int] = []

    def on_item(_: int) -> None:
        depths.append(_depth())
        probe.request(1)

    probe = ProbeSubscriber[int](1, on_item=on_item)
    repeat(of(1), 3_000).subscribe(probe)

    assert len(probe.items) == 3_000
    assert probe.completed
    assert max(depths) - min(depths) < 20


def test_an_error_ends_it_and_the_source_is_not_asked_again() -> None:
    source, probe, error = ManualPublisher[int](), ProbeSubscriber[int](5), ValueError()
    repeat(source).subscribe(probe)
    source.complete()
    source.error(error)
    probe.request(1)

    assert probe.error is error
    assert source.subscriptions == 2
