from rstreams._demand import UNBOUNDED
from rstreams.errors import StreamTimeout
from rstreams.operators.timeout import timeout
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.scheduled import ScheduledContract


class TestTimeout(ScheduledContract):
    build = staticmethod(lambda source: timeout(source, 1.0))
    model = list
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_time_counts_only_while_there_is_demand() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        timeout(source, 5.0).subscribe(probe)
        source.next(1)
        scheduler.advance(50.0)
        assert not probe.ended
        probe.request(1)
        scheduler.advance(4.9)
        assert not probe.ended
        scheduler.advance(0.1)
        assert isinstance(probe.error, StreamTimeout)
        assert str(probe.error) == "timeout(timeout_s=5.0): no item for 5.0 seconds"
        assert source.cancelled
        assert scheduler.timers == 0


def test_the_fallback_goes_on_and_the_source_is_not_heard() -> None:
    with VirtualScheduler() as scheduler:
        source, other, probe = ManualPublisher[int](), ManualPublisher[int](), ProbeSubscriber[int](2)
        timeout(source, 5.0, fallback=other).subscribe(probe)
        scheduler.advance(5.0)
        source.next(1)
        source.complete()
        other.next(8)
        scheduler.advance(50.0)
        other.complete()
        assert other.requests == [2]
        assert (probe.items, probe.completed) == ([8], True)
