"""Prints each name that two module-level classes of product code share, with their places; there must be none.

    python tools/class_names.py

The public classes of `rstreams.aio` have the names of those in `rstreams` on purpose: they are not counted.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOTS = (Path("rstreams"), Path("adapters/spark/src"))
TWIN = Path("rstreams/aio")


def classes(roots: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    """Yield the name and the place of every module-level class."""
    for file in sorted(file for root in roots for file in root.rglob("*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and (TWIN not in file.parents or node.name.startswith("_")):
                yield node.name, f"{file}:{node.lineno}"


def main() -> int:
    """Print the shared names and how many there are; return 1 if there is any."""
    places: dict[str, list[str]] = {}
    for name, place in classes(ROOTS):
        places.setdefault(name, []).append(place)
    shared = {name: found for name, found in places.items() if len(found) > 1}
    for name, found in shared.items():
        print(f"classes named {name}:", ", ".join(found))
    print("shared class names:", len(shared))
    return int(bool(shared))


if __name__ == "__main__":
    sys.exit(main())
