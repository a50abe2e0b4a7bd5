"""Items that are drawn many at a time: in turns, and never more than were requested."""

from __future__ import annotations

from rstreams._core.demand import SLICE
from rstreams._stages.drawing import Drawing
from rstreams.testing import VirtualScheduler


class Numbers:
    """The numbers from 0, and the runs in which they were taken."""

    def __init__(self, end: int = 10**6) -> None:
        self.next = 0
        self.end = end
        self.runs: list[list[int]] = []

    def draw(self, n: int) -> list[int]:
        first, self.next = self.next, min(self.next + n, self.end)
        return list(range(first, self.next))


def test_it_draws_what_is_requested() -> None:
    numbers = Numbers()
    drawing = Drawing(numbers.draw, numbers.runs.append)
    drawing.request(3)
    drawing.request(2)
    assert numbers.runs == [[0, 1, 2], [3, 4]]


def test_a_request_from_inside_is_answered_after_it() -> None:
    numbers = Numbers()

    def take(run: list[int]) -> None:
        numbers.runs.append(run)
        if len(numbers.runs) < 3:
            drawing.request(1)
            assert len(numbers.runs[-1]) == 1  # nothing has come meanwhile

    drawing = Drawing(numbers.draw, take)
    drawing.request(1)
    assert numbers.runs == [[0], [1], [2]]


def test_in_a_scope_other_tasks_run_between_slices() -> None:
    with VirtualScheduler() as time:
        numbers = Numbers()
        drawing = Drawing(numbers.draw, numbers.runs.append)
        drawing.request(3 * SLICE)
        assert numbers.next == SLICE
        time.advance(0.0)
        assert numbers.next == 3 * SLICE


def test_the_end_waits_for_items_that_are_being_drawn() -> None:
    numbers, told = Numbers(), list[int]()

    def take(run: list[int]) -> None:
        numbers.runs.append(run)
        drawing.end(lambda: told.append(len(numbers.runs)))
        assert told == []

    drawing = Drawing(numbers.draw, take)
    drawing.request(5)
    assert told == [1]
    drawing.end(lambda: told.append(0))
    assert told == [1, 0]


def test_it_draws_no_more_once_it_is_stopped() -> None:
    numbers = Numbers()
    drawing = Drawing(numbers.draw, numbers.runs.append)
    drawing.stop()
    drawing.request(1)
    assert numbers.runs == []
