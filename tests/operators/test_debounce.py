import pytest

from rstreams._demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.debounce import debounce
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.scheduled import ScheduledContract


class TestDebounce(ScheduledContract):
    build = staticmethod(lambda source: debounce(source, 1.0))
    model = staticmethod(lambda items: items[-1:])
    requests = ((1, [UNBOUNDED]), (5, [UNBOUNDED]), (UNBOUNDED, [UNBOUNDED]))


def test_a_kept_item_without_demand_gives_way_to_a_newer_and_no_timer_is_left() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[int](1)
        debounce(source, 1.0).subscribe(probe)
        for item in (1, 2, 3):
            source.next(item)
            scheduler.advance(1.0)
        assert probe.items == [1]
        assert source.outcomes == ["done", "done", None]
        probe.request(1)
        assert probe.items == [1, 3]
        probe.cancel()
        assert scheduler.timers == 0


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "1", True])
def test_a_wrong_time_is_named(value: float) -> None:
    with pytest.raises(ConfigError, match=r"debounce\(.*\): .* must be a finite number of seconds, more than 0"):
        debounce(ManualPublisher[int](), value)
