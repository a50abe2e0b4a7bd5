from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.notifications import Completed, Failed, Next
from rstreams.operators.materialize import materialize
from rstreams.sources.defer import defer
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import OperatorContract


class TestMaterialize(OperatorContract):
    build = staticmethod(materialize)
    model = staticmethod(lambda items: [*map(Next, items), Completed()])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))

    def test_an_error_of_the_source_that_comes_first(self) -> None:
        source, probe = self.subscribe()
        error = ValueError("first")
        source.error(error)
        assert probe.items == [Failed(error)]
        assert probe.completed

    def test_an_error_of_the_source_needs_no_demand(self) -> None:
        """It does: it is an item."""
        source, probe = self.subscribe(0)
        error = ValueError("first")
        source.error(error)
        assert probe.signals == ["on_subscribe"]
        probe.request(1)
        assert probe.items == [Failed(error)]
        assert probe.completed

    def test_an_error_of_the_source_midway(self) -> None:
        source, probe = self.subscribe()
        error = ValueError("midway")
        source.next(1)
        source.error(error)
        assert probe.items == [Next(1), Failed(error)]
        assert probe.completed
        assert not source.cancelled


def test_the_end_is_an_item_that_waits_for_demand() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[object](1)
    materialize(source).subscribe(probe)
    source.next(1)
    source.complete()
    assert probe.items == [Next(1)]
    probe.request(1)
    assert probe.items == [Next(1), Completed()]
    assert probe.completed


def test_a_source_that_cannot_be_subscribed_to() -> None:
    error, probe = LookupError(), ProbeSubscriber[object](UNBOUNDED)

    def fail() -> Publisher[int]:
        raise error

    materialize(defer(fail)).subscribe(probe)

    assert probe.items == [Failed(error)]
    assert probe.completed
