import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import BufferOverflow
from rstreams.operators.on_overflow_error import on_overflow_error
from rstreams.sources.from_iterable import from_iterable
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, OperatorContract
from tests.operators.paced import Quick


class TestOnOverflowError(OperatorContract):
    build = staticmethod(on_overflow_error)
    model = staticmethod(lambda items: items)
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))

    @pytest.mark.parametrize("step", [1, 2, 3])
    def test_items_come_as_requested_and_no_more(self, step: int) -> None:
        """The source does not wait, so what is not requested at once is one too many."""
        probe = ProbeSubscriber[int](step)

        on_overflow_error(from_iterable(ITEMS)).subscribe(probe)

        assert probe.items == ITEMS[:step]
        assert isinstance(probe.error, BufferOverflow)

    def test_a_quick_source_and_a_slow_subscriber(self) -> None:
        source, probe = Quick(ITEMS), ProbeSubscriber[int](1)

        on_overflow_error(source).subscribe(probe)

        assert probe.items == ITEMS[:1]
        assert isinstance(probe.error, BufferOverflow)
        assert source.outcomes == ["done", "released"]


def test_the_item_nobody_asked_for_is_given_back_and_the_source_cancelled() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](2)
    on_overflow_error(source).subscribe(probe)

    source.next(1, 2, 3)

    assert isinstance(probe.error, BufferOverflow)
    assert str(probe.error) == "on_overflow_error: an item came that nobody had asked for"
    assert source.cancelled
    assert source.outcomes == ["done", "done", "released"]


def test_the_source_is_asked_once() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_overflow_error(source).subscribe(probe)

    probe.request(1)
    source.next(1, 2)
    probe.request(1)
    source.next(3)

    assert source.requests == [UNBOUNDED]
    assert probe.items == [1, 2, 3]
