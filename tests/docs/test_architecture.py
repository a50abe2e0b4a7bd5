"""The files that the architecture and the guide to contributing name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
NAMED = re.compile(r"`([\w./-]+\.(?:py|c|h))`")
PLACES = ("rstreams", "adapters", "tests", "tools")


def files() -> set[str]:
    """Return every path of a file, and each end of it that begins at a slash."""
    found = (path.relative_to(ROOT) for place in PLACES for path in (ROOT / place).rglob("*.[pch]*"))
    return {"/".join(path.parts[at:]) for path in found for at in range(len(path.parts))}


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_a_page_names_are_there(page: str) -> None:
    named = set(NAMED.findall((ROOT / page).read_text(encoding="utf-8")))
    assert named - files() == set()
