"""The option `--page` of the benchmarks."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks import _page

BEGIN = "<!-- tables of benchmarks.some: begin -->\n"
END = "<!-- tables of benchmarks.some: end -->\n"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    _page.add_option(made, "benchmarks.some")
    return made


def test_a_page_is_written_between_its_comments(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}old\n{END}after\n")
    for text in ("new\n", "newer\n"):
        parser().parse_args(["--page", str(page)]).page.refresh(text)
    assert page.read_text() == f"before\n{BEGIN}\nnewer\n\n{END}after\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(None, "No such file", id="no file"),
        pytest.param("before\nafter\n", "a page with", id="no comments"),
        pytest.param(f"{END}{BEGIN}", "a page with", id="comments in the wrong order"),
    ],
)
def test_another_page_is_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, error: str
) -> None:
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)
    with pytest.raises(SystemExit, match="2"):
        parser().parse_args(["--page", str(page)])
    assert error in capsys.readouterr().err
