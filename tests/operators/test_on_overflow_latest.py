import logging

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.on_overflow_latest import on_overflow_latest
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, OperatorContract


class TestOnOverflowLatest(OperatorContract):
    build = staticmethod(on_overflow_latest)
    model = staticmethod(lambda items: items)
    slowly = staticmethod(lambda items: [items[0], items[-1]])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))

    @pytest.mark.parametrize("step", [1, 2, 3])
    def test_items_come_as_requested_and_no_more(self, step: int) -> None:
        """The source does not wait: of what is not requested at once the last is left."""
        probe, dropped = ProbeSubscriber[int](step), list[int]()

        on_overflow_latest(from_iterable(ITEMS), dropped.append).subscribe(probe)
        assert probe.items == ITEMS[:step]
        assert not probe.completed
        probe.request(1)

        assert probe.items == [*ITEMS[:step], ITEMS[-1]]
        assert dropped == ITEMS[step:-1]
        assert probe.completed


def test_the_latest_waits_and_is_held() -> None:
    source, probe, dropped = ManualPublisher[int](), ProbeSubscriber[int](1, hold=True), list[int]()
    on_overflow_latest(source, dropped.append).subscribe(probe)

    source.next(1, 2, 3, 4)
    assert source.outcomes == [None, "done", "done", None]
    probe.request(2)
    source.next(5)

    assert probe.items == [1, 4, 5]
    assert dropped == [2, 3]
    probe.holds[1].release()
    assert source.outcomes == [None, "done", "done", "released", None]


def test_what_waits_is_given_back_on_a_cancel() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_overflow_latest(source).subscribe(probe)
    source.next(1, 2, 3)

    probe.cancel()

    assert source.outcomes == ["done", "done", "released"]


def test_what_on_drop_raises_ends_the_stream_and_fails_the_item_dropped() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    error = ZeroDivisionError("by the user")

    def fail(_item: int) -> None:
        raise error

    on_overflow_latest(source, fail).subscribe(probe)
    source.next(1, 2, 3)

    assert probe.error is error
    assert source.cancelled
    assert source.outcomes == ["done", "failed", "released"]


def test_on_drop_may_cancel_and_what_it_raises_then_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)

    def cancel(_item: int) -> None:
        probe.cancel()
        raise ArithmeticError

    on_overflow_latest(source, cancel).subscribe(probe)
    with caplog.at_level(logging.ERROR, "rstreams"):
        source.next(1, 2, 3)

    assert probe.signals == ["on_subscribe", "on_next"]
    assert source.outcomes == ["done", "failed", "released"]
    assert "on_drop failed, after its subscription had ended" in caplog.text


def test_on_drop_may_request_which_lets_the_newer_one_through() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_overflow_latest(source, lambda _: probe.request(1)).subscribe(probe)

    source.next(1, 2, 3)

    assert probe.items == [1, 3]
