from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.time_interval import TimeInterval, time_interval
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.scheduled import ScheduledContract


class TestTimeInterval(ScheduledContract):
    build = staticmethod(time_interval)
    model = staticmethod(lambda items: [TimeInterval(item, 0.0) for item in items])
    requests = ((1, [1]), (5, [5]), (UNBOUNDED, [UNBOUNDED]))


def test_an_item_has_the_time_since_the_one_before_or_the_subscription() -> None:
    with VirtualScheduler() as scheduler:
        publisher = ManualPublisher[str]()
        timed = time_interval(publisher)
        scheduler.advance(100.0)
        probe = ProbeSubscriber[TimeInterval[str]](3)
        timed.subscribe(probe)
        scheduler.advance(2.0)
        publisher.next("a")
        scheduler.advance(8.0)
        publisher.next("b", "c")

    assert probe.items == [TimeInterval("a", 2.0), TimeInterval("b", 8.0), TimeInterval("c", 0.0)]


def test_without_a_scheduler_there_is_no_time() -> None:
    probe = ProbeSubscriber[TimeInterval[int]](1)
    time_interval(ManualPublisher[int]()).subscribe(probe)

    assert isinstance(probe.error, ConfigError)
    assert "time_interval needs a scheduler" in str(probe.error)
