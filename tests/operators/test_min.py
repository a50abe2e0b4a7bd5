import pytest

from rstreams.errors import NoItem
from rstreams.operators.min import min as min_
from rstreams.sources.of import of
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract
from tests.operators.folding_contract import NonEmptyFoldingContract


class TestMin(NonEmptyFoldingContract):
    build = staticmethod(min_)
    model = staticmethod(lambda items: [min(items)])


class TestMinByKey(NonEmptyFoldingContract, FunctionContract):
    build = staticmethod(lambda source: min_(source, lambda x: -x))
    model = staticmethod(lambda items: [min(items, key=lambda x: -x)])
    failing = staticmethod(lambda source, function: min_(source, lambda _: function()))


def test_the_first_of_those_that_are_equal() -> None:
    probe = ProbeSubscriber[str](1)
    min_(of("bb", "aa", "cc"), len).subscribe(probe)
    assert probe.items == ["bb"]


def test_nothing_is_an_error() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int]()
    min_(source).subscribe(probe)
    source.complete()
    assert isinstance(probe.error, NoItem)
    assert str(probe.error) == "min(): the stream completed without an item"


@pytest.mark.parametrize("item", ["tea", None])
def test_what_cannot_be_compared_ends_the_stream(item: object) -> None:
    source, probe = ManualPublisher[object](), ProbeSubscriber[object](1)
    min_(source).subscribe(probe)  # type: ignore[type-var]
    source.next(1, item)
    assert isinstance(probe.error, TypeError)
    assert source.outcomes == ["released", "failed"]
