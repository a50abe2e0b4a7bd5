from typing import Any

from rstreams.operators.to_set import to_set
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.folding_contract import AckContract, FoldingContract


class TestToSet(AckContract, FoldingContract):
    build = staticmethod(to_set)
    model = staticmethod(lambda items: [set(items)])
    acking = staticmethod(lambda source, ack: to_set(source, ack=ack))


def test_what_is_not_hashable_ends_the_stream() -> None:
    source, probe = ManualPublisher[Any](), ProbeSubscriber[set[Any]](1)
    to_set(source).subscribe(probe)
    source.next([1])
    assert isinstance(probe.error, TypeError)
    assert source.outcomes == ["failed"]
