"""A benchmark of this tree and of another revision, in turns: medians, and how many times better this tree is.

    python -m benchmarks.turns REV [CASE ...] [--turns N] [--scale X] [--json FILE]

REV is a revision of git. A CASE is a benchmark (`network`), or a part of one: some parts of a row's name, or a pattern
(`users/queue`, `core/map_*`, `network/1KB/at_least_once`). Without one it is `core` and `network`.

Each turn runs in a process of its own, and so do the producer, the consumer and the node that it starts. The turns go
old, new; new, old; and so on: other load on the machine affects both. The benchmark's code is that of this tree for
both. The product is that of the other revision, which is put into `build/turns/` with its C extension; both use the
packages of this environment. A row whose benchmark needs what REV has not is named below the table. The file is written
after each row, so a run that is ended leaves what it has measured.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks._report import Trial, aligned, figure, options
from benchmarks._turn import trials_of

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "build" / "turns"
PRODUCT: Final = ("rstreams", "adapters", "hatch_build.py")
TURNS: Final = 6
CASES: Final = ("core", "network")
BENCHMARKS: Final = (
    "asyncio",
    "bound",
    "codec",
    "core",
    "hostile",
    "network",
    "node",
    "spark",
    "spark_growth",
    "store_size",
    "users",
)
_MISSING: Final = ("ImportError", "ModuleNotFoundError", "AttributeError", "TypeError")
"""The errors of a benchmark that needs a name, or an option, which the product has not."""


class UsageError(Exception):
    """Something that was asked for cannot be; the text is for the user."""


class TurnError(Exception):
    """A turn came to no rows; the text says why."""


@dataclass
class Samples:
    """What the turns of one row came to.

    Attributes:
        row: The benchmark and the case.
        unit: The unit of its figures.
        old: The figure of each turn of the other revision.
        new: That of each turn of this tree.
        old_cpu_us: Processor time for each item, of all processes, of each turn of the other; empty if not measured.
        new_cpu_us: That of this tree.
    """

    row: str
    unit: str
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    old_cpu_us: list[float] = field(default_factory=list)
    new_cpu_us: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """How many times better this tree is; bigger is better whatever the unit."""
        old, new = median(self.old), median(self.new)
        more_is_better = "/s" in self.unit
        better, worse = (new, old) if more_is_better else (old, new)
        return better / worse if worse else 1.0

    @property
    def cpu_ratio(self) -> float | None:
        """The processor time of this tree divided by that of the other."""
        if not self.old_cpu_us or not self.new_cpu_us or not median(self.old_cpu_us):
            return None
        return median(self.new_cpu_us) / median(self.old_cpu_us)

    @property
    def least_cpu_ratio(self) -> float | None:
        """The same of the cheapest turn of each: other load on the machine only adds, and a median has half of it."""
        if self.cpu_ratio is None or not min(self.old_cpu_us):
            return None
        return min(self.new_cpu_us) / min(self.old_cpu_us)


# ----------------------------------------------------------------------------------------------------------- the trees


def _git(*arguments: str) -> bytes:
    git = shutil.which("git")
    if git is None:
        msg = "git is not installed"
        raise UsageError(msg)
    done = subprocess.run([git, "-C", str(ROOT), *arguments], capture_output=True, check=False)
    if done.returncode != 0:
        raise UsageError(done.stderr.decode(errors="replace").strip().splitlines()[-1])
    return done.stdout


def commit_of(revision: str) -> str:
    """Return the hash of a revision."""
    try:
        return _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
    except (UsageError, IndexError):
        shallow = _git("rev-parse", "--is-shallow-repository").strip() == b"true"
        why = "the history here is shallow: git fetch --unshallow" if shallow else "no such revision in this repository"
        msg = f"{revision}: {why}"
        raise UsageError(msg) from None


def build(tree: Path) -> None:
    """Build the C extension of a tree, as its own build does."""
    if not (tree / "hatch_build.py").exists():
        return
    command = [sys.executable, "hatch_build.py"]
    environment = {name: value for name, value in os.environ.items() if name != "RSTREAMS_PURE"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        msg = f"{tree}: {_last_line(done.stderr)}"
        raise UsageError(msg)


def tree_of(commit: str) -> Path:
    """Return the folder with the product of a commit, which is made if it is not there."""
    tree = FOLDER / commit
    if not tree.exists():
        there = set(_git("ls-tree", "--name-only", commit).decode().splitlines())
        if "rstreams" not in there:
            msg = f"{commit}: it has no rstreams/"
            raise UsageError(msg)
        archive = _git("archive", commit, *(name for name in PRODUCT if name in there))
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            made = Path(folder, "tree")
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                if hasattr(tarfile, "data_filter"):  # Python 3.11.2 of Debian has none
                    files.extraction_filter = tarfile.data_filter
                files.extractall(made)  # noqa: S202 - git has made it
            build(made)
            made.rename(tree)
    return tree


# ------------------------------------------------------------------------------------------------------------ the rows


def chosen(cases: Iterable[str], scale: float) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the benchmarks and the first case of each trial that is to run, with its rows that are wanted."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for case in cases:
        benchmark, _, part = case.partition("/")
        if benchmark not in BENCHMARKS:
            msg = f"{case}: no such benchmark; there are {', '.join(BENCHMARKS)}"
            raise UsageError(msg)
        try:
            trials = trials_of(benchmark, scale)
        except ImportError as error:
            msg = f"{benchmark}: the package {error.name} is not installed (tools/setup.sh bench)"
            raise UsageError(msg) from None
        matching = {trial.cases[0]: _matching(trial, part) for trial in trials}
        if not any(matching.values()):
            rows = ", ".join(name for trial in trials for name in trial.cases)
            msg = f"{case}: no such row; {benchmark} has {rows}"
            raise UsageError(msg)
        for first, rows_of in matching.items():
            wanted = dict.fromkeys((*found.get((benchmark, first), ()), *rows_of))
            if wanted:
                found[benchmark, first] = tuple(wanted)
    return found


def _matching(trial: Trial, part: str) -> tuple[str, ...]:
    return tuple(case for case in trial.cases if not part or fnmatchcase(f"/{case}/", f"*/{part}/*"))


def name_of(benchmark: str, case: str) -> str:
    """Return the name of a row."""
    return f"{benchmark}/{case.removeprefix(f'{benchmark}/')}"


def turn(tree: Path, benchmark: str, case: str, scale: float) -> list[dict[str, Any]]:
    """Run a trial once with the product of a tree; return its rows."""
    places = [str(tree), str(tree / "adapters" / "spark" / "src"), str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks._turn", str(tree), benchmark, case, str(scale)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.strip().splitlines()
    if done.returncode != 0:
        raise TurnError(_last_line(done.stderr))
    rows: list[dict[str, Any]] = json.loads(said[-1])
    if not rows:
        raise TurnError(said[0])
    return rows


def _last_line(text: str) -> str:
    """Return the line of an error: of a missing name if there is one, because what failed for it says less."""
    lines = text.strip().splitlines() or ["it said nothing"]
    return next((line for line in lines if line.startswith(_MISSING)), lines[-1])


def measure(
    tree: Path, trials: dict[tuple[str, str], tuple[str, ...]], turns: int, scale: float
) -> Iterator[tuple[list[Samples], str]]:
    """Run every trial in turns; yield the samples of its rows, or a line that says why it could not be run."""
    for number, ((benchmark, first), wanted) in enumerate(trials.items(), 1):
        name = name_of(benchmark, first)
        print(f"{number} of {len(trials)}: {name}", file=sys.stderr, flush=True)
        rows: dict[str, Samples] = {}
        failed = ""
        for side in (side for count in range(turns) for side in (("old", "new"), ("new", "old"))[count % 2]):
            try:
                made = turn(tree if side == "old" else ROOT, benchmark, first, scale)
            except TurnError as error:
                failed = f"{_where(side, str(error))}: {name}: {error}"
                break
            for row in made:
                if row["case"] in wanted:
                    samples = rows.setdefault(row["case"], Samples(name_of(benchmark, row["case"]), row["unit"]))
                    getattr(samples, side).append(row["ours"])
                    if row["ours_cpu_us"] is not None:
                        getattr(samples, f"{side}_cpu_us").append(row["ours_cpu_us"])
        yield ([], failed) if failed else (list(rows.values()), "")


def _where(side: str, error: str) -> str:
    if side == "new":
        return "failed here"
    return "not in REV" if error.startswith(_MISSING) else "failed in REV"


# ----------------------------------------------------------------------------------------------------------- the report


def table(rows: Sequence[Samples]) -> str:
    """Return the rows as text, and their geometric means."""
    head = ["row", "unit", "old", "range", "new", "range", "new/old", "cpu us old", "new", "new/old", "least"]
    lines = []
    for row in rows:
        cpu = [figure(median(each)) if each else "" for each in (row.old_cpu_us, row.new_cpu_us)]
        ratios = ["" if each is None else f"{each:.3f}" for each in (row.cpu_ratio, row.least_cpu_ratio)]
        spans = [text for each in (row.old, row.new) for text in (figure(median(each)), _span(each))]
        lines.append([row.row, row.unit, *spans, f"{row.ratio:.3f}", *cpu, *ratios])
    costs = [row.cpu_ratio for row in rows if row.cpu_ratio is not None]
    least = [row.least_cpu_ratio for row in rows if row.least_cpu_ratio is not None]
    means = f"geometric means: {_mean([row.ratio for row in rows])} times as good"
    if costs:
        means += f", {_mean(costs)} times the processor time"
    if least:
        means += f" ({_mean(least)} by the cheapest turns)"
    return f"{aligned(head, lines, text_columns={0, 1})}\n\n{means}"


def _ratios(row: Samples) -> str:
    cost = "" if row.cpu_ratio is None else f", processor time {row.cpu_ratio:.3f}"
    cost += "" if row.least_cpu_ratio is None else f", of the cheapest turns {row.least_cpu_ratio:.3f}"
    return f"{row.row}: new/old {row.ratio:.3f}{cost}"


def _span(figures: Sequence[float]) -> str:
    return f"{figure(min(figures))}-{figure(max(figures))}"


def _mean(ratios: Sequence[float]) -> str:
    return f"{exp(sum(log(max(ratio, 1e-9)) for ratio in ratios) / len(ratios)):.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, write the file."""
    parser = options("A benchmark of this tree and of another revision, in turns.")
    parser.add_argument("revision", metavar="REV", help="a revision of git: a tag, a branch, HEAD~3, ...")
    parser.add_argument("cases", metavar="CASE", nargs="*", help="network, users/queue, core/map_*; core and network")
    parser.add_argument(
        "--turns", type=int, default=TURNS, metavar="N", help="turns of each row and side (%(default)s)"
    )
    parser.add_argument("--scale", type=float, default=1.0, metavar="X", help="how many times the usual items of a run")
    parser.set_defaults(json=FOLDER / "turns.json")
    given = parser.parse_args(arguments)
    if given.turns < 1:
        parser.error(f"--turns {given.turns}: 1 or more")
    if not 0 < given.scale <= 1000:
        parser.error(f"--scale {given.scale:g}: more than 0, up to 1000")
    try:
        trials = chosen(given.cases or CASES, given.scale)
        commit = commit_of(given.revision)
        tree = tree_of(commit)
        build(ROOT)
    except UsageError as error:
        parser.error(str(error))
    rows: list[Samples] = []
    missing: list[str] = []
    for more, failed in measure(tree, trials, given.turns, given.scale):
        rows += more
        missing += [failed] if failed else []
        for row in more:
            print(f"  {_ratios(row)}", file=sys.stderr, flush=True)
        _write(given, commit, rows, missing)  # after each trial: all of them can take hours
    if rows:
        print(table(rows))
    for line in missing:
        print(line)
    print(f"turns: {len(rows)} rows against {given.revision}, {given.turns} turns")
    if any(line.startswith("failed here") for line in missing):
        sys.exit(1)


def _write(given: argparse.Namespace, commit: str, rows: Sequence[Samples], missing: Sequence[str]) -> None:
    written = {
        "revision": given.revision,
        "commit": commit,
        "turns": given.turns,
        "scale": given.scale,
        "rows": [
            {**asdict(row), "ratio": row.ratio, "cpu_ratio": row.cpu_ratio, "least": row.least_cpu_ratio}
            for row in rows
        ],
        "missing": list(missing),
    }
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
