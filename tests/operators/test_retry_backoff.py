import re
from itertools import pairwise
from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.operators.retry_backoff import retry_backoff
from rstreams.sources.defer import defer
from rstreams.sources.fail import fail
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.scheduled import ScheduledContract
from tests.operators.timed_contract import NO_NUMBERS


class TestRetryBackoff(ScheduledContract):
    build = staticmethod(lambda source: retry_backoff(source, 0))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_the_waits_grow_up_to_a_limit_and_a_cancel_ends_them() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        retry_backoff(source, 9, first_s=1.0, max_s=3.0, jitter=0).subscribe(probe)
        for number, wait in enumerate((1.0, 2.0, 3.0, 3.0), 1):
            source.error(ValueError())
            scheduler.advance(wait - 0.1)
            assert source.subscriptions == number
            scheduler.advance(0.2)
            assert source.subscriptions == number + 1
        source.error(ValueError())
        probe.cancel()
        assert scheduler.timers == 0


@pytest.mark.parametrize("value", [*NO_NUMBERS, -1.0])
@pytest.mark.parametrize("option", ["first_s", "max_s"])
def test_a_wrong_time_is_named(option: str, value: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(ConfigError) as caught:
        retry_backoff(ManualPublisher[int](), 1, **{option: value})

    assert str(caught.value) == (
        f"retry_backoff({option}={value!r}): {option} must be a finite number of seconds, 0 or more"
    )


def test_a_longest_wait_that_is_shorter_than_the_first_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        retry_backoff(ManualPublisher[int](), 1, first_s=60, max_s=30.0)

    assert str(caught.value) == (
        "retry_backoff(max_s=30.0): the longest wait is shorter than the first one, first_s=60"
    )
    retry_backoff(ManualPublisher[int](), 1, first_s=30, max_s=30.0)


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0.9, -1])
def test_a_wrong_factor_is_named(value: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(ConfigError) as caught:
        retry_backoff(ManualPublisher[int](), 1, factor=value)

    assert str(caught.value) == f"retry_backoff(factor={value!r}): factor must be a finite number, 1 or more"


@pytest.mark.parametrize("value", [*NO_NUMBERS, -0.1, 1.1])
def test_a_wrong_jitter_is_named(value: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(ConfigError) as caught:
        retry_backoff(ManualPublisher[int](), 1, jitter=value)

    assert str(caught.value) == f"retry_backoff(jitter={value!r}): jitter must be a finite number, 0 to 1"


@pytest.mark.parametrize("value", [-1, 1.5, True, "1", None])
def test_a_wrong_count_is_named(value: Any) -> None:  # noqa: ANN401 - whatever is wrong
    text = re.escape(f"retry_backoff(count={value!r}): count must be ") + "0 or more(, a whole number)?$"
    with pytest.raises(ConfigError, match=text):
        retry_backoff(ManualPublisher[int](), value)


def test_without_a_scheduler_there_is_no_time() -> None:
    probe = ProbeSubscriber[int](1)
    retry_backoff(ManualPublisher[int](), 1).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert str(probe.error).startswith("retry_backoff needs a scheduler and found none")


def waits(count: int, **options: Any) -> list[float]:  # noqa: ANN401 - they are the operator's
    """Return the waits between `count` + 1 tries of a source that always fails."""
    times: list[float] = []
    with VirtualScheduler() as scheduler:

        def make() -> Publisher[int]:
            times.append(scheduler.now())
            return fail(LookupError())

        retry_backoff(defer(make), count, **options).subscribe(ProbeSubscriber[int](1))
        scheduler.advance(1e6)
    assert len(times) == count + 1
    return [after - before for before, after in pairwise(times)]


def test_jitter_keeps_its_bounds_and_is_the_same_for_the_same_chance() -> None:
    found = waits(400, first_s=4.0, max_s=5.0, factor=1.0, jitter=0.5)

    assert all(2.0 <= round(wait, 6) <= 5.0 for wait in found)
    assert min(found) < 2.2
    assert 5.0 in [round(wait, 6) for wait in found]  # never longer than `max_s`
    assert found == waits(400, first_s=4.0, max_s=5.0, factor=1.0, jitter=0.5)


def test_all_of_a_wait_may_be_left_to_chance() -> None:
    found = waits(400, first_s=4.0, max_s=100.0, factor=1.0, jitter=1)

    assert all(0 <= round(wait, 6) <= 8.0 for wait in found)
    assert min(found) < 0.2
    assert max(found) > 7.8


@pytest.mark.parametrize("factor", [2, 2.0, 1e300])
def test_any_number_of_tries_does_not_overflow(factor: float) -> None:
    found = waits(3_000, first_s=1, max_s=2, factor=factor, jitter=0)

    assert [round(wait, 6) for wait in found] == [1.0, *[2.0] * 2_999]


def test_no_wait_stays_no_wait_whatever_it_grows_by() -> None:
    assert set(waits(3_000, first_s=0.0, factor=2.0)) == {0.0}


def test_a_second_error_of_a_source_that_breaks_the_rules_is_no_second_try() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        retry_backoff(source, 9, first_s=1.0, jitter=0).subscribe(probe)
        source.error(ValueError())
        source.error(ValueError())
        source.complete()
        source._subscribed().on_next(1)
        assert probe.signals == ["on_subscribe"]
        assert scheduler.timers == 1
        scheduler.advance(1.0)
        assert source.subscriptions == 2
        source.error(ValueError())
        scheduler.advance(1.9)
        assert source.subscriptions == 2
        scheduler.advance(0.2)

        assert source.subscriptions == 3


def test_what_is_requested_during_a_wait_is_asked_behind_it() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
        retry_backoff(source, 9, first_s=1.0, jitter=0).subscribe(probe)
        source.next(1)
        source.error(ValueError())
        probe.request(3)
        assert source.requests == [2]
        scheduler.advance(1.0)

    assert source.requests == [2, 4]


def test_the_error_behind_the_last_try_passes_and_predicates_are_asked() -> None:
    with VirtualScheduler() as scheduler:
        source, probe, seen = ManualPublisher[int](), ProbeSubscriber[int](1), list[Exception]()

        def predicate(error: Exception) -> bool:
            seen.append(error)
            return True

        retry_backoff(source, 1, predicate=predicate).subscribe(probe)
        first, second = ValueError(), ValueError()
        source.error(first)
        scheduler.advance(1.0)
        source.error(second)

    assert probe.error is second
    assert seen == [first]


@pytest.mark.parametrize("raises", [True, False])
def test_a_predicate_that_raises_or_says_no_ends_the_stream(*, raises: bool) -> None:
    with VirtualScheduler() as scheduler:
        source, probe, raised = ManualPublisher[int](), ProbeSubscriber[int](1), ZeroDivisionError()

        def predicate(_: Exception) -> bool:
            if raises:
                raise raised
            return False

        retry_backoff(source, 1, predicate=predicate).subscribe(probe)
        error = ValueError()
        source.error(error)

    assert probe.error is (raised if raises else error)
    assert scheduler.timers == 0
