"""When a blocked stage looks for a deadlock: in a turn of its own, then more and more seldom, until it moves."""

from __future__ import annotations

from rstreams._core.sight import Scannable, Waits, Way
from rstreams._stages.lookout import LOOK_AGAIN_AT_MOST_S, Lookout
from rstreams.errors import DemandDeadlock
from rstreams.testing import VirtualScheduler


class Stage(Scannable):
    """A stage that says whether it is blocked, and counts how often it is asked what it waits for."""

    operator = "stage"
    part_name = "part"
    numbers = (1, 2, 2)
    stands = "keeps {kept} items"

    def __init__(self, *, dead: bool) -> None:
        self.blocked = True
        self.dead = dead
        self.looks = 0
        self.error: BaseException | None = None

    def waits_to(self, way: Way) -> Waits:
        self.looks += 1
        return [(way, Reader())] if self.dead else None

    def disconnect(self, error: BaseException) -> None:
        self.error = error


class Reader(Scannable):
    """A reader that waits for nothing but the stage."""

    operator = "reader"

    def waits_to(self, way: Way) -> Waits:  # noqa: ARG002 - the answer is the same for every way
        return []

    def takes(self, blocked: object) -> tuple[str, int]:  # noqa: ARG002 - there is only one
        return "reader takes one stream", 1


def test_a_stage_that_can_never_move_is_ended_in_the_next_turn() -> None:
    with VirtualScheduler() as time:
        stage = Stage(dead=True)
        Lookout(stage).begin(time)
        assert stage.error is None
        time.advance(0.0)
        assert isinstance(stage.error, DemandDeadlock)
        assert str(stage.error) == "stage keeps 2 items; reader takes one stream"


def test_a_stage_that_may_move_is_looked_at_again_more_and_more_seldom() -> None:
    with VirtualScheduler() as time:
        stage = Stage(dead=False)
        Lookout(stage).begin(time)
        time.advance(1.0)
        early = stage.looks
        assert 5 < early < 10
        time.advance(10 * LOOK_AGAIN_AT_MOST_S)
        assert 8 <= stage.looks - early <= 11


def test_it_stops_when_the_stage_moves_or_ends() -> None:
    with VirtualScheduler() as time:
        moving, ended = Stage(dead=False), Stage(dead=True)
        Lookout(moving).begin(time)
        moving.blocked = False
        lookout = Lookout(ended)
        lookout.begin(time)
        lookout.stop()
        time.advance(10.0)
        assert (moving.looks, ended.looks) == (0, 0)


def test_without_a_scope_there_is_no_look() -> None:
    stage = Stage(dead=True)
    Lookout(stage).begin(None)
    assert stage.looks == 0
