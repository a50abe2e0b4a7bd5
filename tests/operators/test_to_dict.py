from typing import Any

import pytest

from rstreams.operators.to_dict import to_dict
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract
from tests.operators.folding_contract import AckContract, FoldingContract


class TestToDict(AckContract, FoldingContract, FunctionContract):
    build = staticmethod(lambda source: to_dict(source, lambda x: x % 3))
    model = staticmethod(lambda items: [{x % 3: x for x in items}])
    failing = staticmethod(lambda source, function: to_dict(source, lambda _: function()))
    acking = staticmethod(lambda source, ack: to_dict(source, lambda x: x % 3, ack=ack))


class TestToDictOfValues(FoldingContract, FunctionContract):
    build = staticmethod(lambda source: to_dict(source, lambda x: x % 3, str))
    model = staticmethod(lambda items: [{x % 3: str(x) for x in items}])
    failing = staticmethod(lambda source, function: to_dict(source, lambda x: x, lambda _: function()))


@pytest.mark.parametrize("key", [[1], {}])
def test_a_key_that_is_not_hashable_ends_the_stream(key: Any) -> None:  # noqa: ANN401 - anything unhashable
    source, probe = ManualPublisher[int](), ProbeSubscriber[dict[Any, int]](1)
    to_dict(source, lambda _: key).subscribe(probe)
    source.next(1)
    assert isinstance(probe.error, TypeError)
    assert source.outcomes == ["failed"]
