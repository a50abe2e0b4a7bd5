"""What strangers do to a node in a process of its own: its memory stays small, and others are served meanwhile.

How long they wait, in milliseconds, `python -m benchmarks.hostile` shows: a busy machine may not fail a test.
"""

from __future__ import annotations

import pytest

from benchmarks.hostile import ATTACKS, KIB_A_LINK, MAX_MIB, MAX_UNSETTLED, MORE_MIB, attacked

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COUNTED = {
    "never_settles/served": MAX_UNSETTLED,
    "never_settles/queue": MAX_UNSETTLED,
    "links_10000": 10_000,
    "links_10000/with_items": 10_000,
    "connections_3000": 3000,
    "connections_3000/all_let_in": 3000,
}
ANSWERS = 20
"""So many answers the innocent client gets at least, while each attack lasts for seconds."""


WAITS_ALONE = ("ends_with_1000000", "leave_900/close", "leave_900/hang_up", "arrive_11000")
"""Attacks that show only how long others wait."""


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in WAITS_ALONE])
def test_the_memory_of_the_node_stays_small_and_others_are_served(name: str) -> None:
    attack, options = ATTACKS[name]
    seen = attacked(attack, **options)
    if name in KIB_A_LINK:  # the version of Python decides how much its objects take
        assert seen.kib_each < KIB_A_LINK[name]
    else:
        assert seen.peak_mib < MORE_MIB.get(name, MAX_MIB)
    assert len(seen.waits_ms) >= ANSWERS
    if name in COUNTED:
        assert seen.told == COUNTED[name]
    if name == "unfinished_messages":
        assert seen.told > 0


def test_a_connection_that_ends_with_a_million_deliveries_stalls_nobody() -> None:
    attack, options = ATTACKS["ends_with_1000000"]
    seen = attacked(attack, **options)
    assert seen.told >= 1_000_000
    assert len(seen.waits_ms) >= ANSWERS
