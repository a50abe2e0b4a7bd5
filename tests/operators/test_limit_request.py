import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.limit_request import limit_request
from rstreams.testing import ManualPublisher
from tests.operators.contract import OperatorContract


class TestLimitRequest(OperatorContract):
    build = staticmethod(lambda source: limit_request(source, 3))
    model = staticmethod(lambda items: items[:3])
    requests = ((1, [1]), (3, [3]), (5, [3]), (UNBOUNDED, [3]))


@pytest.mark.parametrize("count", [-1, 1.5, "3", True, None])
def test_a_wrong_count_is_named(count: int) -> None:
    with pytest.raises(ConfigError, match=rf"limit_request\(count={count!r}\): count must be 0 or more items"):
        limit_request(ManualPublisher[int](), count)
