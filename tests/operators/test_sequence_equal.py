import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.concat import concat
from rstreams.operators.sequence_equal import sequence_equal
from rstreams.sources.empty import empty
from rstreams.sources.fail import fail
from rstreams.sources.from_iterable import from_iterable
from rstreams.sources.never import never
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, OperatorContract


class TestSequenceEqual(OperatorContract):
    build = staticmethod(lambda source: sequence_equal(source, from_iterable(ITEMS)))
    model = staticmethod(lambda items: [list(items) == ITEMS])
    requests = ((1, [32]), (5, [32]), (UNBOUNDED, [32]))
    forwards_holds = False

    def test_an_error_of_the_source_needs_no_demand(self) -> None:
        """It does: an error is compared like an item, in its place, and nothing is before the first request."""
        source, probe = self.subscribe(0)
        error = ValueError("first")
        source.error(error)
        assert probe.signals == ["on_subscribe"]

        probe.request(1)

        assert probe.error is error


@pytest.mark.parametrize(
    ("one", "other"), [([], []), ([1, 2], [1, 2]), ([1], [1, 2]), ([1, 2], [1]), ([1, 2], [1, 3]), ([], [1])]
)
def test_items_order_and_number_count(one: list[int], other: list[int]) -> None:
    probe = ProbeSubscriber[bool](1)
    sequence_equal(from_iterable(one), from_iterable(other)).subscribe(probe)
    assert probe.items == [one == other]
    assert probe.completed


def _subscribed(prefetch: int = 32) -> tuple[ManualPublisher[int], ManualPublisher[int], ProbeSubscriber[bool]]:
    one, other, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[bool](1)
    sequence_equal(one, other, prefetch=prefetch).subscribe(probe)
    return one, other, probe


def test_no_more_is_asked_for_than_can_be_kept() -> None:
    one, other, _ = _subscribed(prefetch=4)
    assert (one.requests, other.requests) == ([4], [4])
    one.next(1, 2, 3, 4)
    assert one.requested == 4
    assert one.outcomes == [None] * 4
    other.next(1)
    other.next(2, 3, 4)
    assert (one.requests, one.outcomes) == ([4, 3], [None] * 4)


def test_what_was_compared_is_done_with_the_result() -> None:
    one, other, probe = _subscribed()
    one.next(1)
    other.next(1)
    assert (one.outcomes, other.outcomes) == ([None], [None])
    one.complete()
    other.complete()
    assert (probe.items, one.outcomes, other.outcomes) == ([True], ["done"], ["done"])


def test_both_are_cancelled_as_soon_as_they_differ() -> None:
    one, other, probe = _subscribed()
    one.next(1, 2)
    other.next(7)
    assert (probe.items, probe.completed) == ([False], True)
    assert (one.cancelled, other.cancelled) == (True, True)
    assert None not in one.outcomes


def test_a_cancel_gives_back_what_is_kept() -> None:
    one, other, probe = _subscribed()
    one.next(1)
    probe.cancel()
    assert (one.cancelled, other.cancelled) == (True, True)
    assert one.outcomes == ["released"]


def test_an_error_of_either() -> None:
    error = LookupError()
    for one, other in ((concat(of(1), fail(error)), of(1, 2)), (of(1, 2), concat(of(1), fail(error)))):
        probe = ProbeSubscriber[bool](1)
        sequence_equal(one, other).subscribe(probe)
        assert probe.error is error


def test_bad_options() -> None:
    with pytest.raises(ConfigError, match=r"sequence_equal\(prefetch=0\): prefetch must be 1 or more items"):
        sequence_equal(empty(), empty(), prefetch=0)
    with pytest.raises(TypeError, match=r"sequence_equal\(other\): other must be a Publisher, not 7"):
        sequence_equal(never(), 7)  # type: ignore[arg-type]
