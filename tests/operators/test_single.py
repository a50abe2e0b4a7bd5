from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError, NoItem, TooManyItems
from rstreams.operators.filter import filter as filter_
from rstreams.operators.single import single
from rstreams.sources.empty import empty
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.folding_contract import FoundLastContract


class TestSingle(FoundLastContract):
    """Of a stream of several only the first is let through to it, that there is one."""

    build = staticmethod(lambda source: single(filter_(source, lambda x: x == 1)))
    model = staticmethod(lambda _items: [1])
    requests = ((1, [2]), (5, [2]), (UNBOUNDED, [2]))


def _subscribed(request: int = 1) -> tuple[ManualPublisher[int], ProbeSubscriber[int]]:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](request)
    single(source).subscribe(probe)
    return source, probe


def test_the_item_waits_for_the_end() -> None:
    source, probe = _subscribed(UNBOUNDED)
    assert source.requests == [2]
    source.next(1)
    assert (probe.items, source.outcomes) == ([], [None])
    source.complete()
    assert (probe.items, probe.completed) == ([1], True)
    assert source.outcomes == ["done"]


def test_a_second_item_is_an_error_and_both_are_given_back() -> None:
    source, probe = _subscribed()
    source.next(1, 2)
    assert isinstance(probe.error, TooManyItems)
    assert source.cancelled
    assert source.outcomes == ["released", "released"]


def test_none_is_an_error() -> None:
    probe = ProbeSubscriber[int](1)
    single(empty()).subscribe(probe)
    assert isinstance(probe.error, NoItem)


def test_an_error_gives_the_item_back() -> None:
    source, probe = _subscribed()
    source.next(1)
    source.error(LookupError())
    assert isinstance(probe.error, LookupError)
    assert source.outcomes == ["released"]


def test_a_cancel_gives_the_item_back() -> None:
    source, probe = _subscribed()
    source.next(1)
    probe.cancel()
    assert source.outcomes == ["released"]


def test_further_requests_ask_for_nothing_more() -> None:
    source, probe = _subscribed()
    probe.request(5)
    assert source.requests == [2]


def test_a_window_of_one_could_never_tell() -> None:
    class Link(ManualPublisher[int]):
        window = 1

    source, probe = Link(), ProbeSubscriber[int](1)
    single(source).subscribe(probe)
    assert isinstance(probe.error, ConfigError)
    assert "single() needs 2 items at once" in str(probe.error)
