"""The last release against the working tree: clients and nodes both ways, stores, Spark's checkpoints.

    python -m tests.compat.run [CASE...]

The file `RELEASE` says which revision the last release is. It is built from the repository's history, into an
environment of its own. Then each case runs with a process of either version, and counts every message.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

import trio

from tests.compat.cases import CASES, SPARK, STORE
from tests.compat.environment import BUILD, Environment, NoEnvironment, hash_of, released
from tests.compat.pair import Pair
from tests.compat.processes import Version, new_version, started
from tests.compat.results import Job, Result

CASE_S: Final = 1200.0
"""The longest time of a case, also of one with Spark on a busy machine."""


async def _pair(
    case: Callable[[Pair], Awaitable[None]], client: Version, node: Version, folder: Path, to: Result
) -> None:
    async with started(client, folder / "client.log") as one, started(node, folder / "node.log") as other:
        pair = Pair(one, other, folder)
        try:
            await case(pair)
        finally:
            to.problems += pair.problems
            to.messages = pair.counted


def jobs(names: Sequence[str], old: Version, new: Version) -> list[tuple[Result, Job]]:
    """Return what there is to do for the cases with these names."""
    made: list[tuple[Result, Job]] = []
    for name in names:
        if name in CASES:
            for client, node in ((old, new), (new, old)):
                job: Job = partial(_pair, CASES[name], client, node)
                made.append((Result(name, f"{client.name} client, {node.name} node"), job))
        else:
            several = STORE[name] if name in STORE else SPARK[name]
            made += [(Result(name, who), job) for who, job in several(old, new)]
    return made


async def run(work: Sequence[tuple[Result, Job]], folder: Path, say: Callable[[str], None]) -> list[Result]:
    """Do all of it, one after the other; print a line for each."""
    for number, (result, job) in enumerate(work):
        place = folder / str(number)
        place.mkdir()
        begin = time.monotonic()
        try:
            with trio.fail_after(CASE_S):
                await job(place, result)
        except* Exception as group:
            result.problems += [f"{type(error).__name__}: {error}" for error in _leaves(group)]
        result.seconds = round(time.monotonic() - begin, 1)
        say(result.line())
        for problem in result.problems:
            say(f"    {problem:.400}")
        if result.problems:
            for log in sorted(place.glob("*.log")):
                for line in log.read_text(errors="replace").strip().splitlines()[-5:]:
                    say(f"    {log.stem}: {line}")
    return [result for result, _ in work]


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for each in error.exceptions for leaf in _leaves(each)]
    return [error]


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a command prints


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; print a line for each and one for all; return 1 if something was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.compat.run", description="the last release against this tree"
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="the cases to run; all without one")
    parser.add_argument("--json", type=Path, default=BUILD / "compat.json")
    options = parser.parse_args(arguments)
    known = [*CASES, *STORE, *SPARK]
    unknown = [name for name in options.cases if name not in known]
    if unknown:
        _say(f"compat: there is no case {', '.join(map(repr, unknown))}; there are: {', '.join(known)}")
        return 2
    names = options.cases or known
    try:
        environment = Environment(hash_of(released()))
        environment.make("core", lambda line: _say(f"compat: {line}"))
        if set(names) & set(SPARK):
            environment.make("spark", lambda line: _say(f"compat: {line}"))
    except NoEnvironment as error:
        _say(f"compat: {error}")
        return 2
    old = Version("old", environment.python, environment.folder)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rstreams-compat-") as folder:
        results = trio.run(run, jobs(names, old, new_version()), Path(folder), _say)
    failed = [result for result in results if result.problems]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    told = {
        "revision": environment.revision,
        "seconds": round(time.monotonic() - begin, 1),
        "cases": [asdict(result) for result in results],
        "failed": len(failed),
    }
    options.json.write_text(json.dumps(told, indent=2) + "\n")
    which = "".join(f"; {result.case}, {result.who}" for result in failed)
    _say(f"compat: {len(results)} cases with {environment.revision[:12]}, {len(failed)} failed{which}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
