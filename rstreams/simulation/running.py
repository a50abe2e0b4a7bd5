"""Runs workloads: one seed at a time, judged, and shrunk to the fewest faults with which it still fails."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Final, TypeAlias

from rstreams.simulation.checker import HistoryError, check
from rstreams.simulation.surroundings import SimulationError
from rstreams.simulation.world import World

Workload: TypeAlias = Callable[[World], object]
"""Sets up the parts of a world, and its weather, from the seed of the world."""

LIMIT_S: Final = 600.0
"""How long a world may run, in seconds of its own clock; then its programs count as stalled."""

LATE: Final = "late"
"""The kind of what is found when a run has taken the processor for too long."""

_OWN: Final = "rstreams.simulation.workloads"

SMALL: Final = "/small"
"""What follows the name of a workload that runs in small worlds; see `World.how_many`."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one run.

    Attributes:
        workload: The name of the workload.
        seed: The seed.
        findings: What is wrong, each in one sentence that begins with its kind; none: all is well.
        digest: A number of all bytes of the run.
        faults: How many faults there were.
        plan: If something is wrong: the faults of the weather, as text; of a run that was shrunk those that are left.
        only: The numbers of these faults.
        took_s: How long the run took the processor, in seconds.
    """

    workload: str
    seed: int
    findings: list[str]
    digest: str
    faults: int
    plan: list[str] = field(default_factory=list)
    only: list[int] = field(default_factory=list)
    took_s: float = 0.0

    @property
    def kinds(self) -> set[str]:
        """The kinds of the findings."""
        return {finding.partition(":")[0] for finding in self.findings}


def names() -> list[str]:
    """Return the names of the workloads that come with rstreams."""
    package = import_module(_OWN)
    return sorted(each.name for each in iter_modules(package.__path__) if not each.name.startswith("_"))


def find(name: str) -> Workload:
    """Return a workload: by its name, or as `module:function`; in small worlds if `/small` follows.

    Errors: `SimulationError` that names those there are.
    """
    if name.endswith(SMALL):
        return _small(find(name.removesuffix(SMALL)))
    module, _, function = name.partition(":")
    try:
        if function:
            found = getattr(import_module(module), function, None)
        elif name in names():
            found = import_module(f"{_OWN}.{name}").workload
        else:
            found = None
    except ImportError as error:
        msg = f"--workload {name}: it cannot be imported: {error}"
        raise SimulationError(msg) from error
    if not callable(found):
        msg = f"--workload {name}: there is no such workload; it may be all, MODULE:FUNCTION, or {', '.join(names())}"
        raise SimulationError(msg)
    workload: Workload = found
    return workload


def _small(workload: Workload) -> Workload:
    def of(world: World) -> object:
        world.is_small = True
        return workload(world)

    return of


def make(workload: Workload, seed: int, only: Sequence[int] | None = None) -> World:
    """Set up a world; `World.run` then runs it.

    Args:
        workload: What happens in it.
        seed: Its seed.
        only: The numbers of the faults of its weather that happen; None: all do.
    """
    world = World(seed, LIMIT_S, None if only is None else frozenset(only))
    world.history.note("run", seed=seed)
    made = workload(world)
    if inspect.iscoroutine(made):
        made.close()
        msg = "a workload sets up a world, and is not async"
        raise SimulationError(msg)
    return world


def run(name: str, workload: Workload, seed: int, only: Sequence[int] | None = None) -> Result:
    """Run a workload with a seed, and judge its history."""
    began = time.process_time()
    world = make(workload, seed, only)
    findings = judge(world)
    numbers = [number for number in range(len(world.plan)) if findings and (only is None or number in only)]
    return Result(
        name,
        seed,
        findings,
        world.digest,
        world.faults,
        [str(world.plan[number]) for number in numbers],
        numbers,
        time.process_time() - began,
    )


def judge(world: World) -> list[str]:
    """Run a world; return what is wrong, each in one sentence."""
    found = []
    try:
        world.run()
    except SimulationError as error:
        if world.is_late:
            return [f"{LATE}: {error}"]
        if not world.refusals:
            found.append(f"stalled: {error}")
    except BaseException as error:  # a program's failure is what is looked for, also by `sys.exit` or `pytest.fail`
        if isinstance(error, KeyboardInterrupt):
            raise
        world.error = error
        found.append(f"failed: {_text(error)}")
    try:
        found += [f"{finding.kind}: {finding.text}" for finding in check(world.history.events)]
    except HistoryError as error:
        found.append(f"history: {error}")
    refused = [f"refused: {text}" for text in dict.fromkeys(world.refusals)]
    return refused + found + [f"log: {line}" for line in world.failures]


def _text(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def shrink(result: Result, workload: Workload) -> Result:
    """Return the run of the same seed with the fewest faults that still has a finding of the same kind.

    Parts of the list are left out, at first halves, then smaller ones, until no single fault can be left out. A run
    that was late is returned as it is, because each try would take as long.
    """
    if LATE in result.kinds:
        return result
    smallest, left = result, list(result.only)
    size = (len(left) + 1) // 2
    while left:
        begin, shorter = 0, False
        while begin < len(left):
            fewer = left[:begin] + left[begin + size :]
            tried = run(result.workload, workload, result.seed, fewer)
            if tried.kinds & result.kinds:
                smallest, left, shorter = tried, fewer, True
            else:
                begin += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return smallest


def write_failure(folder: Path, workload: Workload, result: Result) -> Path:
    """Write the history and the log of a run into a folder; return the file of the history."""
    world = make(workload, result.seed, result.only)
    judge(world)
    name = f"{result.workload.replace(':', '.').replace('/', '.')}-{result.seed}"
    history = folder / f"{name}.jsonl"
    world.history.write(history)
    (folder / f"{name}.log").write_text("\n".join(world.log) + "\n", "utf-8")
    return history


def run_seeds(name: str, workload: Workload, seeds: Sequence[int]) -> tuple[str, BaseException | None] | None:
    """Run a workload with several seeds, until one fails; a part of the pytest plugin.

    Returns: What failed and how to have it again, and what a program has raised; None if all is well.
    """
    for seed in seeds:
        try:
            failed = run(name, workload, seed)
        except BaseException as error:  # what the set-up raises
            error.add_note(f"this was the simulation with seed {seed}; again: --simulation-seed {seed}")
            raise
        if failed.findings:
            smallest = shrink(failed, workload)
            world = make(workload, seed, smallest.only)
            judge(world)
            lines = [
                f"the simulation fails with seed {seed}; again: --simulation-seed {seed}",
                *(f"fault: {each}" for each in smallest.plan),
                *smallest.findings,
            ]
            return "\n".join(lines), world.error
    return None
