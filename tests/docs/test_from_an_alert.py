"""The operating guide: from an alert to the culprit in three commands, each run as it stands on the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.stalls.processes import Part

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "operate.md").read_text(encoding="utf-8")
SECTION = GUIDE.partition("## From an alert to the culprit")[2].partition("\n## ")[0]


def blocks(kind: str) -> list[str]:
    """Return the blocks of the section."""
    return [textwrap.dedent(each) for each in re.findall(rf"```{kind}\n(.*?)```", SECTION, re.DOTALL)]


@asynccontextmanager
async def slow_handler(folder: Path) -> AsyncIterator[dict[str, Any]]:
    """Stage a slow handler; give what its node tells: where it listens."""
    node, *others = parts = [
        Part(each, folder / f"{each}.log") for each in ("nodes.orders", "clients.shop", "clients.slow")
    ]
    try:
        told = await node.start({"folder": str(folder)})
        async with trio.open_nursery() as nursery:
            for each in others:
                nursery.start_soon(each.start, told)
        yield told
    finally:
        with trio.CancelScope(shield=True):
            for each in parts:
                await each.end()


def shape(text: str) -> str:
    """Return a text with each number as one digit."""
    return re.sub(r"\d+(\.\d+)?(:\d+)*", "0", text)


async def run(command: str, told: Mapping[str, Any]) -> str:
    """Run a command of the page against a node; return what it prints."""
    command = command.replace("amqp://127.0.0.1:5672", told["url"]).replace(
        "127.0.0.1:15692", f"127.0.0.1:{told['http']}"
    )
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    bash = ["bash", "-euo", "pipefail", "-c", command]
    running = partial(
        subprocess.run, bash, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    done = await trio.to_thread.run_sync(running)
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.mark.slow
async def test_three_commands_lead_from_an_alert_to_the_culprit(tmp_path: Path) -> None:
    commands, printed_by_each = blocks("sh"), blocks("text")
    assert len(commands) == len(printed_by_each) == 3
    async with slow_handler(tmp_path) as told:
        for command, printed in zip(commands, printed_by_each, strict=True):
            found = ""
            with trio.move_on_after(20):
                while shape(found) != shape(printed):  # the stall takes a moment to come about
                    found = await run(command, told)
            assert shape(found) == shape(printed), found
