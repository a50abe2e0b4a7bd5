from rstreams.operators.any import any as any_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract
from tests.operators.folding_contract import FoldingContract


class TestAny(FoldingContract, FunctionContract):
    build = staticmethod(lambda source: any_(source, lambda x: x > 5))
    model = staticmethod(lambda items: [any(x > 5 for x in items)])
    failing = staticmethod(lambda source, function: any_(source, lambda _: function()))


def test_one_item_can_settle_it() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[bool](1)
    any_(source, lambda x: x > 5).subscribe(probe)
    source.next(1, 7)
    assert probe.items == [True]
    assert probe.completed
    assert source.cancelled
    source.next(2)
    source.complete()
    assert probe.signals == ["on_subscribe", "on_next", "on_complete"]


def test_without_a_predicate_any_item_will_do() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[bool](1)
    any_(source).subscribe(probe)
    source.next(0)
    assert probe.items == [True]
