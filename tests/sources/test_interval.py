from rstreams.sources.interval import interval
from rstreams.testing import ProbeSubscriber, VirtualScheduler


def test_a_tick_without_demand_is_not_made_up_for() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int](1)
        interval(1.0, initial_delay_s=0).subscribe(probe)
        scheduler.advance(3.5)
        assert probe.items == [0]
        probe.request(2)
        assert probe.items == [0, 3]
        scheduler.advance(0.5)
        assert probe.items == [0, 3, 4]
        probe.cancel()
        assert scheduler.timers == 0
