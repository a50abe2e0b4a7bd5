"""How much a queue keeps."""

from __future__ import annotations

import math

from rstreams.node.limits import Limits


def test_what_is_behind_a_large_message_may_fit() -> None:
    run = [bytes(10), bytes(100), bytes(10), bytes(10)]
    assert Limits(3, 50).fitting(run, 1, 20) == [True, False, True, False]
    assert Limits(None, 50).fitting(run, 1, 20) == [True, False, True, True]
    assert Limits().fitting(run, 10**6, 10**9) == [True] * 4


def test_places_count_with_the_mean_size() -> None:
    assert Limits(10, None).free_places(4, 10**9, 100.0) == 6
    assert Limits(10, 1000).free_places(4, 800, 100.0) == 2
    assert Limits().free_places(4, 800, 100.0) == math.inf


def test_an_empty_queue_has_a_place_for_a_message_of_any_size() -> None:
    assert Limits(None, 10).free_places(0, 0, 10_000.0) == 1
    assert Limits(None, 10).free_places(1, 5, 10_000.0) == 0
