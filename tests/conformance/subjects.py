"""What the kit examines here: every public source, operator and sink, from the `*_cases.py` beside this file."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from rstreams.abc import Publisher
from rstreams.sources.fail import fail

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

Make: TypeAlias = Callable[[int], Publisher[Any]]
Operator: TypeAlias = Callable[[Publisher[Any]], Publisher[Any]]

PUBLISHERS: dict[str, Make] = {}
PROCESSORS: dict[str, Operator] = {}
SINGLES: dict[str, Callable[[], Publisher[Any]]] = {}
ITEMLESS: dict[str, Callable[[], Publisher[Any]]] = {}
FAILING: dict[str, Callable[[], Publisher[Any]]] = {}
"""For keys of the other tables, or public names: the same thing in a state in which each subscription fails."""

_TABLES: dict[str, dict[str, Any]] = {
    "PUBLISHERS": PUBLISHERS,
    "PROCESSORS": PROCESSORS,
    "SINGLES": SINGLES,
    "ITEMLESS": ITEMLESS,
    "FAILING": FAILING,
}


def public_name(key: str) -> str:
    """Return the name of the operator or source a key stands for: "take (all)" is about `take`."""
    return key.split(" ", maxsplit=1)[0]


def quick_first(keys: Iterable[str]) -> list[Any]:
    """Return keys as parameters of tests: of several variants of a source or operator all but the first are slow."""
    known: set[str] = set()
    found: list[Any] = []
    for key in keys:
        name = public_name(key)
        found.append(pytest.param(key, marks=pytest.mark.slow) if name in known else key)
        known.add(name)
    return found


def failing(key: str) -> Callable[[], Publisher[Any]] | None:
    """Return the failing twin of a subject: its own, that of its name, or the operator over a failing source."""
    name = public_name(key)
    twin = FAILING.get(key) or FAILING.get(name)
    if twin is not None:
        return twin
    operators = [operator for other, operator in PROCESSORS.items() if public_name(other) == name]
    return (lambda: operators[0](fail(LookupError("failed")))) if operators else None


def public_modules(package: str) -> set[str]:
    """Return the names of the public modules of a package of rstreams: there is one for each operator or source."""
    return {path.stem for path in (ROOT / "rstreams" / package).glob("*.py") if not path.stem.startswith("_")}


for _path in sorted(HERE.glob("*_cases.py")):
    _module = importlib.import_module(f"tests.conformance.{_path.stem}")
    for _name, _table in _TABLES.items():
        for _key, _case in getattr(_module, _name, {}).items():
            assert _key not in _table or _table is FAILING, f"{_path.name}: there are two {_key!r} in {_name}"
            _table[_key] = _case
