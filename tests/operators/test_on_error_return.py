from rstreams._core.demand import UNBOUNDED
from rstreams.operators.on_error_return import on_error_return
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import ITEMS, OperatorContract


class TestOnErrorReturn(OperatorContract):
    build = staticmethod(lambda source: on_error_return(source, 0))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))

    def test_an_error_of_the_source_that_comes_first(self) -> None:
        source, probe = self.subscribe()

        source.error(ValueError("first"))

        assert probe.items == [0]
        assert probe.signals == ["on_subscribe", "on_next", "on_complete"]

    def test_an_error_of_the_source_needs_no_demand(self) -> None:
        source, probe = self.subscribe(0)

        source.error(ValueError("first"))
        assert probe.signals == ["on_subscribe"]  # the value needs some
        probe.request(1)

        assert probe.signals == ["on_subscribe", "on_next", "on_complete"]

    def test_an_error_of_the_source_midway(self) -> None:
        source, probe = self.subscribe()
        self.feed(source, ITEMS[:1])

        source.error(ValueError("midway"))

        assert probe.items == [*ITEMS[:1], 0]
        assert probe.completed
        assert not source.cancelled  # 2.3
        assert None not in source.outcomes


def test_the_value_waits_for_demand_and_goes_with_a_cancel() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_return(source, 0).subscribe(probe)
    source.next(1)
    source.error(ValueError())
    assert probe.items == [1]

    probe.cancel()
    probe.request(1)

    assert probe.items == [1]
    assert not source.cancelled


def test_a_request_or_cancel_inside_on_next_of_the_value() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    probe.on_item = lambda _: probe.request(1)
    on_error_return(source, 0).subscribe(probe)
    source.error(ValueError())
    assert probe.signals == ["on_subscribe", "on_next", "on_complete"]

    probe = ProbeSubscriber[int](1)
    probe.on_item = lambda _: probe.cancel()
    on_error_return(source, 0).subscribe(probe)
    source.error(ValueError())
    assert probe.signals == ["on_subscribe", "on_next"]


def test_what_is_no_exception_passes_through() -> None:
    error = KeyboardInterrupt()
    source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
    on_error_return(source, 0).subscribe(probe)

    source.error(error)

    assert probe.error is error
    assert probe.items == []
