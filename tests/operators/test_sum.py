from decimal import Decimal

from rstreams.operators.sum import sum as sum_
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.folding_contract import FoldingContract


class TestSum(FoldingContract):
    build = staticmethod(sum_)
    model = staticmethod(lambda items: [sum(items)])


def test_whatever_can_be_added() -> None:
    probe = ProbeSubscriber[object](1)
    sum_(of(Decimal("0.1"), Decimal("0.2"))).subscribe(probe)
    assert probe.items == [Decimal("0.3")]


def test_what_cannot_be_added_ends_the_stream() -> None:
    source, probe = ManualPublisher[object](), ProbeSubscriber[object](1)
    sum_(source).subscribe(probe)  # type: ignore[arg-type]
    source.next("tea")
    assert isinstance(probe.error, TypeError)
    assert source.outcomes == ["failed"]
    assert source.cancelled
