from rstreams._demand import UNBOUNDED
from rstreams.operators.delay import delay
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.scheduled import ScheduledContract


class TestDelay(ScheduledContract):
    build = staticmethod(lambda source: delay(source, 1.0))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))

    def settle(self) -> None:
        self.scheduler.advance(20_000.0)


def test_items_are_held_and_given_back_on_a_cancel() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](5)
        delay(source, 4.0).subscribe(probe)
        source.next(1)
        scheduler.advance(2.0)
        source.next(2)
        scheduler.advance(2.0)
        assert probe.items == [1]
        assert source.outcomes == ["done", None]
        probe.cancel()
        assert source.outcomes == ["done", "released"]
        assert scheduler.timers == 0
