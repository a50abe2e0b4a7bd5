"""The command of the simulation.

python -m rstreams.simulation --workload all --seeds 200
python -m rstreams.simulation --workload queues --seed 17 --frames
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Final

from rstreams.simulation.frames import frame_lines
from rstreams.simulation.pool import Job, Pool
from rstreams.simulation.running import SMALL, Result, find, judge, make, names, write_failure
from rstreams.simulation.surroundings import SimulationError

_SHRUNK: Final = 3
"""The most failures that are shrunk."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code: 1 if a run has failed, 2 for a mistake in the command."""
    options = _parser().parse_args(arguments)
    try:
        given = options.workload.split(",")
        workloads = [each for name in given for each in _every(name)]
        for name in workloads:
            find(name)
        if options.frames:
            return _replay(workloads, options.seed, options.faults)
        return _run_all(workloads, options)
    except (SimulationError, OSError) as error:
        print(f"rstreams.simulation: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _every(name: str) -> list[str]:
    small = SMALL if name.endswith(SMALL) else ""
    return [each + small for each in names()] if name == f"all{small}" else [name]


def _replay(workloads: list[str], seed: int, faults: list[int] | None) -> int:
    if len(workloads) != 1:
        msg = "--frames: it prints the frames of one workload: give its name with --workload"
        raise SimulationError(msg)
    world = make(find(workloads[0]), seed, faults)
    lines = frame_lines(world)
    findings = judge(world)
    print("\n".join(sorted([*lines, *world.log], key=lambda line: float(line.split(maxsplit=1)[0]))))
    print("\n".join(findings))
    print(f"simulate: {workloads[0]} with seed {seed}, {world.digest}, {len(findings)} failed")
    return 1 if findings else 0


def _run_all(workloads: list[str], options: argparse.Namespace) -> int:
    if options.faults is not None:
        msg = "--faults: it is for one run: give --frames as well"
        raise SimulationError(msg)
    pool = Pool(max(options.jobs, 2 if options.twice else 1))  # the second time in another process
    began, results, failed, different = time.perf_counter(), [], [], []
    jobs = [(name, seed) for seed, name in product(range(options.seed, options.seed + options.seeds), workloads)]
    try:
        for result in _with_progress(pool.run(jobs), len(jobs)):
            results.append(result)
            if result.findings:
                failed.append(result)
                print(f"{result.workload} fails with seed {result.seed}: {result.findings[0]}")
                if options.until_failure:
                    break
        again: list[Job] = [(each.workload, each.seed) for each in results if each.seed < options.seed + options.twice]
        digests = {(each.workload, each.seed): each.digest for each in results}
        for result in pool.run(again, first=1):
            if result.digest != digests[result.workload, result.seed]:
                different.append(result)
                print(f"{result.workload} differs from run to run with seed {result.seed}")
        shrunk = [pool.shrink(result) for result in failed[: 0 if options.until_failure else _SHRUNK]]
    finally:
        pool.close()
    for result in shrunk:
        _tell(result, options.folder)
    took_s = time.perf_counter() - began
    faults, work_s = sum(each.faults for each in results), sum(each.took_s for each in results)
    line = (
        f"simulate: {len(results)} runs of {len(workloads)} workloads in {took_s:.0f} s, {faults} faults "
        f"({3600 * faults / took_s:,.0f} an hour, {faults / max(work_s, 1e-9):.1f} a second of processor), "
        f"{len(again) - len(different)} runs the same twice, {len(failed) + len(different)} failed"
    )
    print(line)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        figures = {
            "runs": len(results),
            "seconds": took_s,
            "processor_s": work_s,
            "faults": faults,
            "same_twice": len(again) - len(different),
            "different": [asdict(each) for each in different],
            "failed": [asdict(each) for each in failed],
            "shrunk": [asdict(each) for each in shrunk],
        }
        options.json.write_text(json.dumps(figures, indent=2) + "\n", "utf-8")
    return 1 if failed or different else 0


def _with_progress(results: Iterator[Result], count: int) -> Iterator[Result]:
    """Yield the results; on a terminal, tell how many there are."""
    for number, result in enumerate(results, 1):
        if sys.stderr.isatty():
            print(f"\r{number} of {count}", end="\r", file=sys.stderr, flush=True)
        yield result


def _tell(result: Result, folder: Path) -> None:
    """Tell how to have a failure again."""
    place = write_failure(folder, find(result.workload), result)
    print(f"{result.workload} with seed {result.seed} and {len(result.only)} faults:")
    for text in (*result.plan, *result.findings):
        print(f"    {text}")
    only = f" --faults {','.join(map(str, result.only)) or 'none'}"
    print(f"    again: python -m rstreams.simulation --workload {result.workload} --seed {result.seed}{only} --frames")
    print(f"    history: {place}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rstreams.simulation", description="Runs workloads in simulations.")
    what = "all, names with commas, or MODULE:FUNCTION; NAME/small: in small worlds"
    parser.add_argument("--workload", default="all", metavar="NAME", help=what)
    parser.add_argument("--seed", type=_number, default=0, metavar="N", help="the first seed (0)")
    parser.add_argument("--seeds", type=_count, default=1, metavar="N", help="how many seeds of each workload (1)")
    parser.add_argument("--twice", type=_number, default=0, metavar="N", help="run the first N seeds a second time")
    parser.add_argument("--until-failure", action="store_true", help="end with the first failure")
    parser.add_argument("--frames", action="store_true", help="run one seed, and print its frames and its log")
    parser.add_argument("--faults", type=_numbers, metavar="N,N", help="with --frames: let only these faults happen")
    parser.add_argument("--jobs", type=_count, default=os.cpu_count() or 1, metavar="N", help="how many processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures and the failures to a file")
    parser.add_argument("--folder", type=Path, default=Path("build/simulate"), help="for histories of failures")
    return parser


def _number(text: str, least: int = 0) -> int:
    if not text.isdecimal() or int(text) < least:
        msg = f"{text!r}: it must be a whole number of {least} or more"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _count(text: str) -> int:
    return _number(text, least=1)


def _numbers(text: str) -> list[int]:
    return [] if text == "none" else [_number(each) for each in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
