"""The guide to simulations: its service has the mistake that it tells of, and the mend mends it."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "simulation.md").read_text(encoding="utf-8")


def block(title: str) -> str:
    (found,) = re.findall(rf'```python title="{title}"\n(.*?)```', GUIDE, re.DOTALL)
    return str(found)


def run(folder: Path, service: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "service.py").write_text(service, "utf-8")
    (folder / "test_service.py").write_text(block("test_service.py"), "utf-8")
    plugins = [
        "-p",
        "pytest_rstreams",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:cov",
        "-p",
        "no:asyncio",
        "-p",
        "no:randomly",
    ]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-c", "/dev/null", "--rootdir", str(folder)]
    environment = {"PYTHONPATH": f"{ROOT}:{folder}", "PATH": ""}
    return subprocess.run(
        [*command, *options, "test_service.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.mark.slow
def test_the_mistake_is_found_as_the_guide_says(tmp_path: Path) -> None:
    told = run(tmp_path, block("service.py"))
    assert told.returncode == 1, told.stdout
    (shown,) = re.findall(r"```text\n(the simulation fails.*?)```", GUIDE, re.DOTALL)
    assert shown.strip() in told.stdout


@pytest.mark.slow
def test_the_mend_mends_it(tmp_path: Path) -> None:
    lines = block("service.py").splitlines()
    begin = next(at for at, line in enumerate(lines) if "order.accept()" in line)
    mended = "\n".join([*lines[:begin], block("the mend")])
    told = run(tmp_path, mended, "--simulation-seeds", "8")
    assert told.returncode == 0, told.stdout


def test_the_block_of_the_world_prints_what_the_guide_says() -> None:
    (code, shown) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", GUIDE, re.DOTALL)[0]
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "simulation.md", "exec"), {})  # noqa: S102 - the guide is ours
    assert printed.getvalue() == shown
