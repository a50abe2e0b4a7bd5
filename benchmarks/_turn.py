"""One turn of `benchmarks.turns`, in a process of its own: python -m benchmarks._turn TREE BENCHMARK CASE SCALE.

The last line of its output is JSON: the rows. It ends with an error if rstreams is not the one in the folder TREE.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import rstreams
from benchmarks._report import Trial


def trials_of(benchmark: str, scale: float) -> list[Trial]:
    """Return what a benchmark can run without peers."""
    module: Any = import_module(f"benchmarks.{benchmark}")
    found: list[Trial] = module.trials(scale)
    return found


def strangers(tree: Path) -> list[str]:
    """Return the files of the product that were imported from elsewhere than a folder."""
    modules = [rstreams, sys.modules.get("rstreams_spark")]
    files = [str(module.__file__) for module in modules if module is not None]
    return [file for file in files if not Path(file).resolve().is_relative_to(tree.resolve())]


def main(arguments: Sequence[str]) -> None:
    """Run the trial with the case once."""
    tree, benchmark, case, scale = arguments
    trial = next(trial for trial in trials_of(benchmark, float(scale)) if case in trial.cases)
    rows = trial.run()
    if found := strangers(Path(tree)):
        sys.exit(f"ImportError: {', '.join(found)} is not of {tree}")
    print(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    main(sys.argv[1:])
