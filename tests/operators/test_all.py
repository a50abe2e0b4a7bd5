from rstreams.operators.all import all as all_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract
from tests.operators.folding_contract import FoldingContract


class TestAll(FoldingContract, FunctionContract):
    build = staticmethod(lambda source: all_(source, lambda x: x < 5))
    model = staticmethod(lambda items: [all(x < 5 for x in items)])
    failing = staticmethod(lambda source, function: all_(source, lambda _: function()))


def test_one_item_can_settle_it() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[bool](1)
    all_(source, lambda x: x < 5).subscribe(probe)
    source.next(1, 7)
    assert probe.items == [False]
    assert probe.completed
    assert source.cancelled
    source.next(2)
    source.complete()
    assert probe.signals == ["on_subscribe", "on_next", "on_complete"]
