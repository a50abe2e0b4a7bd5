from rstreams._core.demand import UNBOUNDED
from rstreams.operators.count import count
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract
from tests.operators.folding_contract import FoldingContract


class TestCount(FoldingContract):
    build = staticmethod(count)
    model = staticmethod(lambda items: [len(items)])


class TestCountSome(FoldingContract, FunctionContract):
    build = staticmethod(lambda source: count(source, lambda x: x > 3))
    model = staticmethod(lambda items: [sum(x > 3 for x in items)])
    failing = staticmethod(lambda source, function: count(source, lambda _: function()))


def test_nothing_is_asked_for_before_the_number_is() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    count(source).subscribe(probe)
    source.complete()
    assert probe.items == []
    probe.request(1)
    assert probe.items == [0]
    assert probe.completed
    assert source.requests in ([], [UNBOUNDED])
