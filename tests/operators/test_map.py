from rstreams._core.demand import UNBOUNDED
from rstreams.operators.map import map as map_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


class TestMap(FunctionContract):
    build = staticmethod(lambda source: map_(source, lambda x: x * 10))
    model = staticmethod(lambda items: [x * 10 for x in items])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: map_(source, lambda _: function()))


def test_only_the_item_that_fails_fails() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[float](3)
    map_(source, lambda x: 1 / x).subscribe(probe)

    source.next(1, 0)

    assert probe.items == [1.0]
    assert isinstance(probe.error, ZeroDivisionError)
    assert source.outcomes == ["done", "failed"]


def test_what_is_no_exception_is_not_caught() -> None:
    def interrupt(_: int) -> int:
        raise KeyboardInterrupt

    source, probe = ManualPublisher[int](), ProbeSubscriber[int](3)
    map_(source, interrupt).subscribe(probe)

    try:
        source.next(1)
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError

    assert probe.error is None
