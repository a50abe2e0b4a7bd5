import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Publisher
from rstreams.errors import ConfigError, RStreamsError
from rstreams.operators.flat_map import flat_map
from rstreams.operators.window_count import window_count
from rstreams.sources.range import range as range_
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.operators.scheduled import ScheduledContract


class TestWindowCount(ScheduledContract):
    holds_what_it_keeps = False  # the items are in the windows, behind the stage that is looked at
    build = staticmethod(lambda source: flat_map(window_count(source, 2), lambda window: window, concurrency=1))
    model = staticmethod(lambda items: items)
    requests = ((1, [256]), (5, [256]), (UNBOUNDED, [256]))


class Windows:
    """The windows of a stream, each with a probe of its own."""

    def __init__(self, source: Publisher[int], request: int = UNBOUNDED, *, count: int = 2, **options: int) -> None:
        self.publishers: list[Publisher[int]] = []
        self.probes: list[ProbeSubscriber[int]] = []

        def take_window(window: Publisher[int]) -> None:
            self.publishers.append(window)
            self.probes.append(ProbeSubscriber[int](UNBOUNDED))
            window.subscribe(self.probes[-1])

        self.probe = ProbeSubscriber[Publisher[int]](request, on_item=take_window)
        window_count(source, count, **options).subscribe(self.probe)

    @property
    def items(self) -> list[list[int]]:
        return [probe.items for probe in self.probes]


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
@pytest.mark.parametrize("option", ["count", "skip", "prefetch"])
def test_a_wrong_option_is_named(option: str, value: int) -> None:
    options = {"count": 1, option: value}
    with pytest.raises(ConfigError, match=rf"window_count\({option}={value!r}\): {option} must be 1 or more items"):
        window_count(range_(1), **options)


@given(items=st.integers(0, 30), count=st.integers(1, 6), skip=st.integers(1, 8), prefetch=st.integers(1, 9))
def test_windows_are_slices(items: int, count: int, skip: int, prefetch: int) -> None:
    windows = Windows(range_(items), count=count, skip=skip, prefetch=prefetch)

    assert windows.items == [list(range(items))[i : i + count] for i in range(0, items, skip)]
    assert windows.probe.completed
    assert all(probe.signals[-1] == "on_complete" for probe in windows.probes)


def test_a_window_ends_with_its_last_item() -> None:
    source = ManualPublisher[int]()
    windows = Windows(source)

    source.next(1)
    assert windows.items == [[1]]
    source.next(2)

    assert windows.probes[0].completed
    assert not windows.probe.completed


def test_windows_wait_for_demand_with_their_items() -> None:
    source = ManualPublisher[int]()
    windows = Windows(source, 1, prefetch=4)
    source.next(1, 2, 3, 4, 5)
    assert windows.items == [[1, 2]]
    assert source.outcomes == ["done", "done", None, None, None]

    windows.probe.request(1)

    assert windows.items == [[1, 2], [3, 4]]
    assert windows.probes[1].completed


def test_an_item_of_two_windows_is_done_when_both_are_through_with_it() -> None:
    source, probes = ManualPublisher[int](), [ProbeSubscriber[int](), ProbeSubscriber[int]()]
    taken: list[Publisher[int]] = []
    window_count(source, 3, skip=1, prefetch=5).subscribe(ProbeSubscriber(2, on_item=taken.append))
    source.next(1, 2)
    taken[0].subscribe(probes[0])
    taken[1].subscribe(probes[1])

    probes[0].request(5)
    assert source.outcomes == ["done", None]
    assert source.outstanding == 3
    probes[1].request(5)

    assert source.outcomes == ["done", "done"]
    assert source.requests == [5, 1, 1] or source.outstanding == 3


def test_items_in_a_gap_are_dropped_and_replaced() -> None:
    source = ManualPublisher[int]()
    windows = Windows(source, count=1, skip=3, prefetch=2)

    source.next(1, 2, 3, 4, 5)

    assert windows.items == [[1], [4]]
    assert source.outcomes == ["done"] * 5


def test_the_windows_taken_outlive_the_cancel_and_no_more_are_opened() -> None:
    source = ManualPublisher[int]()
    windows = Windows(source)
    source.next(1)

    windows.probe.cancel()
    assert not source.cancelled
    source.next(2)

    assert windows.items == [[1, 2]]
    assert windows.probes[0].completed
    assert source.cancelled


def test_the_rest_of_a_cancelled_window_is_dropped() -> None:
    source = ManualPublisher[int]()
    windows = Windows(source, count=3)
    source.next(1)

    windows.probes[0].cancel()
    source.next(2, 3, 4)

    assert windows.items == [[1], [4]]
    assert source.outcomes == ["done"] * 4


def test_a_window_has_one_subscriber() -> None:
    source = ManualPublisher[int]()
    windows = Windows(source)
    source.next(1, 2)

    windows.publishers[0].subscribe(second := ProbeSubscriber[int](1))

    assert isinstance(second.error, RStreamsError)
    assert str(second.error) == "a window of window_count takes only one subscriber, and it has had one"


def test_an_error_reaches_the_windows_that_are_open_behind_their_items() -> None:
    source, error = ManualPublisher[int](), ValueError()
    windows = Windows(source, 1, count=3, skip=2)
    source.next(1, 2, 3, 4)

    source.error(error)
    assert not windows.probe.ended
    windows.probe.request(1)

    assert windows.probe.error is error
    assert windows.probes[0].completed
    assert windows.probes[1].items == [3, 4]
    assert windows.probes[1].error is error
    assert source.outcomes == ["done"] * 4


def test_requesting_inside_a_window_does_not_recurse() -> None:
    seen = 0

    def read(window: Publisher[int]) -> None:
        def more(_item: int) -> None:
            nonlocal seen
            seen += 1
            reader.request(1)

        reader = ProbeSubscriber[int](1, on_item=more)
        window.subscribe(reader)

    with VirtualScheduler() as scheduler:
        probe = ProbeSubscriber[Publisher[int]](UNBOUNDED, on_item=read)
        window_count(range_(20_000), 7, prefetch=3).subscribe(probe)
        scheduler.run()

    assert seen == 20_000
