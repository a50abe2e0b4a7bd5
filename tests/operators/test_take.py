import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.take import take
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestTake(OperatorContract):
    build = staticmethod(lambda source: take(source, 3))
    model = staticmethod(lambda items: items[:3])
    requests = ((1, [1]), (3, [3]), (5, [3]), (UNBOUNDED, [3]))


@pytest.mark.parametrize("count", [-1, 1.5, "3", True, None])
def test_a_wrong_count_is_named(count: int) -> None:
    with pytest.raises(ConfigError, match=rf"take\(count={count!r}\): count must be 0 or more items"):
        take(ManualPublisher[int](), count)


def test_nothing_taken_is_nothing_requested() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](5)

    take(source, 0).subscribe(probe)

    assert probe.signals == ["on_subscribe", "on_complete"]
    assert source.requests == []
    assert source.cancelled


def test_never_more_than_count_are_requested_in_all() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    take(source, 5).subscribe(probe)

    for n in (2, 2, 2, 2):
        probe.request(n)

    assert source.requests == [2, 2, 1]


def test_ends_right_behind_the_last_item_which_is_handled_before_the_source_is_cancelled() -> None:
    source = ManualPublisher[int]()
    cancelled: list[bool] = []
    probe = ProbeSubscriber[int](2, on_item=lambda _: cancelled.append(source.cancelled))
    take(source, 2).subscribe(probe)

    source.next(1, 2)

    assert probe.signals == ["on_subscribe", "on_next", "on_next", "on_complete"]
    assert cancelled == [False, False]
    assert source.cancelled


def test_cancel_in_the_last_item_leaves_out_the_completion() -> None:
    source = ManualPublisher[int]()
    probe = ProbeSubscriber[int](2, on_item=lambda _: probe.cancel())
    take(source, 1).subscribe(probe)

    source.next(1)

    assert probe.signals == ["on_subscribe", "on_next"]
