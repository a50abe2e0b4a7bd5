"""What `dir()` of a public module shows: names for users, and not what the module has imported for itself."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

PAGES = Path(__file__).parents[1] / "docs" / "reference"
MODULES = sorted(page.stem for page in PAGES.glob("rstreams*.md"))


def test_the_reference_has_a_page_for_each_module() -> None:
    assert {"rstreams", "rstreams.errors", "rstreams.message", "rstreams.net.connection"} < set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_dir_shows_no_imports_of_the_module(name: str) -> None:
    module = import_module(name)
    shown = {each for each in dir(module) if not each.startswith("_")}
    parts = {each for each in shown if isinstance(getattr(module, each), ModuleType)}
    assert shown - parts == set(module.__all__) - {"__version__"}
    assert all(getattr(module, each).__name__ == f"{name}.{each}" for each in parts)
