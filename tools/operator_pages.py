"""Write the pages about sources and operators, docs/operators/, from the docstrings of their functions.

    python tools/operator_pages.py            write the pages and their pictures
    python tools/operator_pages.py --check    fail if one of them is not as it would be written

What a page says of an operator, its picture and its example stand in the operator's own file; the examples are run by
`tests/docs/test_operator_examples.py`. Only which need an operator answers, and which family it belongs to, is written
elsewhere: in docs/operators/families.toml.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fluent import Function, functions
from marble_picture import picture

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "operators"
_SECTION = re.compile(r"^([A-Z][a-z]+):(?: (.*))?$")


def families() -> list[dict[str, Any]]:
    """Return the families of operators, in the order of the pages."""
    found: list[dict[str, Any]] = tomllib.loads((PAGES / "families.toml").read_text(encoding="utf-8"))["family"]
    return found


def beside() -> list[dict[str, Any]]:
    """Return what else a stream has: tables without pages of their own."""
    found: list[dict[str, Any]] = tomllib.loads((PAGES / "families.toml").read_text(encoding="utf-8"))["beside"]
    return found


def documented() -> dict[str, tuple[str, Function]]:
    """Return every source and operator by its name, each with the package it is in."""
    return {each.name: (kind, each) for kind in ("sources", "operators") for each in functions(kind)}


def docstring(function: Function) -> str:
    """Return the docstring of a function, without its indentation."""
    return inspect.cleandoc(ast.get_docstring(function.implementation) or "")


def parts(text: str) -> tuple[list[str], dict[str, str]]:
    """Return the blocks of a docstring that stand before its sections, and the sections by name."""
    blocks: list[str] = []
    sections: dict[str, list[str]] = {}
    section: list[str] | None = None
    for block in text.split("\n\n"):
        lines = block.splitlines()
        if section is None and not _SECTION.match(lines[0]):
            blocks.append(block)
            continue
        for line in lines:
            begins = _SECTION.match(line)
            if begins:
                section = sections.setdefault(begins[1], [])
                section.extend([begins[2]] if begins[2] else [])
            elif section is not None:
                section.append(line)
    return blocks, {name: "\n".join(lines) for name, lines in sections.items()}


def diagram(function: Function) -> str:
    """Return the marble diagram of a function: the first indented block of its docstring."""
    blocks, _ = parts(docstring(function))
    indented = [block for block in blocks if block.startswith("    ")]
    assert indented, f"{function.name} has no marble diagram"
    return inspect.cleandoc("\n" + indented[0])


def _signature(kind: str, function: Function) -> Iterator[str]:
    for signature in function.signatures:
        if signature is function.implementation and len(function.signatures) > 1:
            continue
        returns = "" if signature.returns is None else f" -> {ast.unparse(signature.returns)}"
        yield f"rstreams.{kind}.{function.name}({ast.unparse(signature.args)}){returns}"


def _entry(kind: str, function: Function) -> Iterator[str]:
    blocks, sections = parts(docstring(function))
    marbles = diagram(function)
    yield f"## {function.name}"
    first, *more = [block for block in blocks if inspect.cleandoc("\n" + block) != marbles]
    yield first
    yield f"![{function.name}](marbles/{function.name}.svg)"
    yield from more
    yield "\n".join(["```python", *_signature(kind, function), "```"])
    for name, text in sections.items():
        if name == "Args":
            yield "\n".join(_arguments(text))
        elif name == "Example":
            kind = "pycon asyncio" if "asyncio." in text else "pycon"
            yield "\n".join([f"```{kind}", inspect.cleandoc("\n" + text), "```"])
        else:
            shown = f"[{name}](index.md#how-to-read-an-entry)" if name == "Holds" else name
            yield f"**{shown}.** {' '.join(line.strip() for line in text.splitlines())}"


def _arguments(text: str) -> Iterator[str]:
    """Yield a list with an entry for each argument."""
    entry = ""
    for line in inspect.cleandoc("\n" + text).splitlines():
        if line.startswith(" "):
            entry += " " + line.strip()
            continue
        if entry:
            yield entry
        name, _, meaning = line.partition(":")
        entry = f"- `{name.strip()}`: {meaning.strip()}"
    yield entry


def _page(family: dict[str, Any], known: dict[str, tuple[str, Function]]) -> str:
    blocks = [f"# {family['title']}", _NOTE, family["about"].strip()]
    for name in family["needs"]:
        blocks.extend(_entry(*known[name]))
    return "\n\n".join(blocks) + "\n"


_NOTE = "<!-- Written by tools/operator_pages.py: change the operator's docstring, then run `make format`. -->"

_LOOK = (
    "Look for what you want to do; the page behind the name has the picture, the demand and an example. Every source "
    "and operator is a method of `Stream` and a function in `rstreams.sources` or `rstreams.operators`."
)


_READ = """## How to read an entry

