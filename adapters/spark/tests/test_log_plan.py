"""Arithmetic on the offsets of logs: shares, ranges and tasks."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rstreams_spark._logs.plan import (
    Range,
    Split,
    is_log_offset,
    made_offset,
    order,
    ranges_between,
    read_firsts,
    read_offset,
    shared_out,
    tasks_of,
)

from rstreams.errors import ConfigError

KEYS = st.builds("{}/{}".format, st.sampled_from(["events", "a/b", "x"]), st.integers(0, 12))
POSITIONS = st.dictionaries(KEYS, st.integers(0, 500), max_size=6)
SPLITS = st.builds(Split, st.none() | st.integers(1, 30), st.none() | st.integers(1, 100))


@given(POSITIONS, POSITIONS, SPLITS)
def test_tasks_have_each_offset_of_a_batch_once_and_in_order(
    begin: dict[str, int], end: dict[str, int], split: Split
) -> None:
    tasks = tasks_of(ranges_between(begin, end), split)
    assert [order(each.key) for each in tasks] == sorted(order(each.key) for each in tasks)
    for key, last in end.items():
        offsets = [offset for each in tasks if each.key == key for offset in range(each.first, each.end)]
        first = begin.get(key, 0)
        assert offsets == list(range(first if first <= last else 0, last))
    assert all(each.messages for each in tasks)


@given(POSITIONS, SPLITS)
def test_tasks_are_as_many_and_as_small_as_asked_for(end: dict[str, int], split: Split) -> None:
    ranges = ranges_between({}, end)
    tasks = tasks_of(ranges, split)
    if split.max_records is not None:
        assert all(each.messages <= split.max_records for each in tasks)
    total = sum(each.messages for each in ranges)
    assert len(tasks) >= min(split.min_partitions or 0, total)
    if split == Split():
        assert tasks == ranges


@given(POSITIONS, POSITIONS, SPLITS, POSITIONS)
def test_the_tasks_of_a_batch_follow_from_its_offsets_as_the_checkpoint_has_them(
    begin: dict[str, int], end: dict[str, int], split: Split, firsts: dict[str, int]
) -> None:
    stored = json.loads(json.dumps(made_offset(end, split, firsts), sort_keys=True))
    assert read_firsts(stored) == firsts
    if end:
        assert read_offset(stored) == (end, split)
        assert tasks_of(ranges_between(begin, read_offset(stored)[0]), read_offset(stored)[1]) == tasks_of(
            ranges_between(begin, end), split
        )


@given(POSITIONS, st.integers(1, 3_000))
def test_shares_are_no_more_than_the_limit_and_no_more_than_what_waits(waiting: dict[str, int], most: int) -> None:
    shares = shared_out(waiting, most)
    assert shares.keys() == waiting.keys()
    assert all(0 <= shares[key] <= waiting[key] for key in waiting)
    assert sum(shares.values()) == min(most, sum(waiting.values()))


def test_shares_are_in_proportion_and_no_partition_starves() -> None:
    assert shared_out({"a/0": 900, "a/1": 100, "a/2": 0}, 100) == {"a/0": 90, "a/1": 10, "a/2": 0}
    assert shared_out({"a/0": 10**9, "a/1": 1}, 10) == {"a/0": 9, "a/1": 1}
    assert shared_out({"a/0": 5, "a/1": 7, "a/2": 6}, 2) == {"a/0": 0, "a/1": 1, "a/2": 1}


def test_a_partition_that_ends_before_it_begins_was_made_anew() -> None:
    assert ranges_between({"a/0": 50, "a/10": 3, "a/9": 3}, {"a/0": 20, "a/10": 4, "a/9": 3}) == [
        Range("a/0", 0, 20),
        Range("a/10", 3, 4),
    ]


@pytest.mark.parametrize(
    "offset",
    [{}, {"messages": 4, "address": "in"}, {"a/0": -1}, {"a/0": "4"}, {"a/0": True}, {"a/x": 4}, {"a/0": 4, "b": 1}],
)
def test_an_offset_of_another_kind_is_refused(offset: dict[str, object]) -> None:
    assert not is_log_offset(offset)
    with pytest.raises(ConfigError, match="which is not one of a log"):
        read_offset(offset)
