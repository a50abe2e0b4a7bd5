"""The architecture tells the figures that `tools/way.py` counts for the way of one item."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAY = runpy.run_path(str(ROOT / "tools/way.py"), run_name="way")
WALKS = {"an item": "item", "`request": "request", "`delivery": "accept"}


@pytest.mark.slow
def test_the_figures_of_the_walks_are_told() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    told = re.findall(r"^\| (an item|`request|`delivery).*\| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert len(told) == len(WALKS)
    counted = json.loads(
        subprocess.run([sys.executable, "tools/way.py", "--walks"], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    )
    for begin, *figures in told:
        found = counted[WALKS[begin]]
        for figure, key in zip(figures, ("calls", "files", "classes"), strict=True):
            # A busy machine may take a turn more or less.
            assert int(figure) * 0.9 <= found[key] <= int(figure) * 1.1, (begin, key)


SOURCE = b'''"""A module.

It says more.
"""

# A comment.
NAME = """a text
of two lines"""


def function() -> None:
    "Do nothing."
    print(  # it prints
        NAME,
    )
'''


def test_comments_docstrings_and_empty_lines_are_no_code() -> None:
    assert WAY["code_lines"](SOURCE) == 6


def test_the_simulation_and_other_files_are_not_counted() -> None:
    files = {
        "rstreams/one.py": SOURCE,
        "rstreams/net/_proton/two.c": b"/* C */\n",
        "rstreams/simulation/three.py": SOURCE,
        "rstreams/four.pyi": SOURCE,
    }
    assert WAY["lines_of"](files) == WAY["Lines"](engine=1, product=SOURCE.count(b"\n") + 1, code=6)


@pytest.mark.slow  # it starts a process
def test_a_revision_that_is_not_there_is_named() -> None:
    command = [sys.executable, "tools/way.py", "--since", "no-such-revision"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--since: 'no-such-revision': there is no such revision" in done.stderr
