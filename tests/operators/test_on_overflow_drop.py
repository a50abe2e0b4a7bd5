import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.on_overflow_drop import on_overflow_drop
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, OperatorContract


class TestOnOverflowDrop(OperatorContract):
    build = staticmethod(on_overflow_drop)
    model = staticmethod(lambda items: items)
    slowly = staticmethod(lambda items: items[:1])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))

    @pytest.mark.parametrize("step", [1, 2, 3])
    def test_items_come_as_requested_and_no_more(self, step: int) -> None:
        """The source does not wait: what is not requested at once is gone."""
        probe, dropped = ProbeSubscriber[int](step), list[int]()

        on_overflow_drop(from_iterable(ITEMS), dropped.append).subscribe(probe)

        assert probe.items == ITEMS[:step]
        assert dropped == ITEMS[step:]
        assert probe.completed


def test_what_nobody_asked_for_is_dropped_and_done() -> None:
    source, probe, dropped = ManualPublisher[int](), ProbeSubscriber[int](1, hold=True), list[int]()
    on_overflow_drop(source, dropped.append).subscribe(probe)

    source.next(1, 2, 3)
    probe.request(1)
    source.next(4, 5)

    assert probe.items == [1, 4]
    assert dropped == [2, 3, 5]
    assert source.outcomes == [None, "done", "done", None, "done"]


def test_it_may_be_dropped_in_silence() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_overflow_drop(source).subscribe(probe)

    source.next(1, 2, 3)

    assert source.outcomes == ["done", "done", "done"]
    assert source.requests == [UNBOUNDED]


def test_what_on_drop_raises_ends_the_stream() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    error = ZeroDivisionError("by the user")

    def fail(_item: int) -> None:
        raise error

    on_overflow_drop(source, fail).subscribe(probe)
    source.next(1, 2)

    assert probe.error is error
    assert source.cancelled
    assert source.outcomes == ["done", "failed"]
    assert source.errors == [None, error]


def test_on_drop_may_request_and_cancel() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_overflow_drop(source, lambda item: probe.request(1) if item == 2 else probe.cancel()).subscribe(probe)

    source.next(1, 2, 3, 4, 5)

    assert probe.items == [1, 3]
    assert source.cancelled
    assert probe.signals == ["on_subscribe", "on_next", "on_next"]
