from rstreams._core.demand import UNBOUNDED
from rstreams.operators.debounce import debounce
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.timed_contract import LatestContract


class TestDebounce(LatestContract):
    timed = staticmethod(debounce)
    option = ("debounce", "quiet_s")
    build = staticmethod(lambda source: debounce(source, 1.0))
    model = staticmethod(lambda items: items[-1:])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))


def test_at_the_very_end_of_the_quiet_it_is_quiet() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        debounce(source, 1.0).subscribe(probe)
        source.next(1)
        scheduler.call_later(1.0, lambda: source.next(2))  # set behind the timer for item 1
        scheduler.advance(1.0)
        assert probe.items == [1]
        scheduler.advance(1.0)

    assert probe.items == [1, 2]


def test_an_item_within_the_quiet_begins_it_anew_with_one_timer() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](UNBOUNDED)
        debounce(source, 1.0).subscribe(probe)
        for item in range(100):
            source.next(item)
            assert scheduler.timers == 1
            scheduler.advance(0.9)
        assert probe.items == []
        scheduler.advance(0.11)

    assert probe.items == [99]
    assert scheduler.timers == 0
