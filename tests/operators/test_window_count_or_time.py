import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError
from rstreams.operators.flat_map import flat_map
from rstreams.operators.window_count_or_time import window_count_or_time
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.timed_contract import TimedContract


class TestWindowCountOrTime(TimedContract):
    timed = staticmethod(lambda source, span_s: window_count_or_time(source, 2, span_s))
    option = ("window_count_or_time", "span_s")
    holds_what_it_keeps = False  # the items are in the windows, behind the stage that is looked at
    build = staticmethod(
        lambda source: flat_map(window_count_or_time(source, 2, 1.0), lambda window: window, concurrency=1)
    )
    model = staticmethod(lambda items: items)
    requests = ((1, [256]), (5, [256]), (UNBOUNDED, [256]))


@pytest.mark.parametrize(("count", "span_s"), [(0, 1.0), (-1, 1.0), (2, 0.0), (2, -1.0), (True, 1.0)])
def test_a_wrong_option_is_named(count: int, span_s: float) -> None:
    with pytest.raises(ConfigError, match=r"window_count_or_time\((count|span_s)=.*\): \1 must be"):
        window_count_or_time(range_(1), count, span_s)


def test_count_or_time_whichever_is_first() -> None:
    with VirtualScheduler() as scheduler:
        source, items = ManualPublisher[int](), list[list[int]]()

        def read(window: Publisher[int]) -> None:
            reader = ProbeSubscriber[int](UNBOUNDED)
            items.append(reader.items)
            window.subscribe(reader)

        probe = ProbeSubscriber[Publisher[int]](UNBOUNDED, on_item=read)
        window_count_or_time(source, 2, 1.0).subscribe(probe)
        scheduler.advance(0.9)
        source.next(1, 2)  # full: the next one's second begins
        scheduler.advance(0.9)
        source.next(3)
        scheduler.advance(0.2)
        source.next(4)
        source.complete()

        assert items == [[1, 2], [3], [4]]
        assert probe.completed
        assert scheduler.timers == 0
