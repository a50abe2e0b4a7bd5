from typing import Any

from rstreams._core.demand import UNBOUNDED
from rstreams.notifications import Completed, Failed, Next, Notification
from rstreams.operators.dematerialize import dematerialize
from rstreams.operators.map import map as map_
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestDematerialize(OperatorContract):
    build = staticmethod(lambda source: dematerialize(map_(source, Next)))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def _subscribed() -> tuple[ManualPublisher[Notification[int]], ProbeSubscriber[int]]:
    source, probe = ManualPublisher[Notification[int]](), ProbeSubscriber[int](9)
    dematerialize(source).subscribe(probe)
    return source, probe


def test_the_item_that_is_the_completion() -> None:
    source, probe = _subscribed()
    source.next(Next(1), Completed())
    assert (probe.items, probe.completed, source.cancelled) == ([1], True, True)


def test_the_item_that_is_the_failure() -> None:
    source, probe = _subscribed()
    error = LookupError()
    source.next(Next(1), Failed(error))
    assert (probe.items, probe.error, source.cancelled) == ([1], error, True)


def test_any_other_item_is_an_error() -> None:
    source, probe = _subscribed()
    wrong: Any = 7
    source.next(wrong)
    assert isinstance(probe.error, TypeError)
    assert str(probe.error) == "dematerialize(): items must be Next, Failed or Completed, not 7"
    assert source.outcomes == ["failed"]
