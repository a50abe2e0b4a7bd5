"""One process of a staged stall: it plays its part, and answers each line of its standard input with what it explains.

    python -m tests.stalls.part MODULE.FUNCTION JSON [ARGUMENT...]

It writes lines of JSON: first what the other parts need, such as its url, then an answer for each question.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import trio

from tests.stalls.answers import Answers


class Cue:
    """What a part is told, and how it tells the harness about itself.

    Attributes:
        url: The url of the node, for the parts that connect to one.
        folder: A folder of this staging.
        told: All that earlier parts have told.
    """

    def __init__(self, nursery: trio.Nursery, told: dict[str, Any]) -> None:
        self._nursery = nursery
        self.told = told
        self.url = str(told.get("url", ""))
        self.folder = Path(told["folder"])

    def ready(self, answers: Answers | None, **told: object) -> None:
        """Tell that the part plays, with what later parts need; from now on it answers."""
        say(told)
        if answers is not None:
            self._nursery.start_soon(_answer_each, answers)


async def _answer_each(answers: Answers) -> None:
    while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        say((await answers()).as_dict())


def say(told: dict[str, Any]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


async def main(function: str, told: str, *arguments: str) -> None:
    """Play a part until the process is ended."""
    logging.basicConfig(level=logging.WARNING)
    async with trio.open_nursery() as nursery:
        await part_named(function)(Cue(nursery, json.loads(told)), *arguments)


def part_named(function: str) -> Callable[..., Awaitable[object]]:
    """Return a part by its module in `tests.stalls` and its function, with a dot between."""
    module, _, name = function.rpartition(".")
    found: Callable[..., Awaitable[object]] = getattr(importlib.import_module(f"tests.stalls.{module}"), name)
    return found


if __name__ == "__main__":
    trio.run(lambda: main(*sys.argv[1:]))
