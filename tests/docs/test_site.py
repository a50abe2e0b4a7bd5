"""The site has every page, and its tabs are made by rules."""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
import tomllib
from types import ModuleType

import pytest

from tests.docs.examples import ROOT, for_trio

sys.path.insert(0, str(ROOT / "tools"))
try:
    import site_texts
finally:
    sys.path.pop(0)

DOCS = ROOT / "docs"
PAGES = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
NAVIGATION = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]


def test_the_navigation_has_every_page() -> None:
    listed = list(site_texts.listed(NAVIGATION))
    assert len(set(listed)) == len(listed)
    assert set(listed) == PAGES


def test_the_table_of_decisions_has_each_with_its_title() -> None:
    table = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
    titles = {page.name: page.read_text(encoding="utf-8").splitlines()[0] for page in DOCS.glob("decisions/0*.md")}
    rows = re.findall(r"^\| (\d+) \| \[(.*)\]\((\S+)\) \|$", table, re.MULTILINE)
    assert {file: f"# {number}. {title}" for number, title, file in rows} == titles


def test_each_page_is_told_with_a_sentence() -> None:
    lines = [line for line in site_texts.llms().splitlines() if line.startswith("- ")]
    assert len(lines) == len(list(site_texts.listed(NAVIGATION)))
    assert all(re.fullmatch(r"- \[\S.*\]\(\S+\.md\): \S.*", line) for line in lines)


def test_no_word_of_asyncio_is_left_in_a_tab_for_trio() -> None:
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        for code in re.findall(r"```(?:python|pycon) asyncio\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            assert not re.search(r"\basyncio\b|\.aio\b|TaskGroup|create_task", for_trio(code)), page


PAGES_OF_THE_REFERENCE = sorted(page.name for page in (DOCS / "reference").glob("rstreams*.md"))


@pytest.mark.parametrize("page", PAGES_OF_THE_REFERENCE)
def test_the_reference_as_text_has_what_the_site_shows(page: str) -> None:
    text = (DOCS / "reference" / page).read_text(encoding="utf-8")
    shown = site_texts.with_docstrings(text)
    assert ":::" not in shown
    for path in re.findall(r"^::: (\S+)$", text, re.MULTILINE):
        thing = pkgutil.resolve_name(path)
        names = getattr(thing, "__all__", []) if isinstance(thing, ModuleType) else [""]
        for name in names:
            described = pkgutil.resolve_name(f"{path}:{name}" if name else path)
            assert f"`{path}{name and '.'}{name}`\n" in shown
            if inspect.isclass(described) and isinstance(described.__doc__, str):
                assert described.__doc__.splitlines()[0] in shown


def test_a_method_of_the_reference_as_text_has_its_signature_and_arguments() -> None:
    shown = site_texts.with_docstrings((DOCS / "reference" / "rstreams.stream.md").read_text(encoding="utf-8"))
    entry = shown.partition("### `rstreams.stream.Stream.rx`\n")[2].partition("\n### ")[0]
    assert re.search(r"```python\nrx\(operator: .*, \*, max_expansion: int = 1024\) -> Stream\[R\]\n```", entry)
    assert "    operator: An operator for reactivex's `pipe`." in entry
