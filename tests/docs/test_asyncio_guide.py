"""The guide to asyncio and threads: its code is run as it stands, and prints what the guide says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rstreams.aio import Connection
from rstreams.blocking import BlockingConnection
from tests.docs.examples import for_trio

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "asyncio.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python(?: asyncio)?\n((?:(?!```).)*)```\n```text\n(.*?)```", GUIDE, re.DOTALL)


@pytest.mark.slow  # it starts another program
@pytest.mark.parametrize(
    ("example", "written"),
    [(0, str), (0, for_trio), (1, str), (2, str)],
    ids=["asyncio", "trio", "virtual time", "threads"],
)
def test_an_example_prints_what_it_says(example: int, written: Callable[[str], str]) -> None:
    code, printed = EXAMPLES[example]
    code = written(code)
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(printed.splitlines())
    assert done.stderr == ""


def test_the_other_code_is_python() -> None:
    assert len(EXAMPLES) == 3
    for code in re.findall(r"```python(?: asyncio)?\n(.*?)```", GUIDE, re.DOTALL):
        compile(code, "asyncio.md", "exec")


def test_each_call_of_the_table_is_there() -> None:
    table = GUIDE.partition("## Which call in each\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    assert {len(row) for row in rows} == {4}
    for column, connection in ((1, Connection), (3, BlockingConnection)):
        names = {name for row in rows for name in re.findall(r"\bconnection\.(\w+)", row[column])}
        assert len(names) > 5
        assert names <= set(dir(connection))


def test_the_files_that_it_names_are_there() -> None:
    for path in re.findall(r"\]\((\.\./[^)#]*)\)", GUIDE):
        assert (ROOT / "docs" / "guides" / path).exists(), path


@pytest.mark.slow  # it starts another program
def test_the_fixture_for_anyio_gives_its_tests_virtual_time(tmp_path: Path) -> None:
    [fixtures] = [
        code
        for code in re.findall(r"```python(?: asyncio)?\n(.*?)```", GUIDE, re.DOTALL)
        if "def anyio_backend" in code
    ]
    pytest.importorskip("anyio")
    (tmp_path / "test_it.py").write_text(f"""{fixtures}

@pytest.mark.anyio
async def test_an_hour() -> None:
    from rstreams.aio import Stream

    assert await Stream.interval(3600.0).take(2).to_list() == [0, 1]
    assert asyncio.get_running_loop().time() == 7200
""")
    options = [
        "-q",
        "-p",
        "anyio",
        "-p",
        "no:trio",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "--rootdir",
        str(tmp_path),
    ]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path / "test_it.py")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=50, cwd=ROOT)
    assert "1 passed" in done.stdout, done.stdout
