import pytest

from rstreams._core.demand import SLICE, UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.limit_rate import limit_rate
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.contract import OperatorContract


class TestLimitRate(OperatorContract):
    build = staticmethod(lambda source: limit_rate(source, 4))
    model = staticmethod(lambda items: items)
    requests = ((1, [4]), (3, [4]), (10, [4]), (UNBOUNDED, [4]))


class TestLimitRateOne(OperatorContract):
    build = staticmethod(lambda source: limit_rate(source, 1))
    model = staticmethod(lambda items: items)
    requests = ((1, [1]), (UNBOUNDED, [1]))


def subscribed(
    high: int, low: int | None = None, request: int = 0, *, hold: bool = False
) -> tuple[ManualPublisher[int], ProbeSubscriber[int]]:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](request, hold=hold)
    limit_rate(source, high, low).subscribe(probe)
    return source, probe


@pytest.mark.parametrize("high", [0, -1, 1.5, "3", True, None])
def test_a_wrong_high_is_named(high: int) -> None:
    with pytest.raises(ConfigError, match=rf"limit_rate\(high={high!r}\): high must be 1 or more items"):
        limit_rate(ManualPublisher[int](), high)


@pytest.mark.parametrize("low", [-1, 4, 5, 1.5, "3", True])
def test_a_wrong_low_is_named_with_what_is_allowed(low: int) -> None:
    with pytest.raises(ConfigError, match=rf"limit_rate\(low={low!r}\): low must be 0 to 3 items, fewer than high=4"):
        limit_rate(ManualPublisher[int](), 4, low)


@pytest.mark.parametrize(
    ("low", "requests"),
    [(0, [4, 4, 4]), (1, [4, 3, 3, 3]), (3, [4, 1, 1, 1, 1, 1, 1, 1, 1]), (None, [4, 3, 3, 3])],
)
def test_more_is_asked_for_when_low_items_are_left(low: int | None, requests: list[int]) -> None:
    source, probe = subscribed(4, low, UNBOUNDED)

    for item in range(8 if low == 3 else 9):
        source.next(item)

    assert source.requests == requests
    assert probe.items == list(range(8 if low == 3 else 9))


def test_what_comes_before_it_is_requested_waits_and_is_not_asked_for_again() -> None:
    source, probe = subscribed(4, 1, 1)

    source.next(1, 2, 3, 4)

    assert probe.items == [1]
    assert source.outstanding == 0
    probe.request(1)
    assert source.requests == [4]
    probe.request(1)
    assert probe.items == [1, 2, 3]
    assert source.requests == [4, 3]
    source.next(5, 6, 7)
    assert source.outstanding == 0
    probe.request(UNBOUNDED)
    assert probe.items == [1, 2, 3, 4, 5, 6, 7]


def test_items_that_wait_are_held() -> None:
    source, probe = subscribed(4, 1, 1, hold=True)

    source.next(1, 2, 3)
    assert source.outcomes == [None, None, None]
    probe.request(1)
    probe.holds[0].done()
    probe.holds[1].release()
    assert source.outcomes == ["done", "released", None]
    probe.cancel()

    assert source.outcomes == ["done", "released", "released"]


def test_completion_comes_behind_what_waits() -> None:
    source, probe = subscribed(4, 1, 1)
    source.next(1, 2, 3)

    source.complete()
    assert not probe.completed
    probe.request(2)

    assert probe.signals == ["on_subscribe", *["on_next"] * 3, "on_complete"]
    assert source.requests == [4]


def test_an_error_comes_behind_what_waits() -> None:
    source, probe = subscribed(4, 1, 1)
    source.next(1, 2, 3)
    error = ValueError("midway")

    source.error(error)
    assert not probe.ended
    probe.request(2)

    assert probe.error is error
    assert probe.items == [1, 2, 3]
    assert source.outcomes == ["done", "done", "done"]


def test_a_subscriber_that_raises_at_what_waited_counts_as_having_cancelled() -> None:
    source, probe = subscribed(4, 1, 1)
    source.next(1, 2, 3)
    error = ArithmeticError("by the subscriber")

    def on_item(_item: int) -> None:
        raise error

    probe.on_item = on_item
    with pytest.raises(ArithmeticError):
        probe.request(UNBOUNDED)

    assert source.cancelled
    assert source.outcomes == ["done", "failed", "released"]


def test_what_waited_goes_out_in_turns_and_in_order() -> None:
    many = 3 * SLICE
    with VirtualScheduler() as scheduler:
        source, probe = subscribed(2 * many, 0, 1)
        source.next(*range(many + 1))

        probe.request(UNBOUNDED)
        assert len(probe.items) == 1 + SLICE
        source.next(many + 1)
        source.complete()
        assert len(probe.items) == 1 + SLICE, "no item overtakes those that wait"
        scheduler.run()

        assert probe.items == list(range(many + 2))
        assert probe.completed
        assert scheduler.timers == 0


def test_a_cancel_between_two_turns_ends_it() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = subscribed(5 * SLICE, 0, 1)
        source.next(*range(3 * SLICE))
        probe.request(UNBOUNDED)

        probe.cancel()

        assert scheduler.timers == 0
        assert None not in source.outcomes
        scheduler.run()
        assert len(probe.items) == 1 + SLICE


def test_slow_items_leave_time_to_others() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = subscribed(100, 0, 1)
        source.next(*range(50))
        probe.on_item = lambda _: setattr(scheduler, "_now", scheduler.now() + 1.0)

        probe.request(UNBOUNDED)

        assert len(probe.items) == 2
        scheduler.advance(100.0)
        assert len(probe.items) == 50
