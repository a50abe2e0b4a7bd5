"""The line of each key of a TOML document."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rstreams.node.config.toml_lines import key_lines, line_of

DOCUMENT = '''\
# a comment with [brackets] and "quotes
one = 1 # another
"two.dots" = [
  "]", # ]
  { a = 2, "b c" = '}' },
  [ 3,
    4 ],
]
three.four = """
[no]
five = 5
\\""" """
six = \'\'\'
[no]\'\'\'\'
when = 2026-11-22 19:40:00
[ table . "in a" ]
  key = "a # b"
[[several]]
x = 1
[several.sub]
y = 2
[[several]]
x = 3
[[several.deep]]
z = 4
'''


def test_every_key_has_its_line() -> None:
    tomllib.loads(DOCUMENT)
    lines = key_lines(DOCUMENT)
    for path, line in {
        ("one",): 2,
        ("two.dots",): 3,
        ("two.dots", 0): 4,
        ("two.dots", 1): 5,
        ("two.dots", 1, "a"): 5,
        ("two.dots", 1, "b c"): 5,
        ("two.dots", 2, 1): 7,
        ("three",): 9,
        ("three", "four"): 9,
        ("six",): 13,
        ("when",): 15,
        ("table",): 16,
        ("table", "in a"): 16,
        ("table", "in a", "key"): 17,
        ("several",): 18,
        ("several", 0): 18,
        ("several", 0, "x"): 19,
        ("several", 0, "sub", "y"): 21,
        ("several", 1): 22,
        ("several", 1, "x"): 23,
        ("several", 1, "deep", 0, "z"): 25,
    }.items():
        assert lines[path] == line, path
    assert not {("five",), ("no",)} & lines.keys()


def test_the_line_of_a_key_that_is_missing_is_that_of_its_table() -> None:
    lines = key_lines(DOCUMENT)
    assert line_of(lines, ("several", 0, "nothing")) == 18
    assert line_of(lines, ("nothing",)) is None


NAMES = st.text(st.sampled_from("ab.-_ \"'#[]={}\n\\é"), min_size=1, max_size=4)
LEAVES = (
    st.integers()
    | st.booleans()
    | st.text(st.sampled_from("ab#[]{}=,\"'\n\\."), max_size=8)
    | st.lists(st.integers(), max_size=2)
)
TABLES = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=3),
    lambda inner: st.dictionaries(NAMES, LEAVES | inner | st.lists(inner, min_size=1, max_size=2), max_size=3),
    max_leaves=8,
)


def basic(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{quoted}"'


class Written:
    """A document, and the line of each key in it."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.text: list[str] = []
        self.lines: dict[tuple[str | int, ...], int] = {}
        self._table((), value)

    def _table(self, path: tuple[str | int, ...], value: dict[str, Any]) -> None:
        simple = {name: each for name, each in value.items() if not self._is_table(each)}
        for name, each in simple.items():
            self.lines[*path, name] = len(self.text) + 1
            self.text.append(f"{basic(name)} = {self._inline(each)} # x = [")
        for name, each in value.items():
            if isinstance(each, dict):
                self._header((*path, name), "[", "]")
                self._table((*path, name), each)
            elif name not in simple:
                for number, one in enumerate(each):
                    self._header((*path, name), "[[", "]]")
                    self.lines[*path, name, number] = len(self.text)
                    self._table((*path, name, number), one)

    def _header(self, path: tuple[str | int, ...], begin: str, end: str) -> None:
        self.text.append("")
        self.text.append(begin + " . ".join(basic(each) for each in path if isinstance(each, str)) + end)
        self.lines.setdefault(path, len(self.text))

    @staticmethod
    def _is_table(value: object) -> bool:
        return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))

    def _inline(self, value: object) -> str:
        if isinstance(value, list):
            return "[" + ", ".join(map(self._inline, value)) + "]"
        return basic(value) if isinstance(value, str) else str(value).lower()


@given(TABLES)
def test_the_lines_of_any_document(value: dict[str, Any]) -> None:
    written = Written(value)
    text = "\n".join(written.text)
    assert tomllib.loads(text) == value
    lines = key_lines(text)
    assert {path: lines[path] for path in written.lines} == written.lines
