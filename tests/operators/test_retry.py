import re
from typing import Any

import pytest

from rstreams._demand import UNBOUNDED
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import ConfigError
from rstreams.operators.concat import concat
from rstreams.operators.retry import retry
from rstreams.sources.defer import defer
from rstreams.sources.fail import fail
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import OperatorContract


class TestRetry(OperatorContract):
    build = staticmethod(lambda source: retry(source, 0))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_unmet_demand_goes_to_the_next_subscription() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](3)
    retry(source).subscribe(probe)
    source.next(1)
    source.error(ValueError())
    source.next(2)

    assert source.subscriptions == 2
    assert source.requests == [3, 2]
    assert probe.items == [1, 2]
    assert not probe.ended


def test_a_source_that_ends_at_once_leaves_turns_and_can_be_cancelled() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](1)
        retry(fail(LookupError())).subscribe(probe)

        assert not probe.ended
        assert scheduler.timers == 1
        probe.cancel()
        assert scheduler.timers == 0


def test_many_in_a_row_do_not_recurse() -> None:
    probe = ProbeSubscriber[int](1)
    retry(fail(LookupError()), 20_000).subscribe(probe)

    assert probe.ended


@pytest.mark.parametrize("count", [-1, 1.5, True, "1"])
def test_a_wrong_count_is_named(count: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(
        ConfigError,
        match=re.escape(f"retry(count={count!r}): count must be ") + "0 or more(, a whole number)?$",
    ):
        retry(ManualPublisher[int](), count)


def counted(tries: list[None]) -> Publisher[int]:
    def make() -> Publisher[int]:
        tries.append(None)
        return fail(LookupError())

    return defer(make)


def test_without_a_scope_an_endless_loop_that_brings_nothing_fails() -> None:
    tries: list[None] = []
    probe = ProbeSubscriber[int](1)
    retry(counted(tries)).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert str(probe.error) == (
        "retry: the source failed without an item 1024 times in a row, and there is no scope that could go on with "
        "something else: give a count, or subscribe inside `async with rstreams.Scope()`"
    )
    assert len(tries) == 1025  # the first time, and once more each time
    assert probe.signals == ["on_subscribe", "on_error"]


def test_without_a_scope_an_endless_loop_with_items_goes_on_until_it_is_cancelled() -> None:
    probe = ProbeSubscriber[int](UNBOUNDED)
    probe.on_item = lambda _: probe.cancel() if len(probe.items) == 5_000 else None
    retry(concat(of(1, 2), fail(LookupError()))).subscribe(probe)

    assert len(probe.items) == 5_000
    assert not probe.ended


def test_in_a_scope_it_can_be_cancelled_between_the_turns() -> None:
    tries: list[None] = []
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](1)
        retry(counted(tries)).subscribe(probe)
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
        return fail(LookupError())

    retry(defer(make)).subscribe(probe)

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
    retry(source).subscribe(probe)
    source.error(ValueError())

    assert probe.error is Broken.reason
    assert probe.signals == ["on_subscribe", "on_error"]


def test_what_the_subscriber_raises_in_a_later_subscription_is_raised() -> None:
    def on_item(item: int) -> None:
        if len(probe.items) == 3:
            raise ArithmeticError(item)

    probe = ProbeSubscriber[int](UNBOUNDED, on_item=on_item)
    with pytest.raises(ArithmeticError):
        retry(concat(of(1, 2), fail(LookupError()))).subscribe(probe)

    assert probe.signals == ["on_subscribe", *["on_next"] * 3]


def test_an_item_held_from_before_keeps_its_own_outcome() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](4, hold=True)
    retry(source).subscribe(probe)
    source.next(1, 2)
    source.error(ValueError())
    source.next(3)
    assert source.outcomes == [None] * 3

    probe.holds[0].done()
    probe.holds[1].fail(ValueError())
    probe.cancel()
    probe.holds[2].release()

    assert source.outcomes == ["done", "failed", "released"]


def test_demand_without_limit_stays_so() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED - 1)
    retry(source).subscribe(probe)
    source.next(1)
    source.error(ValueError())
    probe.request(5)
    source.next(2)
    source.error(ValueError())

    assert source.requests == [UNBOUNDED - 1, UNBOUNDED - 2, 5, UNBOUNDED]


def test_without_demand_it_tries_again_and_asks_for_nothing() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    retry(source, 1).subscribe(probe)
    source.next(1)
    source.error(ValueError())
    assert source.subscriptions == 2
    assert source.requests == [1]
    probe.request(2)
    assert source.requests == [1, 2]

    error = ValueError("the last")
    source.error(error)

    assert probe.error is error


@pytest.mark.parametrize("answer", [False, None, 0, "", []])
def test_a_predicate_that_says_no_lets_the_error_pass(answer: object) -> None:
    source, probe, seen = ManualPublisher[int](), ProbeSubscriber[int](1), list[Exception]()

    def predicate(error: Exception) -> object:
        seen.append(error)
        return answer

    retry(source, predicate=predicate).subscribe(probe)
    error = ValueError()
    source.error(error)

    assert seen == [error]
    assert probe.error is error
    assert source.subscriptions == 1


@pytest.mark.parametrize("answer", [True, 1, "yes", [0]])
def test_whatever_is_true_is_a_yes(answer: object) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    retry(source, predicate=lambda _: answer).subscribe(probe)
    source.error(ValueError())

    assert source.subscriptions == 2


class Undecided:
    def __bool__(self) -> bool:
        raise RuntimeError


def test_an_answer_that_is_neither_true_nor_false_ends_the_stream() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    retry(source, predicate=lambda _: Undecided()).subscribe(probe)
    error = ValueError()
    source.error(error)

    assert isinstance(probe.error, RuntimeError)
    assert probe.error.__context__ is error


def test_what_a_predicate_raises_ends_the_stream() -> None:
    source, probe, raised = ManualPublisher[int](), ProbeSubscriber[int](1), ZeroDivisionError()

    def predicate(_: Exception) -> bool:
        raise raised

    retry(source, predicate=predicate).subscribe(probe)
    error = ValueError()
    source.error(error)

    assert probe.error is raised
    assert raised.__context__ is error
    assert source.subscriptions == 1


def test_what_a_predicate_raises_after_its_cancel_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)

    def predicate(_: Exception) -> bool:
        probe.cancel()
        raise ZeroDivisionError

    retry(source, predicate=predicate).subscribe(probe)
    source.error(ValueError())

    assert probe.signals == ["on_subscribe"]
    assert caplog.messages == ["a predicate failed, after its subscription had ended"]


def test_a_predicate_may_cancel() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)

    def predicate(_: Exception) -> bool:
        probe.cancel()
        return True

    retry(source, predicate=predicate).subscribe(probe)
    source.error(ValueError())

    assert source.subscriptions == 1
    assert probe.signals == ["on_subscribe"]


def test_what_is_no_exception_passes_through_without_a_predicate() -> None:
    source, probe, seen = ManualPublisher[int](), ProbeSubscriber[int](1), list[Exception]()
    retry(source, predicate=seen.append).subscribe(probe)
    source.error(KeyboardInterrupt())

    assert isinstance(probe.error, KeyboardInterrupt)
    assert seen == []
