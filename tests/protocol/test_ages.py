"""The age of the oldest unsettled delivery: never too long, and too short by half a second at most; few marks."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rstreams.protocol.ages import STEP_S, Ages

TURNS = st.lists(st.tuples(st.integers(1, 5), st.floats(0, 2), st.integers(0, 5)), max_size=60)
"""Turns: how many deliveries each sends, how long after the one before, and how many are settled before it."""


@settings(max_examples=60)
@given(TURNS)
def test_a_mark_is_not_before_the_delivery_and_soon_behind_it(turns: list[tuple[int, float, int]]) -> None:
    ages, sent_at, now, oldest = Ages(), list[float](), 0.0, 0
    for count, passed_s, settled in turns:
        now += passed_s
        oldest = min(len(sent_at), oldest + settled)
        sent_at += [now] * count
        ages.note(len(sent_at), now, oldest)
        told = ages.sent_at_s(oldest)
        assert told is not None
        assert sent_at[oldest] <= told <= sent_at[oldest] + STEP_S + 1e-9
    assert ages.sent_at_s(len(sent_at)) is None


def test_what_is_never_settled_keeps_its_mark_however_many_follow() -> None:
    ages = Ages()
    for number in range(1, 10_000):
        ages.note(number, float(number), 0)
    assert ages.sent_at_s(0) == 1.0
    assert len(ages._marks) <= 64
