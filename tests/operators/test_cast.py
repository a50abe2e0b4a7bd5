import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.cast import cast
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestCast(OperatorContract):
    build = staticmethod(lambda source: cast(source, int))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_an_item_of_another_type_fails() -> None:
    source, probe = ManualPublisher[object](), ProbeSubscriber[int](UNBOUNDED)
    cast(source, int).subscribe(probe)
    source.next(1, "two")
    assert probe.items == [1]
    assert isinstance(probe.error, TypeError)
    assert str(probe.error) == "cast(int): 'two' is of type str"
    assert source.outcomes == ["done", "failed"]
    assert source.cancelled


@pytest.mark.parametrize("kind", [1, "int", None])
def test_a_kind_is_a_class(kind: type) -> None:
    with pytest.raises(TypeError, match=rf"cast\(kind\): kind must be a class, not {kind!r}"):
        cast(ManualPublisher[int](), kind)
