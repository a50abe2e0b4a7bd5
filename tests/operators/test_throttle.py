from rstreams._core.demand import UNBOUNDED
from rstreams.operators.throttle import throttle
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.timed_contract import LatestContract


class TestThrottle(LatestContract):
    timed = staticmethod(throttle)
    option = ("throttle", "period_s")
    leaves_out = True
    build = staticmethod(lambda source: throttle(source, 1.0))
    model = staticmethod(lambda items: items[:1])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))


def test_at_the_very_end_of_the_period_an_item_is_let_through() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        throttle(source, 1.0).subscribe(probe)
        for item, wait in ((1, 0.5), (2, 0.5), (3, 0.75), (4, 0.25), (5, 0.0)):
            source.next(item)
            scheduler.advance(wait)

    assert probe.items == [1, 3, 5]
    assert scheduler.timers == 0
