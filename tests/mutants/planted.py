"""Planted faults: small changes of the product that break a promise to its users.

Each file `NN_name.toml` beside this one is such a fault:

    title     what is wrong
    area      the promise that it breaks; no two faults have the same one
    loses     what a user would lose
    expect    what the checker is expected to find
    change    the file, whole lines of it that occur there once, and the lines that take their place

They were written before the workloads of the simulation, from the product's code alone. A fault is no crash and no
equivalent code: without an interleaving, a loss, a restart or a limit the product does its work with it.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hatch_build import build

ROOT: Final = Path(__file__).parents[2]

PACKAGES: Final = ("rstreams", "adapters/spark/src/rstreams_spark", "adapters/spark/src/pyspark_rstreams")
"""What a copy of the product has."""

SPOOL: Final = "adapters/spark/tests/simulation/spool.py"
"""The workload of the Spark adapter, which stands beside the copy: rstreams itself does not know the adapter."""


class NotThere(Exception):
    """The lines that a fault replaces are not in their file, or are there more than once."""


@dataclass(frozen=True, slots=True)
class Change:
    """Lines of a file, and those that take their place."""

    file: str
    old: str
    new: str

    @property
    def in_c(self) -> bool:
        """Whether the file is compiled."""
        return self.file.endswith((".c", ".h"))

    def of(self, text: str) -> str:
        """Return the text of the file with the fault.

        Errors: `NotThere`.
        """
        found = text.count(self.old)
        if found != 1:
            msg = f"{self.file} has these lines {found} times, and not once:\n{self.old}"
            raise NotThere(msg)
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted fault; see the text of this module."""

    number: str
    name: str
    title: str
    area: str
    loses: str
    expect: str
    changes: tuple[Change, ...]

    def apply(self, folder: Path) -> None:
        """Change a copy of the product, whose other files may be links to those of this tree.

        Errors: `NotThere`.
        """
        for change in self.changes:
            path = folder / change.file.removeprefix("adapters/spark/src/")
            text = change.of(path.read_text("utf-8"))
            path.unlink()  # it may be a link: the file of this tree stays as it is
            path.write_text(text, "utf-8")
            for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
                compiled.unlink()
        if any(change.in_c for change in self.changes):
            build(folder, folder)


def mutants() -> list[Mutant]:
    """Return all planted faults, by their numbers."""
    return [_read(path) for path in sorted(Path(__file__).parent.glob("*.toml"))]


def copy_product(folder: Path) -> None:
    """Put a copy of the product into a folder: hard links where the file system can make them."""
    for package in PACKAGES:
        source = ROOT / package
        shutil.copytree(source, folder / source.name, copy_function=_link)
    _link(str(ROOT / SPOOL), str(folder / "spool.py"))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


def _read(path: Path) -> Mutant:
    told = tomllib.loads(path.read_text("utf-8"))
    number, _, name = path.stem.partition("_")
    changes = tuple(Change(**each) for each in told.pop("change"))
    return Mutant(number, name, changes=changes, **told)
