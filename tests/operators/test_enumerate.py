import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.enumerate import enumerate as enumerate_
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestEnumerate(OperatorContract):
    build = staticmethod(enumerate_)
    model = staticmethod(lambda items: list(enumerate(items)))
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_it_starts_where_it_is_told() -> None:
    probe = ProbeSubscriber[tuple[int, str]](5)
    enumerate_(of("a", "b"), start=-1).subscribe(probe)
    assert probe.items == [(-1, "a"), (0, "b")]


@pytest.mark.parametrize("start", [1.5, "3", True, None])
def test_a_wrong_start_is_named(start: int) -> None:
    with pytest.raises(ConfigError, match=rf"enumerate\(start={start!r}\): start must be a whole number"):
        enumerate_(ManualPublisher[int](), start)
