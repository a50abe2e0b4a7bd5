"""Runs the simulation with planted faults in the product, one after the other: each must be found.

    python -m tests.mutants.run                 all faults
    python -m tests.mutants.run 03 17           only these
    python -m tests.mutants.run --seeds 100     at most 100 seeds of each workload

For each fault the product is copied, changed there, and simulated in a process of its own, over all workloads, until a
run fails. Two faults are looked for at a time. The run that has failed must pass without the fault.

The simulation's command ends with 0 if no run has failed, and with 1 if one has; its file then says which. A run that
ends its process has failed, too: a delivery that is settled twice is not there any more, and the engine is in C. If the
command ends in another way, the fault has broken the program, and counts as failed, not as found.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from tests.mutants.planted import Mutant, NotThere, copy_product, mutants

SIMULATION: Final = (sys.executable, "-m", "rstreams.simulation", "--workload", "all,spool:workload")
"""The command; the options `--seeds N --jobs N --until-failure --json FILE` follow."""

DEFAULT_SEEDS: Final = 1000
DEFAULT_LIMIT_S: Final = 1800.0

_AT_A_TIME: Final = 2
_CRASH: Final = re.compile(r"--workload (\S+): (its process has ended) in the run with seed (\d+)")
_RESULT: Final = Path("build/simulate/mutants.json")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the simulation found.

    Attributes:
        kind: "found": a run failed. "not found": none did. "error": the simulation did not work.
        workload: The workload that failed.
        seed: Its seed.
        runs: How many runs there were; None if the simulation does not say.
        finding: What it found first, or why it did not work.
        took_s: How long it took, in seconds.
    """

    kind: Literal["found", "not found", "error"]
    workload: str = ""
    seed: int | None = None
    runs: int | None = None
    finding: str = ""
    took_s: float = 0.0

    def __str__(self) -> str:
        """Return it in one line."""
        if self.kind == "error":
            return f"ERROR: {self.finding}"
        after = "" if self.runs is None else f" after {self.runs} runs"
        if self.kind == "not found":
            return f"NOT FOUND{after}"
        return f"found by {self.workload} at seed {self.seed}{after}: {self.finding}"


class Simulation:
    """The simulation of copies of the product.

    Args:
        command: The command without its options.
        seeds: The most seeds of each workload.
        limit_s: How long the simulation of one copy may take, in seconds.
    """

    def __init__(self, command: Sequence[str], seeds: int, limit_s: float) -> None:
        self._command = command
        self._seeds = seeds
        self._limit_s = limit_s

    def of(self, mutant: Mutant) -> Outcome:
        """Simulate the product with a fault, and the run that finds it without the fault."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="rstreams-mutant-") as name:
            folder, clean, found = Path(name) / "product", Path(name) / "clean", Path(name) / "found.json"
            copy_product(folder)
            copy_product(clean)
            try:
                mutant.apply(folder)
                outcome = self._run(folder, found, ("--seeds", str(self._seeds)))
                if outcome["kind"] == "found":
                    again = ("--workload", outcome["workload"], "--seed", str(outcome["seed"]), "--seeds", "1")
                    without = self._run(clean, found, again)
                    if without["kind"] != "not found":
                        text = f"{outcome['workload']} fails with seed {outcome['seed']} without the fault, too"
                        outcome = {"kind": "error", "finding": f"{text}: {without['finding']}"}
            except NotThere as error:
                outcome = {"kind": "error", "finding": str(error).splitlines()[0]}
        return Outcome(**outcome, took_s=round(time.monotonic() - began, 1))

    def _run(self, folder: Path, found: Path, which: Sequence[str]) -> dict[str, Any]:
        environ = {**os.environ, "PYTHONPATH": str(folder)}
        command = [*self._command, *which, "--jobs", "1", "--until-failure", "--json", str(found)]
        with subprocess.Popen(
            command,
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=self._limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return {"kind": "error", "finding": f"it took longer than {self._limit_s:g} s"}
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode not in {0, 1}:
            if crash := _CRASH.search(said):
                workload, finding, seed = crash.groups()
                return {"kind": "found", "workload": workload, "seed": int(seed), "finding": finding}
            last = (said.strip().splitlines() or ["nothing said"])[-1]
            return {"kind": "error", "finding": f"exit code {process.returncode}: {last:.300}"}
        try:
            return read_found(json.loads(found.read_text("utf-8")), failed=process.returncode == 1)
        except (OSError, ValueError) as error:
            last = (said.strip().splitlines() or ["nothing said"])[-1]
            text = f"exit code {process.returncode} without a readable file ({error}): {last:.300}"
            return {"kind": "error", "finding": text}


def read_found(told: dict[str, Any], *, failed: bool) -> dict[str, Any]:
    """Return what the file of the simulation says.

    Errors: `ValueError` if it does not name the run that failed.
    """
    runs = told.get("runs")
    if not failed:
        return {"kind": "not found", "runs": runs}
    if not told.get("failed"):
        msg = "it names no failure"
        raise ValueError(msg)
    first = told["failed"][0]
    findings = first.get("findings") or ["no finding"]
    finding = findings[0] if isinstance(findings[0], str) else json.dumps(findings[0])
    return {
        "kind": "found",
        "workload": first.get("workload", ""),
        "seed": first.get("seed"),
        "runs": runs,
        "finding": finding.splitlines()[0][:300],
    }


def main(arguments: Sequence[str] | None = None, command: Sequence[str] = SIMULATION, result: Path = _RESULT) -> int:
    """Run the faults that the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("numbers", nargs="*", metavar="NUMBER", help="the faults, such as 03 17; all by default")
    parser.add_argument("--seeds", type=int, default=DEFAULT_SEEDS, help="the most seeds of each workload")
    parser.add_argument("--limit-s", type=float, default=DEFAULT_LIMIT_S, help="the most seconds for one fault")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: it must be 1 or more")
    if options.limit_s <= 0:
        parser.error(f"--limit-s {options.limit_s}: it must be more than 0 seconds")
    known = {each.number: each for each in mutants()}
    for number in options.numbers:
        if number not in known:
            parser.error(f"{number}: no such fault; there are {min(known)} to {max(known)}")
    chosen = [known[number] for number in options.numbers] or list(known.values())
    simulation = Simulation(command, options.seeds, options.limit_s)

    outcomes: dict[str, Outcome] = {}

    def look_for(mutant: Mutant) -> None:
        outcome = outcomes[mutant.number] = simulation.of(mutant)
        _say(f"{mutant.number} {mutant.name}: {outcome} ({outcome.took_s:g} s)")

    with ThreadPoolExecutor(_AT_A_TIME) as workers:
        list(workers.map(look_for, chosen))
    found = sum(outcome.kind == "found" for outcome in outcomes.values())
    failed = len(chosen) - found
    rows = [
        {"number": each.number, "name": each.name, "area": each.area, **asdict(outcomes[each.number])}
        for each in chosen
    ]
    result.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"seeds": options.seeds, "found": found, "failed": failed, "mutants": rows}, indent=2)
    result.write_text(text + "\n", "utf-8")
    left = [each.number for each in chosen if outcomes[each.number].kind != "found"]
    which = f": {' '.join(left)}" if left else ""
    _say(f"simulate-mutants: {len(chosen)} planted faults, {found} found, {failed} failed{which}")
    return int(failed > 0)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the command prints


if __name__ == "__main__":
    sys.exit(main())
