from itertools import pairwise as pairs

from rstreams._demand import UNBOUNDED
from rstreams.operators.pairwise import pairwise
from tests.operators.contract import OperatorContract


class TestPairwise(OperatorContract):
    build = staticmethod(pairwise)
    model = staticmethod(lambda items: list(pairs(items)))
    requests = ((1, [2]), (5, [6]), (UNBOUNDED, [UNBOUNDED]))

    def test_a_source_that_has_ended_is_left_alone(self) -> None:
        source, probe = self.subscribe(0)
        source.complete()
        probe.request(1)
        probe.cancel()
        assert not source.cancelled
        assert source.requests == []
