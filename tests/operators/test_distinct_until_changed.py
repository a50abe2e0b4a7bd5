from itertools import groupby

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.distinct_until_changed import distinct_until_changed
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


class TestDistinctUntilChanged(FunctionContract):
    build = staticmethod(distinct_until_changed)
    model = staticmethod(lambda items: [x for x, _ in groupby(items)])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: distinct_until_changed(source, lambda _: function()))


def test_an_item_like_the_one_before_is_asked_for_again_and_done() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](3)
    distinct_until_changed(source).subscribe(probe)
    source.next(1, 1, 2, 2, 1)
    assert probe.items == [1, 2, 1]
    assert source.requests == [3, 1, 1]
    assert source.outcomes == ["done"] * 5


def test_keys_tell_items_apart() -> None:
    source, probe = ManualPublisher[str](), ProbeSubscriber[str](UNBOUNDED)
    distinct_until_changed(source, str.lower).subscribe(probe)
    source.next("tea", "Tea", "milk", "tea")
    assert probe.items == ["tea", "milk", "tea"]


def test_a_comparison_that_fails_ends_the_stream() -> None:
    class Odd:
        __hash__ = None

        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError

    source, probe = ManualPublisher[Odd](), ProbeSubscriber[Odd](UNBOUNDED)
    distinct_until_changed(source).subscribe(probe)
    source.next(Odd(), Odd())
    assert isinstance(probe.error, ZeroDivisionError)
    assert source.outcomes == ["done", "failed"]


def test_none_is_an_item() -> None:
    source, probe = ManualPublisher[None](), ProbeSubscriber[None](UNBOUNDED)
    distinct_until_changed(source).subscribe(probe)
    source.next(None, None)
    assert probe.items == [None]


def test_a_comparison_that_is_neither_true_nor_false_ends_the_stream() -> None:
    class Ambiguous:
        def __bool__(self) -> bool:
            raise ValueError

        def __ne__(self, other: object) -> object:  # type: ignore[override]
            return self

        __hash__ = None

    source, probe = ManualPublisher[Ambiguous](), ProbeSubscriber[Ambiguous](UNBOUNDED)
    distinct_until_changed(source).subscribe(probe)
    source.next(Ambiguous(), Ambiguous())
    assert isinstance(probe.error, ValueError)
    assert source.cancelled
    assert source.outcomes == ["done", "failed"]
