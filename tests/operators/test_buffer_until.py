from collections.abc import Sequence
from typing import Any

import pytest

from rstreams._core.demand import UNBOUNDED
from rstreams.errors import ConfigError
from rstreams.operators.buffer_until import buffer_until
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.operators.contract import FunctionContract


def lists(items: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for item in items:
        found[-1].append(item)
        if item % 3 == 0:
            found.append([])
    return found if found[-1] else found[:-1]


class TestBufferUntil(FunctionContract):
    build = staticmethod(lambda source: buffer_until(source, lambda x: x % 3 == 0, max_items=8))
    model = staticmethod(lists)
    requests = ((1, [8]), (5, [8]), (UNBOUNDED, [8]))
    failing = staticmethod(lambda source, function: buffer_until(source, lambda _: function()))


def test_lists_that_end_ahead_of_demand_wait() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](1)
    buffer_until(source, lambda x: x == 0, max_items=4).subscribe(probe)
    source.next(1, 0)
    assert (probe.items, source.requests) == ([[1, 0]], [4])
    source.next(0, 2)  # what was on its way
    assert probe.items == [[1, 0]]
    probe.request(1)
    assert (probe.items, source.requests) == ([[1, 0], [0]], [4])
    probe.request(1)
    assert source.requests == [4, 3]  # one is kept


def test_a_list_that_is_full_is_emitted_without_such_an_item() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](UNBOUNDED)
    buffer_until(source, bool, max_items=2).subscribe(probe)
    source.next(0, 0, 0, 1)
    source.next(0)
    source.complete()
    assert probe.items == [[0, 0], [0, 1], [0]]
    assert probe.completed


def test_the_items_share_the_outcome_of_their_list() -> None:
    source, probe = ManualPublisher[int](), ProbeSubscriber[list[int]](UNBOUNDED, hold=True)
    buffer_until(source, bool).subscribe(probe)
    source.next(0, 1, 0)
    assert source.outcomes == [None, None, None]
    probe.holds[0].done()
    assert source.outcomes == ["done", "done", None]
    probe.cancel()
    assert source.outcomes == ["done", "done", "released"]


class Link(ManualPublisher[int]):
    """A source that, like a link, has no more than its window unsettled."""

    window = 2


def test_the_window_of_a_link_bounds_a_list() -> None:
    source, probe = Link(), ProbeSubscriber[list[int]](1)
    buffer_until(source, bool).subscribe(probe)
    assert source.requests == [2]
    source.next(0, 0)
    assert probe.items == [[0, 0]]


@pytest.mark.parametrize("value", [0, -1, 1.5, "1", None])
def test_a_wrong_option_is_named(value: Any) -> None:  # noqa: ANN401 - whatever is wrong
    with pytest.raises(ConfigError, match=r"buffer_until\(max_items=.*\): max_items must be 1 or more items"):
        buffer_until(ManualPublisher[int](), bool, max_items=value)
