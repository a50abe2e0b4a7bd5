"""The staged stalls that need no process of their own, all in this one: the same parts, and the same questions."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.stalls import answers
from tests.stalls.answers import Answer, Answers
from tests.stalls.part import Cue, part_named
from tests.stalls.stagings import STALLS, TRIALS, Staging

SLOW = {"clients.blocked", "spark_job.slow_trigger", "hostile.play wide", "hostile.play huge"}
"""What blocks this process, or takes seconds of it."""

TOGETHER = [each for each in (*STALLS, *TRIALS) if not (each.stopped or each.small_disk) and not SLOW & set(each.parts)]


class Twin(Cue):
    """The cue of a part in this process."""

    def __init__(self, nursery: trio.Nursery, told: dict[str, Any]) -> None:
        super().__init__(nursery, told)
        self.plays = trio.Event()
        self.answers: Answers | None = None

    def ready(self, answers: Answers | None, **told: object) -> None:
        self.told.update(told)
        self.answers = answers
        self.plays.set()


@pytest.mark.slow
@pytest.mark.parametrize("staging", TOGETHER, ids=lambda each: each.title)
async def test_each_side_names_the_culprit(staging: Staging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "WITHIN_S", 1.5)
    said: dict[str, Answer] = {}
    logging.getLogger("rstreams").setLevel(logging.CRITICAL)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            asked = await begin(staging, nursery, tmp_path)
            with trio.move_on_after(5):
                while not said or not all(answer.is_right(staging.truth) for answer in said.values()):
                    await trio.sleep(0.05)
                    for part, ask in asked.items():
                        said[part] = await ask()
            nursery.cancel_scope.cancel()
    for part, answer in said.items():
        assert answer.is_right(staging.truth), (
            f"{part} says {answer.kind} {answer.name}: {answer.sentence}\n{answer.text}"
        )


async def begin(staging: Staging, nursery: trio.Nursery, folder: Path) -> dict[str, Answers]:
    """Have all parts play; return those that answer."""
    asked: dict[str, Answers] = {}
    told: dict[str, Any] = {"folder": str(folder)}
    for at, part in enumerate(staging.parts):
        function, *arguments = part.split()
        cue = Twin(nursery, dict(told))
        nursery.start_soon(part_named(function), cue, *arguments)
        await cue.plays.wait()
        if at < staging.nodes:
            told = cue.told
        if cue.answers is not None and part not in staging.silent:
            asked[part] = cue.answers
    return asked
