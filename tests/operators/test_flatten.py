from collections.abc import Iterable, Iterator

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.flatten import flatten
from rstreams.operators.map import map as map_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestFlatten(OperatorContract):
    holds_what_it_keeps = False  # the outer items are held whose streams are running
    build = staticmethod(lambda source: flatten(map_(source, lambda x: [x, x])))
    model = staticmethod(lambda items: [x for x in items for _ in range(2)])
    requests = ((1, [1]), (5, [1]), (UNBOUNDED, [1]))


def _subscribed(request: int) -> tuple[ManualPublisher[Iterable[int]], ProbeSubscriber[int]]:
    source, probe = ManualPublisher[Iterable[int]](), ProbeSubscriber[int](request)
    flatten(source).subscribe(probe)
    return source, probe


def test_an_iterable_without_end_is_drawn_from_as_requested() -> None:
    drawn: list[int] = []

    def numbers() -> Iterator[int]:
        while True:
            drawn.append(len(drawn))
            yield drawn[-1]

    source, probe = _subscribed(2)
    source.next(numbers())
    assert probe.items == drawn == [0, 1]
    assert source.outcomes == [None]
    probe.request(1)
    assert probe.items == drawn == [0, 1, 2]
    probe.cancel()
    assert source.outcomes == ["released"]


def test_an_iterable_is_done_when_its_items_are() -> None:
    source, probe = _subscribed(2)
    source.next([1, 2])
    probe.request(1)
    assert probe.items == [1, 2]
    assert source.outcomes == ["done"]
    assert source.requests == [1, 1]


def test_what_cannot_be_iterated_over_ends_the_stream() -> None:
    source, probe = _subscribed(1)
    source.next(7)  # type: ignore[arg-type]
    assert isinstance(probe.error, TypeError)
    assert source.cancelled
    assert source.outcomes == ["failed"]


def test_what_an_iteration_raises_ends_the_stream() -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise LookupError

    source, probe = _subscribed(5)
    source.next(fail())
    assert probe.items == [1]
    assert isinstance(probe.error, LookupError)
    assert source.outcomes == ["failed"]
