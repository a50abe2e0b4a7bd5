import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.buffer_count_or_time import buffer_count_or_time
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.timed_contract import TimedContract


class TestBufferCountOrTime(TimedContract):
    timed = staticmethod(lambda source, span_s: buffer_count_or_time(source, 2, span_s))
    option = ("buffer_count_or_time", "span_s")
    build = staticmethod(lambda source: buffer_count_or_time(source, 2, 1.0))
    model = staticmethod(lambda items: [list(items[i : i + 2]) for i in range(0, len(items), 2)])
    requests = ((1, [2]), (5, [2]), (UNBOUNDED, [2]))


@pytest.mark.parametrize(("count", "span_s"), [(0, 1.0), (-1, 1.0), (2, 0.0), (2, -1.0), (True, 1.0)])
def test_a_wrong_option_is_named(count: int, span_s: float) -> None:
    with pytest.raises(ConfigError, match=r"buffer_count_or_time\((count|span_s)=.*\): \1 must be"):
        buffer_count_or_time(range_(1), count, span_s)


def test_count_or_time_whichever_is_first() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](UNBOUNDED)
        buffer_count_or_time(source, 2, 1.0).subscribe(probe)
        scheduler.advance(0.9)
        source.next(1, 2)  # full: the next one's second begins
        assert probe.items == [[1, 2]]
        scheduler.advance(0.9)
        source.next(3)
        scheduler.advance(0.1)
        assert probe.items == [[1, 2], [3]]
        scheduler.advance(1.0)
        source.next(4)
        source.complete()

        assert probe.items == [[1, 2], [3], [], [4]]
        assert probe.completed
        assert scheduler.timers == 0


@pytest.mark.slow
def test_many_items_at_once_take_turns_with_the_scope() -> None:
    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[list[int]](UNBOUNDED)
        buffer_count_or_time(range_(100_000), 10, 1.0).subscribe(probe)
        assert len(probe.items) < 10_000
        scheduler.run()

    assert probe.items == [list(range(i, i + 10)) for i in range(0, 100_000, 10)]


class Link(ManualPublisher[int]):
    window = 4


def test_over_a_link_with_a_smaller_window_time_ends_the_lists() -> None:
    with VirtualScheduler() as scheduler:
        source, probe = Link(), ProbeSubscriber[list[int]](UNBOUNDED)
        buffer_count_or_time(source, 5, 1.0).subscribe(probe)
        source.next(1, 2, 3, 4)
        assert source.outstanding == 0
        assert probe.items == []
        scheduler.advance(1.0)

    assert probe.items == [[1, 2, 3, 4]]
    assert source.outstanding == 4
