"""The guide to testing: its code is one test file, and passes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # it starts other programs

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "testing.md").read_text(encoding="utf-8")


def run(folder: Path, *selected: str) -> str:
    """Run the guide's code as a test file, and return the last line."""
    code = "\n\n".join(re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL))
    (folder / "test_guide.py").write_text(code, encoding="utf-8")
    options = ["-q", "-p", "pytest_rstreams", "-p", "no:cacheprovider", "-p", "no:randomly", "-c", "/dev/null"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", folder, "test_guide.py", *selected],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=55,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()[-1]


def test_the_code_of_the_guide_passes(tmp_path: Path) -> None:
    assert re.fullmatch(r"conformance: \d+ passed, 0 failed, \d+ not applicable", run(tmp_path))


def test_the_last_line_is_the_one_the_guide_shows(tmp_path: Path) -> None:
    [line] = re.findall(r"^conformance: .*$", GUIDE, re.MULTILINE)
    assert run(tmp_path, "-k", "TestCountdown") == line


def test_a_failure_reads_as_the_guide_says() -> None:
    [message] = re.findall(r"```text\nAssertionError: (.*?)```", GUIDE, re.DOTALL)
    code = (
        "from rstreams.testing import StreamVerifier\nfrom rstreams.sources.of import of\n"
        "try:\n    StreamVerifier(of(1, 4)).expect_subscription().expect_next(1, 5).expect_complete().verify()\n"
        "except AssertionError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split() == message.split()
