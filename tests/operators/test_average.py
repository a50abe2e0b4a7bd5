from rstreams.errors import NoItem
from rstreams.operators.average import average
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.folding_contract import NonEmptyFoldingContract


class TestAverage(NonEmptyFoldingContract):
    build = staticmethod(average)
    model = staticmethod(lambda items: [sum(items) / len(items)])


def test_nothing_is_an_error() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[float]()
    average(source).subscribe(probe)
    source.complete()
    assert isinstance(probe.error, NoItem)
    assert str(probe.error) == "average(): the stream completed without an item"
