from typing import Any, Literal

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams._core.sight import Counts, Scannable
from rstreams.errors import BufferOverflow, ConfigError
from rstreams.operators.on_overflow_buffer import on_overflow_buffer
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestOnOverflowBuffer(OperatorContract):
    build = staticmethod(lambda source: on_overflow_buffer(source, 7))
    model = staticmethod(lambda items: items)
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))


def subscribed(**options: Any) -> tuple[ManualPublisher[int], ProbeSubscriber[int]]:  # noqa: ANN401
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_overflow_buffer(source, 2, **options).subscribe(probe)
    return source, probe


@pytest.mark.parametrize("size", [0, -1, 1.5, "3", True, None])
def test_a_wrong_size_is_named(size: int) -> None:
    with pytest.raises(ConfigError, match=rf"on_overflow_buffer\(size={size!r}\): size must be 1 or more items"):
        on_overflow_buffer(ManualPublisher[int](), size)


def test_a_wrong_strategy_is_named_with_what_is_allowed() -> None:
    text = r"on_overflow_buffer\(strategy='wait'\): strategy must be 'error', 'drop_oldest' or 'drop_newest'"
    with pytest.raises(ConfigError, match=text):
        on_overflow_buffer(ManualPublisher[int](), 1, strategy="wait")  # type: ignore[arg-type]


def test_on_drop_is_of_no_use_where_nothing_is_dropped() -> None:
    with pytest.raises(ConfigError, match="nothing is dropped by this strategy"):
        on_overflow_buffer(ManualPublisher[int](), 1, on_drop=print)


def test_one_too_many_is_an_error_at_once_and_all_that_wait_are_given_back() -> None:
    source, probe = subscribed()

    source.next(1, 2, 3)
    assert source.outcomes == ["done", None, None]
    source.next(4)

    assert isinstance(probe.error, BufferOverflow)
    assert str(probe.error) == "on_overflow_buffer(size=2): 2 items wait for demand, and one more came"
    assert probe.items == [1]
    assert source.outcomes == ["done", "released", "released", "released"]
    assert source.cancelled


@pytest.mark.parametrize(
    ("strategy", "delivered", "dropped"),
    [("drop_oldest", [1, 4, 5], [2, 3]), ("drop_newest", [1, 2, 3], [4, 5])],
)
def test_one_too_many_drops_one(
    strategy: Literal["drop_oldest", "drop_newest"], delivered: list[int], dropped: list[int]
) -> None:
    told: list[int] = []
    source, probe = subscribed(strategy=strategy, on_drop=told.append)

    source.next(1, 2, 3, 4, 5)
    source.complete()
    assert [outcome is None for outcome in source.outcomes] == [n in delivered[1:] for n in range(1, 6)]
    probe.request(1)
    assert not probe.completed
    probe.request(1)

    assert probe.items == delivered
    assert told == dropped
    assert probe.completed
    assert source.outcomes == ["done"] * 5
    assert source.requests == [UNBOUNDED]


@pytest.mark.parametrize(
    ("strategy", "outcomes"),
    [
        ("drop_oldest", ["done", "failed", "released", "released"]),
        ("drop_newest", ["done", "released", "released", "failed"]),
    ],
)
def test_what_on_drop_raises_ends_the_stream(strategy: str, outcomes: list[str]) -> None:
    error = ZeroDivisionError("by the user")

    def fail(_item: int) -> None:
        raise error

    source, probe = subscribed(strategy=strategy, on_drop=fail)
    source.next(1, 2, 3, 4)

    assert probe.error is error
    assert source.cancelled
    assert source.outcomes == outcomes


def test_it_does_not_wait_for_one_who_pauses_below() -> None:
    suspended: list[str] = []

    class Suspendable(ManualPublisher[int]):
        def suspend(self) -> None:
            suspended.append("suspend")

        def resume(self) -> None:
            suspended.append("resume")

    source, probe = Suspendable(), ProbeSubscriber[int](1)
    on_overflow_buffer(source, 2).subscribe(probe)

    probe.subscription.suspend()  # type: ignore[union-attr]
    probe.subscription.resume()  # type: ignore[union-attr]

    assert suspended == []


@pytest.mark.parametrize("strategy", ["drop_oldest", "drop_newest"])
def test_what_waits_is_counted_and_what_was_dropped_is_not(strategy: Literal["drop_oldest", "drop_newest"]) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](3)
    on_overflow_buffer(source, 2, strategy=strategy).subscribe(probe)
    assert isinstance(probe.subscription, Scannable)

    source.next(1, 2)
    assert probe.subscription.counts() == Counts(3, 2, 0)
    source.next(3, 4, 5, 6, 7)
    assert probe.subscription.counts() == Counts(3, 3, 2)
    probe.request(5)
    assert probe.subscription.counts() == Counts(8, 5, 0)
