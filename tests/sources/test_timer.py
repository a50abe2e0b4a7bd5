from rstreams.sources.timer import timer
from rstreams.testing import ProbeSubscriber, VirtualScheduler


def test_the_item_comes_after_the_delay_and_waits_for_demand() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[int]()
        timer(3.0).subscribe(probe)
        scheduler.advance(5.0)
        assert probe.items == []
        probe.request(1)
        assert (probe.items, probe.completed) == ([0], True)
