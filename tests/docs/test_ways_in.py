"""The pages that show how an operator, a kind of address and a dialect are written: their code runs as it stands."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rstreams import operators
from tests.docs.examples import ROOT, examples_of, output_of

PAGES = {"docs/extend/address-kind.md": 2, "docs/extend/dialect.md": 1}
OPERATOR = (ROOT / "docs" / "extend" / "operator.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

LOADS = """
import importlib.util, sys

import rstreams

for name in {names!r}:
    spec = importlib.util.spec_from_file_location("rstreams.operators." + name, name + ".py")
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
"""
"""A `conftest.py` that puts the operators of the page in their package."""


def test_each_page_has_its_examples() -> None:
    assert {page: len(examples_of(page)) for page in PAGES} == PAGES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "number"), [(page, number) for page, count in PAGES.items() for number in range(count)]
)
def test_an_example_prints_what_the_page_says(page: str, number: int) -> None:
    code, printed = examples_of(page)[number]
    assert output_of(code) == printed


@pytest.mark.slow
def test_the_operators_of_the_page_pass_their_contracts(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", OPERATOR, re.DOTALL)
    names = re.findall(r'^"""(\w+): ', "\n".join(blocks), re.MULTILINE)
    tests = [block for block in blocks if "OperatorContract" in block]
    assert (len(names), len(tests), len(blocks)) == (2, 2, 4)
    for name, block in zip(names, [block for block in blocks if block not in tests], strict=True):
        (tmp_path / f"{name}.py").write_text(block, encoding="utf-8")
    for name, block in zip(names, tests, strict=True):
        (tmp_path / f"test_{name}.py").write_text(block, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(LOADS.format(names=names), encoding="utf-8")
    options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_table_of_bases_names_what_there_is() -> None:
    lines = CONTRIBUTING.partition("## Ways in")[2].partition("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]
    assert len(rows) > 20
    for operator, bases, hooks, calls, models in rows:
        for name in re.findall(r"`(\w+)`", models):
            assert name in operators.__all__, f"{operator}: {name}"
        files = re.findall(r"`(\w+)\.py`", bases)
        modules = [importlib.import_module(f"rstreams._stages.{file}") for file in files]
        names = re.findall(r"`([A-Za-z]+)`", bases)
        found = {name: getattr(module, name) for name in names for module in modules if hasattr(module, name)}
        assert found.keys() == set(names), f"{operator}: {bases}"
        known = {known for each in found.values() for known in dir(each)}
        for hook in re.findall(r"`(_\w+)`", hooks + calls):
            assert hook in known, f"{operator}: {hook}"


def test_the_page_names_tables_that_there_are() -> None:
    for path in re.findall(r"`((?:tests|rstreams|docs)/[\w/]+\.(?:py|toml))`", OPERATOR):
        if not path.endswith(("take_every.py", "moving_sum.py")):
            assert (ROOT / path).exists(), path
