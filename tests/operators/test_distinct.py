from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.operators.distinct import distinct
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


class TestDistinct(FunctionContract):
    build = staticmethod(distinct)
    model = staticmethod(lambda items: list(dict.fromkeys(items)))
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))
    failing = staticmethod(lambda source, function: distinct(source, lambda _: function()))


def test_an_item_that_has_come_before_is_asked_for_again_and_done() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](3)
    distinct(source).subscribe(probe)
    source.next(1, 1, 2, 1, 3)
    assert probe.items == [1, 2, 3]
    assert source.requests == [3, 1, 1]
    assert source.outcomes == ["done"] * 5


def test_keys_tell_items_apart() -> None:
    source, probe = ManualPublisher[str](), ProbeSubscriber[str](UNBOUNDED)
    distinct(source, str.lower).subscribe(probe)
    source.next("tea", "Tea", "milk")
    assert probe.items == ["tea", "milk"]


@pytest.mark.parametrize("item", [[1], {"a": 1}])
def test_what_is_not_hashable_ends_the_stream(item: object) -> None:
    source, probe = ManualPublisher[Any](), ProbeSubscriber[Any](UNBOUNDED)
    distinct(source).subscribe(probe)
    source.next(item)
    assert isinstance(probe.error, TypeError)
    assert source.cancelled
    assert source.outcomes == ["failed"]
