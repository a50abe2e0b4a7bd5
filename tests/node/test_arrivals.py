"""When messages came: an age is at most a tenth and a step too high, whatever came when, and the memory is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rstreams.node.arrivals import MOST, PART, STEP_S, Arrivals

PAUSES = st.one_of(st.just(0.0), st.floats(0.0, 1.0), st.floats(1.0, 1e6))


@given(runs=st.lists(st.tuples(PAUSES, st.integers(1, 5)), min_size=1, max_size=60), later_s=PAUSES)
def test_a_message_that_has_waited_is_about_as_old_as_told(runs: list[tuple[float, int]], later_s: float) -> None:
    arrivals, now, came = Arrivals(), 0.0, [0.0]  # the numbers of messages begin with 1
    for pause_s, count in runs:
        now += pause_s
        came += [now] * count
        arrivals.note(len(came), now)
    now += later_s
    for number, at in enumerate(came[1:], 1):
        told = arrivals.time_of(number, now)
        assert at - STEP_S - 1e-6 <= told <= at
    assert arrivals.time_of(len(came), -1.0) == -1.0, "nobody knows when a message came that has not waited"


def test_a_year_of_messages_takes_little_memory_and_the_newest_are_told_best() -> None:
    arrivals, now, came = Arrivals(), 0.0, []
    while now < 365 * 86400:
        came.append(now)
        arrivals.note(len(came) + 1, now)
        now += 0.2 if now > 365 * 86400 - 2000 else 3600.0
    assert len(arrivals._times) <= MOST
    for number, at in enumerate(came, 1):
        told = arrivals.time_of(number, now)
        assert 0 <= at - told <= PART * (now - at) + STEP_S


def test_messages_that_go_straight_through_between_others_count_from_the_next_one_that_waits() -> None:
    arrivals = Arrivals()
    arrivals.note(3, 10.0)
    arrivals.note(9, 50.0)  # 3 to 7 found somebody who took them
    assert [arrivals.time_of(each, 99.0) for each in (2, 3, 7, 8, 9)] == [10.0, 50.0, 50.0, 50.0, 99.0]


def test_messages_get_other_numbers() -> None:
    arrivals = Arrivals()
    arrivals.note(4, 1.0)
    arrivals.note(8, 2.0)
    arrivals.renumber(lambda number: number - min(2, max(0, number - 2)))  # the second and the third have gone
    assert [arrivals.time_of(each, 99.0) for each in (1, 2, 5, 6)] == [1.0, 2.0, 2.0, 99.0]
