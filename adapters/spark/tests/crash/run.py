"""Runs the crash matrix and prints a table: `python -m adapters.spark.tests.crash.run --runs 100`.

The first runs are one of each cell, fault by step, with the modes in turns; the others have random times.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import trio

from adapters.spark.tests.crash.matrix import (
    FAULTS,
    LIMIT,
    LOG,
    MESSAGES,
    MODES,
    RANDOM,
    Cell,
    Matrix,
    Outcome,
    steps_of,
)


def cells(runs: int, seed: int, modes: Sequence[str] = MODES) -> list[Cell]:
    """Return what to do in `runs` runs: each cell before any is done again with another mode."""
    shuffled = random.Random(seed)  # noqa: S311 - no secret
    places = [(fault, step) for fault in FAULTS for step in steps_of(modes[0])]
    found: list[Cell] = []
    for turn in range(len(modes)):
        some = [Cell(modes[(index + turn) % len(modes)], *place) for index, place in enumerate(places)]
        shuffled.shuffle(some)
        found += [cell for cell in some if cell.possible]
        found += [Cell(modes[(turn + index) % len(modes)], fault, RANDOM) for index, fault in enumerate(FAULTS * 4)]
    while len(found) < runs:
        found.append(Cell(shuffled.choice(modes), shuffled.choice(FAULTS), RANDOM))
    return found[:runs]


async def run_cells(
    todo: Sequence[Cell], seed: int, folder: Path, histories: Path, done: Callable[[Outcome], None]
) -> None:
    """Do these runs, print a line for each, and call `done` with its outcome."""
    matrix = Matrix(folder, histories, len(todo), seed)
    try:
        await matrix.start()
        for number, cell in enumerate(todo):
            outcome = await matrix.run(cell)
            done(outcome)
            sys.stdout.write(
                f"{number:3} {cell.mode:6} {cell.fault:7} {cell.step:15} {'BAD' if outcome.problems else 'good':5} "
                f"starts {outcome.starts} {outcome.seconds:5.1f} s"
                f"{'' if outcome.reached else ' NOT REACHED'} {outcome.problems[:3] or ''} {outcome.errors[:1] or ''}\n"
            )
            sys.stdout.flush()
    finally:
        with trio.CancelScope(shield=True):
            await matrix.stop()


def table(rows: Sequence[dict[str, Any]], modes: Sequence[str] = MODES) -> str:
    """Return the table of all runs and of those that failed: a row for each step, a column for each fault."""
    lines = [f"runs/failed           {''.join(f'{fault:>12}' for fault in FAULTS)}"]
    for mode in modes:
        lines.append(f"{mode}:")
        for step in (*steps_of(mode), RANDOM):
            shown = []
            for fault in FAULTS:
                some = [row for row in rows if (row["mode"], row["fault"], row["step"]) == (mode, fault, step)]
                text = f"{len(some)}/{sum(bool(row['problems']) for row in some)}"
                shown.append(f"{text if some else '-':>12}")
            lines.append(f"  {step:20}{''.join(shown)}")
    return "\n".join(lines)


def main() -> int:
    """Do what the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of their order and of random times")
    parser.add_argument("--mode", choices=("queue", LOG), default="queue", help="what is read: queues, or logs")
    parser.add_argument("--first", type=int, default=0, help="leave out this many of the first")
    parser.add_argument("--json", type=Path, default=Path("build/crash-spark.json"), help="where to write")
    parser.add_argument("--add", action="store_true", help="add to what is there")
    given = parser.parse_args()
    modes = (LOG,) if given.mode == LOG else MODES
    todo = cells(given.first + given.runs, given.seed, modes)[given.first :]
    rows: list[dict[str, Any]] = []
    if given.add and given.json.exists():
        rows += json.loads(given.json.read_text())["runs"]
    given.json.parent.mkdir(parents=True, exist_ok=True)

    def done(outcome: Outcome) -> None:
        row = asdict(outcome) | asdict(outcome.cell)
        del row["cell"]
        rows.append(row)
        given.json.write_text(json.dumps({"messages": MESSAGES, "limit": LIMIT, "runs": rows}, indent=1))

    with tempfile.TemporaryDirectory(prefix="rstreams-crash-") as folder, suppress(KeyboardInterrupt):
        trio.run(run_cells, todo, given.seed + given.first, Path(folder), given.json.with_suffix(""), done)
    bad = [row for row in rows if row["problems"]]
    done_faults = sum(row["reached"] for row in rows)
    sys.stdout.write(f"{table(rows, modes)}\n")
    sys.stdout.write(f"crash-spark: {len(rows)} runs, {done_faults} with their fault done, {len(bad)} failed\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
