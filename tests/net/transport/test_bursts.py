"""How many items of a burst are sent ahead."""

from __future__ import annotations

from rstreams.net.transport.pump import BURSTS_WITH_FEW, FEW_AHEAD, MOST_AHEAD, QUIET_S, Bursts


class Clock:
    """Emits bursts of items, which are a second apart."""

    def __init__(self) -> None:
        self.bursts = Bursts()
        self.now = 0.0

    def burst(self, items: int) -> int:
        """Emit items right one behind the other; return how many are sent ahead."""
        self.now += 1
        return sum(self.bursts.take(self.now) for _ in range(items))


def test_short_bursts_are_sent_ahead_as_a_whole() -> None:
    clock = Clock()
    assert [clock.burst(size) for size in (1, 2, 10, MOST_AHEAD, 10)] == [1, 2, 10, MOST_AHEAD, 10]


def test_little_of_the_bursts_behind_a_long_one_is_sent_ahead() -> None:
    clock = Clock()
    few = [FEW_AHEAD] * BURSTS_WITH_FEW
    assert [clock.burst(100) for _ in range(2 * BURSTS_WITH_FEW + 3)] == [
        MOST_AHEAD,
        *few,
        MOST_AHEAD,
        *few,
        MOST_AHEAD,
    ]


def test_when_bursts_are_short_again_they_are_sent_ahead() -> None:
    clock = Clock()
    clock.burst(100)
    for _ in range(BURSTS_WITH_FEW):
        clock.burst(1)
    assert [clock.burst(10) for _ in range(10)] == [10] * 10


def test_a_turn_ends_a_burst_and_a_busy_connection_has_none() -> None:
    bursts = Bursts()
    bursts.turned_at = 1.0
    assert not bursts.take(1.0 + QUIET_S / 2)
    assert bursts.take(1.0 + 1.5 * QUIET_S)
    assert bursts.take(1.0 + 1.6 * QUIET_S), "a burst goes on, however quickly"
    bursts.turned_at = 1.0 + 1.7 * QUIET_S
    assert not bursts.take(1.0 + 1.8 * QUIET_S)
    assert [bursts.take(2.0) for _ in range(10)] == [True] * 10, "it was a short burst, which the turn has ended"
