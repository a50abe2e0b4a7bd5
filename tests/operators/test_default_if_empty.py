from rstreams._core.demand import UNBOUNDED
from rstreams.operators.default_if_empty import default_if_empty
from rstreams.sources.empty import empty
from rstreams.testing import ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestDefaultIfEmpty(OperatorContract):
    build = staticmethod(lambda source: default_if_empty(source, 9))
    model = staticmethod(lambda items: items or [9])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))

    def test_a_source_that_has_ended_is_left_alone(self) -> None:
        source, probe = self.subscribe(0)
        source.complete()
        probe.request(1)
        probe.cancel()
        assert not source.cancelled
        assert source.requests == []
        assert probe.items == [9]


def test_the_default_waits_for_demand() -> None:
    probe = ProbeSubscriber[int]()
    default_if_empty(empty(), 9).subscribe(probe)
    assert probe.signals == ["on_subscribe"]
    probe.request(1)
    assert probe.signals == ["on_subscribe", "on_next", "on_complete"]


def test_none_is_a_default() -> None:
    probe = ProbeSubscriber[None](1)
    default_if_empty(empty(), None).subscribe(probe)
    assert probe.items == [None]
