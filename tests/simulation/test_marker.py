"""The marker of pytest for simulations: what it says to a mistake."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

import pytest_rstreams
from rstreams.simulation import World
from rstreams.simulation.running import run_seeds


def well(world: World) -> None:
    """Set up nothing."""


def without_world() -> None:
    """Take no world."""


async def later(world: World) -> None:
    """Be async, so that nothing is set up."""


MISTAKES: dict[str, tuple[pytest.MarkDecorator, Callable[..., object], str]] = {
    "position": (pytest.mark.simulation(3), well, r"takes seeds alone"),
    "name": (pytest.mark.simulation(seed=3), well, r"takes seeds alone"),
    "world": (pytest.mark.simulation, without_world, r"takes the fixture `world`"),
    "async": (pytest.mark.simulation, later, r"is not async"),
}


@pytest.mark.parametrize(("marker", "test", "text"), MISTAKES.values(), ids=MISTAKES)
def test_a_test_that_is_no_simulation_fails_with_a_reason(
    marker: pytest.MarkDecorator, test: Callable[..., object], text: str
) -> None:
    with pytest.raises(pytest.fail.Exception, match=text):
        pytest_rstreams.check_simulation(marker.mark, test)


def test_the_seed_is_told_of_what_the_set_up_raises() -> None:
    def fail(world: World) -> None:
        assert world.seed < 2, "it is too much"
        world.start(trio.sleep, 1, name="sleeper")

    with pytest.raises(AssertionError, match="too much") as caught:
        run_seeds("it", fail, range(5))
    assert caught.value.__notes__ == ["this was the simulation with seed 2; again: --simulation-seed 2"]
