from itertools import pairwise as pairs

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.pairwise import pairwise
from tests.operators.contract import OperatorContract


class TestPairwise(OperatorContract):
    build = staticmethod(pairwise)
    model = staticmethod(lambda items: list(pairs(items)))
    requests = ((1, [2]), (5, [6]), (UNBOUNDED, [UNBOUNDED]))
