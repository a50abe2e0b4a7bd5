import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscription
from rstreams.errors import ConfigError
from rstreams.operators.buffer_boundary import buffer_boundary
from rstreams.sources.fail import fail
from rstreams.sources.never import never
from rstreams.sources.of import of
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestBufferBoundary(OperatorContract):
    build = staticmethod(lambda source: buffer_boundary(source, never(), max_items=20_000))
    model = staticmethod(lambda items: [list(items)] if items else [])
    requests = ((1, [20_000]), (5, [20_000]), (UNBOUNDED, [20_000]))


def _played(
    request: int = UNBOUNDED, max_items: int = 10
) -> tuple[ManualPublisher[int], ManualPublisher[str], ProbeSubscriber[list[int]]]:
    source, boundary, probe = ManualPublisher[int](), ManualPublisher[str](), ProbeSubscriber[list[int]](request)
    buffer_boundary(source, boundary, max_items=max_items).subscribe(probe)
    return source, boundary, probe


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match=r"buffer_boundary\(max_items=0\): max_items must be 1 or more items"):
        buffer_boundary(range_(1), never(), max_items=0)
    with pytest.raises(TypeError, match=r"buffer_boundary\(boundary\): boundary must be a Publisher, not 3"):
        buffer_boundary(range_(1), 3)  # type: ignore[arg-type]


def test_each_boundary_ends_a_list() -> None:
    source, boundary, probe = _played()
    assert boundary.requested == UNBOUNDED
    source.next(1, 2)
    boundary.next("x", "x")
    source.next(3)
    source.complete()

    assert probe.items == [[1, 2], [], [3]]
    assert probe.completed
    assert boundary.cancelled


def test_boundaries_without_demand_count_as_one() -> None:
    source, boundary, probe = _played(1)
    boundary.next("x")
    source.next(1)
    boundary.next("x", "x")
    source.next(2)
    assert probe.items == [[]]

    probe.request(2)

    assert probe.items == [[], [1, 2]]


def test_a_full_list_waits_for_its_boundary_and_the_source_with_it() -> None:
    source, boundary, probe = _played(max_items=2)
    source.next(1, 2)
    assert source.outstanding == 0

    boundary.next("x")

    assert probe.items == [[1, 2]]
    assert source.outstanding == 2


def test_the_boundary_is_not_subscribed_to_before_the_first_request() -> None:
    _, boundary, probe = _played(0)
    assert boundary.subscriptions == 0

    probe.request(1)

    assert boundary.subscriptions == 1


@pytest.mark.parametrize("request_", [1, UNBOUNDED])
def test_the_stream_ends_with_its_boundaries_after_the_open_list(request_: int) -> None:
    source, boundary, probe = _played(request_)
    source.next(1)

    boundary.complete()

    assert probe.items == [[1]]
    assert probe.completed
    assert source.cancelled
    assert not boundary.cancelled
    assert source.outcomes == ["done"]


def test_boundaries_that_are_there_at_once() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]]()
    buffer_boundary(source, of("x", "x")).subscribe(probe)
    probe.request(UNBOUNDED)

    assert probe.items == [[], []]
    assert probe.completed
    assert source.cancelled


def test_boundaries_that_fail_fail_the_stream() -> None:
    source, boundary, probe = _played()
    error = ValueError()
    source.next(1)

    boundary.error(error)

    assert probe.error is error
    assert source.cancelled
    assert source.outcomes == ["released"]


def test_cancel_reaches_the_boundaries() -> None:
    source, boundary, probe = _played()

    probe.cancel()
    boundary.next("late")

    assert boundary.cancelled
    assert source.cancelled
    assert probe.items == []


def test_boundaries_that_fail_at_once_come_after_on_subscribe() -> None:
    told: list[list[str]] = []

    class Reader(ProbeSubscriber[list[int]]):
        def on_subscribe(self, subscription: Subscription) -> None:
            super().on_subscribe(subscription)
            told.append(list(self.signals))

    probe = Reader(UNBOUNDED)
    buffer_boundary(ManualPublisher[int](), fail(LookupError())).subscribe(probe)

    assert told == [["on_subscribe"]]
    assert probe.signals == ["on_subscribe", "on_error"]


def test_boundaries_that_fail_while_a_list_is_emitted_wait_until_that_is_through() -> None:
    source, boundary, probe = _played()
    error = LookupError()

    def on_item(_item: list[int]) -> None:
        boundary.error(error)
        assert not probe.ended

    probe.on_item = on_item
    source.next(1)
    boundary.next("x")

    assert probe.items == [[1]]
    assert probe.error is error
    assert source.cancelled
