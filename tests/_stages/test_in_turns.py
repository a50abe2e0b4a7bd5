"""A loop of steps: never inside itself, and with a pause for others when its turn is over."""

from __future__ import annotations

from rstreams._stages.in_turns import InTurns
from rstreams.testing import VirtualScheduler


def test_it_goes_on_as_long_as_there_are_steps_and_never_inside_itself() -> None:
    left, depth = [5], [0]

    def step() -> bool:
        depth[0] += 1
        assert depth[0] == 1
        loop.run()
        depth[0] -= 1
        left[0] -= 1
        return left[0] > 0

    loop = InTurns(step)
    loop.run()
    assert (left, loop.moves) == ([0], False)


def test_a_long_loop_leaves_the_rest_to_later_turns() -> None:
    with VirtualScheduler() as time:
        left = [100_000]

        def step() -> bool:
            left[0] -= 1
            return left[0] > 0

        loop = InTurns(step)
        loop.run()
        assert loop.moves
        assert left[0] > 0
        time.advance(0.0)
        assert (left, loop.moves) == ([0], False)


def test_a_later_turn_can_be_stopped() -> None:
    with VirtualScheduler() as time:
        made = [0]

        def step() -> bool:
            made[0] += 1
            return True

        loop = InTurns(step)
        loop.run()
        before = made[0]
        loop.stop()
        time.advance(1.0)
        assert (made[0], loop.moves) == (before, False)
