import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError, NoItem
from rstreams.operators.element_at import element_at
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.folding_contract import FoundFirstContract


class TestElementAt(FoundFirstContract):
    build = staticmethod(lambda source: element_at(source, 0))
    model = staticmethod(lambda items: items[:1])
    requests = ((1, [1]), (5, [1]), (UNBOUNDED, [1]))


def test_as_many_items_as_it_takes_are_asked_for() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
    element_at(source, 2).subscribe(probe)
    assert source.requests == [3]
    source.next(10, 11, 12)
    assert (probe.items, probe.completed, source.cancelled) == ([12], True, True)
    assert source.outcomes == ["done"] * 3


def test_a_place_that_is_not_there_is_an_error() -> None:
    probe = ProbeSubscriber[int](1)
    element_at(range_(3), 3).subscribe(probe)
    assert isinstance(probe.error, NoItem)
    assert str(probe.error) == "element_at(index=3): the stream completed without such an item"


@pytest.mark.parametrize("index", [-1, 1.5, "3", True, None])
def test_a_wrong_index_is_named(index: int) -> None:
    with pytest.raises(ConfigError, match=rf"element_at\(index={index!r}\): index must be 0 or more"):
        element_at(ManualPublisher[int](), index)
