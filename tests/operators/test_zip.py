import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.zip import zip as zip_
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.of import of
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestZip(OperatorContract):
    build = staticmethod(lambda source: zip_(source, range_(100_000)))
    model = staticmethod(lambda items: [(x, i) for i, x in enumerate(items)])
    requests = ((1, [32]), (5, [32]), (UNBOUNDED, [32]))


def _zipped(
    request: int, *, hold: bool = False, prefetch: int = 32
) -> tuple[ManualPublisher[int], ManualPublisher[str], ProbeSubscriber[tuple[int, str]]]:
    one, two = ManualPublisher[int](), ManualPublisher[str]()
    probe = ProbeSubscriber[tuple[int, str]](request, hold=hold)
    zip_(one, two, prefetch=prefetch).subscribe(probe)
    return one, two, probe


def test_unmatched_items_are_given_back_when_another_source_is_through() -> None:
    one, two, probe = _zipped(UNBOUNDED)
    one.next(1, 2, 3)
    two.next("a")
    assert probe.items == [(1, "a")]

    two.complete()

    assert probe.signals[-1] == "on_complete"
    assert one.cancelled
    assert not two.cancelled  # 2.3
    assert one.outcomes == ["done", "released", "released"]
    assert two.outcomes == ["done"]


def test_a_source_that_is_complete_is_waited_for_until_its_items_are_through() -> None:
    one, two, probe = _zipped(UNBOUNDED)
    one.next(1)
    one.complete()
    assert not probe.completed

    two.next("a")

    assert probe.items == [(1, "a")]
    assert probe.completed
    assert two.cancelled


def test_no_more_than_the_prefetch_is_kept() -> None:
    one, two, _ = _zipped(UNBOUNDED, prefetch=4)
    one.next(1, 2, 3, 4)
    assert one.outstanding == 0
    two.next("a", "b", "c")

    assert one.requests == [4, 3]
    assert two.requests == [4, 3]


def test_tuples_wait_for_demand_and_share_their_outcome() -> None:
    one, two, probe = _zipped(1, hold=True)
    one.next(1, 2)
    two.next("a", "b")
    assert probe.items == [(1, "a")]
    error = ValueError()

    probe.holds[0].fail(error)
    probe.cancel()

    assert one.outcomes == two.outcomes == ["failed", "released"]
    assert one.errors[0] is two.errors[0] is error
    assert two.cancelled


def test_plain_iterators_are_drawn_as_requested_and_no_further() -> None:
    drawn: list[int] = []
    probe = ProbeSubscriber[tuple[int, int]](2)

    zip_(from_iterable(drawn.append(x) or x for x in range(9)), range_(9)).subscribe(probe)  # type: ignore[func-returns-value]

    assert probe.items == [(0, 0), (1, 1)]
    assert drawn == [0, 1]


def test_an_iterator_that_fails_ends_the_stream() -> None:
    probe = ProbeSubscriber[tuple[int, int]](UNBOUNDED)

    zip_(from_iterable(1 // (2 - x) for x in range(9)), range_(9)).subscribe(probe)

    assert probe.items == [(0, 0), (1, 1)]
    assert isinstance(probe.error, ZeroDivisionError)


def test_two_ranges_complete_right_behind_the_last_tuple() -> None:
    probe = ProbeSubscriber[tuple[int, int]](3)

    zip_(range_(3), range_(5)).subscribe(probe)

    assert probe.items == [(0, 0), (1, 1), (2, 2)]
    assert probe.completed


def test_nothing_and_what_is_no_publisher() -> None:
    probe = ProbeSubscriber[object]()
    zip_().subscribe(probe)
    assert probe.signals == ["on_subscribe", "on_complete"]
    with pytest.raises(TypeError, match=r"zip\(\*sources\): source 1 must be a Publisher, not 3"):
        zip_(of(1), 3)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"zip\(prefetch=0\): prefetch must be 1 or more items"):
        zip_(of(1), prefetch=0)
