"""For `make docs`: tabs for asyncio, trio and threads, of examples that the pages have one after the other.

A block of code that begins with ```` ```python asyncio ```` or ```` ```pycon asyncio ```` is shown in a tab, and in a
second one as it is written for trio, which tools/for_trio.py makes from it. A block ```` ```python threads ```` right
behind it is the third tab.
Elsewhere, for example on GitHub, the blocks are shown as they stand.
"""

from __future__ import annotations

import re
from typing import Any

from for_trio import for_trio
from markdown import Extension, Markdown  # comes with the part "docs" of tools/setup.sh
from markdown.preprocessors import Preprocessor

BLOCK = re.compile(r"^```(python|pycon) (asyncio|threads)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


def tabbed(text: str) -> str:
    """Return a page with tabs."""
    return BLOCK.sub(lambda found: "".join(_tabs(*found.groups())), text)


def _tabs(language: str, kind: str, code: str) -> list[str]:
    tabs = {"asyncio": code, "trio": for_trio(code)} if kind == "asyncio" else {kind: code}
    return [_tab(name, language, content) for name, content in tabs.items()]


def _tab(name: str, language: str, code: str) -> str:
    lines = [f"```{language}", *code.splitlines(), "```"]
    return f'=== "{name}"\n\n' + "\n".join(f"    {line}".rstrip() for line in lines) + "\n\n"


class _Tabs(Preprocessor):  # type: ignore[misc, unused-ignore] # of no known class without Markdown
    def run(self, lines: list[str]) -> list[str]:
        return tabbed("\n".join(lines) + "\n").splitlines()


class _TabsExtension(Extension):  # type: ignore[misc, unused-ignore] # likewise
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - as Markdown calls it
        md.preprocessors.register(_Tabs(md), "docs_tabs", 50)  # before the blocks of code are taken out


def makeExtension(**options: Any) -> Extension:  # noqa: ANN401, N802 - as Markdown calls it
    """Return the extension, for Markdown."""
    return _TabsExtension(**options)
