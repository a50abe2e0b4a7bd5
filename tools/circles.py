"""Counts the groups of modules that import each other, imports for types included, and prints them; must be 0.

Usage: python tools/circles.py
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOTS = (("rstreams", Path("rstreams")), ("rstreams_spark", Path("adapters/spark/src/rstreams_spark")))


def modules() -> dict[str, Path]:
    """Return every module of the packages, by its name."""
    found: dict[str, Path] = {}
    for package, folder in ROOTS:
        for file in sorted(folder.rglob("*.py")):
            parts = file.relative_to(folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((package, *parts))] = file
    return found


def imported(file: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of ours that a file names in an import: the innermost that there is, not the packages above."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in known else str(node.module)


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules each of which leads to all others of its group (Tarjan)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in edges[module]:
            if other not in number:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            at = stack.index(module)
            group, stack[at:] = stack[at:], []
            if len(group) > 1 or module in edges[module]:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for module in edges:
        if module not in number:
            visit(module)
    return sorted(found)


def main() -> int:
    """Print the groups and how many there are; return 1 if there is any."""
    known = modules()
    edges = {module: set(imported(file, known)) - {module} for module, file in known.items()}
    found = circles(edges)
    for group in found:
        print("modules that import each other:", ", ".join(group))
    print("circles:", len(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
