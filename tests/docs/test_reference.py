"""The reference names everything that is public, and is as its tool writes it."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import rstreams

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
try:
    import reference_page
finally:
    sys.path.pop(0)

PAGES = ROOT / "docs" / "reference"
SHOWN_WITH_ANOTHER = ("rstreams.testing.",)


def public_modules() -> list[str]:
    """Return the modules that say what of them is public, and that are no part of another one."""
    found = ["rstreams"]
    for module in pkgutil.walk_packages(rstreams.__path__, "rstreams."):
        private = any(part.startswith("_") for part in module.name.split("."))
        if not private and not module.name.startswith(SHOWN_WITH_ANOTHER):
            found += [module.name] if hasattr(importlib.import_module(module.name), "__all__") else []
    return found


@pytest.mark.slow
def test_the_pages_are_as_they_are_written() -> None:
    there = {page: page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")}
    assert there == reference_page.files(), "run `make format`"


def test_every_public_module_is_there() -> None:
    assert sorted(public_modules()) == sorted(reference_page.MODULES)


@pytest.mark.parametrize("module", reference_page.MODULES)
def test_every_public_name_is_there_with_a_sentence(module: str) -> None:
    names = importlib.import_module(module).__all__
    page = (PAGES / f"{module}.md").read_text(encoding="utf-8")
    for name in names:
        assert re.search(rf"^\| \[?`{name}`(\]\(\S+\))? \| \S", page, re.MULTILINE), name


@pytest.mark.parametrize("module", reference_page.MODULES)
def test_every_class_of_a_public_module_is_public(module: str) -> None:
    of_it = importlib.import_module(module)
    classes = {name for name, each in vars(of_it).items() if isinstance(each, type) and each.__module__ == module}
    assert {name for name in classes if not name.startswith("_")} <= set(of_it.__all__)


def test_the_address_of_statistics_is_there() -> None:
    page = (PAGES / "rstreams.node.md").read_text(encoding="utf-8")
    assert "| `STATISTICS` | The address at which a node serves its own statistics" in page
    assert "\n::: rstreams.node.STATISTICS\n" in page
