"""Put the pages as Markdown into the site that `make docs` has built, and `llms.txt`, a list of them for programs.

In the reference the search finds names alone: the thousands of its docstrings would stand before the guides.

    python tools/site_texts.py

`guides/node.md` is beside `guides/node.html`. Links lead from one file to the other, as in the repository. The pages of
the reference have the signatures and docstrings that the site shows.
"""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = ROOT / "build" / "docs"


def told(page: str) -> tuple[str, str]:
    """Return the title of a page, and its first sentence."""
    text = (DOCS / page).read_text(encoding="utf-8")
    title = re.search(r"^# (.*)$", text, re.MULTILINE)
    assert title is not None, page
    paragraphs = [part for part in text[title.end() :].split("\n\n") if re.match(r"\s*[\w`*\[]", part)]
    first = " ".join(paragraphs[0].split()) if paragraphs else ""
    return title[1].replace("`", ""), re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.split(r"(?<=[^.][.:]) ", first)[0])


def listed(entries: list[Any]) -> Iterator[str]:
    """Yield the paths of the pages in a part of the navigation."""
    for entry in entries:
        for content in entry.values() if isinstance(entry, dict) else [entry]:
            yield from [content] if isinstance(content, str) else listed(content)


def llms() -> str:
    """Return the text of `llms.txt`: each page by its part of the navigation, with its first sentence."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    for section in project["nav"]:
        for title, entries in section.items():
            lines += ["", f"## {title}", ""]
            for page in listed(entries):
                name, sentence = told(page)
                lines.append(f"- [{name}]({page}): {sentence}")
    return "\n".join(lines) + "\n"


def with_docstrings(page: str) -> str:
    """Return a page of the reference with the whole descriptions, where the site has them."""
    return re.sub(
        r"^::: (\S+)$", lambda found: "\n".join(_described(found[1], _loaded()[found[1]], 2)), page, flags=re.MULTILINE
    )


@cache
def _loaded() -> griffe.ModulesCollection:
    loader = griffe.GriffeLoader(search_paths=[ROOT])
    loader.load("rstreams")
    return loader.modules_collection


def _described(path: str, thing: Any, level: int) -> Iterator[str]:  # noqa: ANN401 - likewise
    """Yield the lines about a module, a class, a function or an attribute, and then those about its public members."""
    if not thing.is_module:
        yield f"{'#' * level} `{path}`\n"
        yield from _signature(thing)
    if thing.docstring is not None:
        yield f"{thing.docstring.value}\n"
    if thing.is_module or thing.is_class:
        for name, member in thing.members.items():
            if name in (thing.exports or ()) or (name[0] != "_" and not member.is_alias and thing.exports is None):
                target = member.final_target if member.is_alias else member
                if target.is_module:  # a function and its file have one name
                    target = target.members.get(name)
                if target is not None:
                    yield from _described(f"{path}.{name}", target, level + (not thing.is_module))


def _signature(thing: Any) -> Iterator[str]:  # noqa: ANN401 - likewise
    if thing.is_class:
        thing = thing.members.get("__init__")
    if thing is not None and thing.is_function:
        lines = [each.signature() for each in thing.overloads or [thing]]
        yield "\n".join(["```python", *lines, "```", ""])


def bring_examples() -> None:
    """Copy the examples into the site, and let the links of its pages lead there."""
    shutil.copytree(
        ROOT / "examples", SITE / "examples", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
    )
    for page in [*SITE.rglob("*.html"), *SITE.rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        if "../examples/" in text:
            page.write_text(text.replace("../examples/", "examples/"), encoding="utf-8")


def find_names_alone() -> None:
    """Take the texts of the reference out of the index of the search; its names stay."""
    for file in (SITE / "search.json", SITE / "search.js"):
        before, index, after = re.split(r"(\{.*\})", file.read_text(encoding="utf-8"), maxsplit=1, flags=re.DOTALL)
        found = json.loads(index)
        for item in found["items"]:
            if item["location"].startswith("reference/"):
                item["text"] = ""
        file.write_text(before + json.dumps(found) + after, encoding="utf-8")


def main() -> None:
    """Write the files."""
    for page in DOCS.rglob("*.md"):
        there = SITE / page.relative_to(DOCS)
        there.parent.mkdir(parents=True, exist_ok=True)
        text = page.read_text(encoding="utf-8")
        there.write_text(with_docstrings(text) if page.parent.name == "reference" else text, encoding="utf-8")
    bring_examples()
    find_names_alone()
    (SITE / "llms.txt").write_text(llms(), encoding="utf-8")


if __name__ == "__main__":
    main()
