import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.skip import skip
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestSkip(OperatorContract):
    build = staticmethod(lambda source: skip(source, 2))
    model = staticmethod(lambda items: items[2:])
    requests = ((1, [3]), (5, [7]), (UNBOUNDED - 1, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))


class TestSkipNothing(OperatorContract):
    build = staticmethod(lambda source: skip(source, 0))
    model = staticmethod(lambda items: items)
    requests = ((1, [1]), (UNBOUNDED, [UNBOUNDED]))


@pytest.mark.parametrize("count", [-1, 1.5, "3", False, None])
def test_a_wrong_count_is_named(count: int) -> None:
    with pytest.raises(ConfigError, match=rf"skip\(count={count!r}\): count must be 0 or more items"):
        skip(ManualPublisher[int](), count)


def test_what_is_to_be_dropped_is_asked_for_once() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    skip(source, 3).subscribe(probe)

    for n in (1, 1, 2):
        probe.request(n)
    source.next(1, 2, 3, 4)

    assert source.requests == [4, 1, 2]
    assert probe.items == [4]
    assert source.outcomes == ["done"] * 4