| word | what it says |
|---|---|
| **Demand** | how many items the operator requests of its source, and how many it keeps |
| **Holds** | when an item counts as processed. An item of a link that a stage holds is not accepted yet. \
At the end of the hold it is *done* (accepted), *failed* (`on_failure` decides), or *released* (given back untouched). \
Without a link a hold has no effect. See [Delivery](../guides/delivery.md) |
| **Errors** | which errors the call raises, which ones come as the stream's error, and what comes before them |
| **Cancels** | what a cancel of the subscriber does, and when the operator cancels its source |
| **Context** | in which task, thread or scope it works |
| **Spec** | the rules of Reactive Streams that the operator's tests name |"""


def _index(known: dict[str, tuple[str, Function]]) -> str:
    blocks = [
        "# Which operator do I need?",
        _NOTE,
        _LOOK,
    ]
    for family in families():
        lines = [f"## {family['title']}", "", "| I want | use |", "|---|---|"]
        for name, need in family["needs"].items():
            if name not in known:
                msg = f"docs/operators/families.toml: there is no source or operator {name!r}"
                raise SystemExit(msg)
            lines.append(f"| {need} | [`{name}`]({family['page']}.md#{name}) |")
        blocks.append("\n".join(lines))
    for table in beside():
        lines = [f"## {table['title']}", "", table["about"].strip(), "", "| I want | use |", "|---|---|"]
        lines += [f"| {need} | [`{name}`]({link}) |" for name, (need, link) in table["needs"].items()]
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, _READ]) + "\n"


def files() -> dict[Path, str]:
    """Return the text of every file that this tool writes."""
    known = documented()
    told = [name for family in families() for name in family["needs"]]
    missing = sorted(set(known) - set(told))
    if missing:
        msg = f'docs/operators/families.toml: add a line `name = "the need"` in a family for {missing}'
        raise SystemExit(msg)
    twice = sorted({name for name in told if told.count(name) > 1})
    if twice:
        msg = f"docs/operators/families.toml: remove the second line of {twice}"
        raise SystemExit(msg)
    pages = {PAGES / f"{family['page']}.md": _page(family, known) for family in families()}
    pictures = {PAGES / "marbles" / f"{name}.svg": picture(diagram(each)) for name, (_, each) in known.items()}
    return {PAGES / "index.md": _index(known), **pages, **pictures}


def main(arguments: Sequence[str]) -> int:
    """Write or check the files; return the exit status."""
    wanted = files()
    there = {*PAGES.glob("*.md"), *PAGES.glob("marbles/*.svg")}
    stale = [file for file, text in wanted.items() if file not in there or file.read_text(encoding="utf-8") != text]
    left = sorted(there - set(wanted))
    if "--check" in arguments:
        for file in [*stale, *left]:
            print(f"{file.relative_to(ROOT)}: not as tools/operator_pages.py writes it (run `make format`)")
        return 1 if stale or left else 0
    for file in left:
        file.unlink()
    for file in stale:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(wanted[file], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
