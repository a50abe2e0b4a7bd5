"""The line of each key in a TOML document, because `tomllib` reads values without their places.

The document has been read by `tomllib` before: it is valid, and the scan has to find keys only. It knows strings,
comments, arrays and tables, and nothing of the values.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE: Final = re.compile(r"[ \t]*")
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\])*"|\'[^\']*\'',
    re.DOTALL,
)
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN: Final = re.compile(r"[^,\]}\n#]*")


def key_lines(text: str) -> dict[Path, int]:
    """Return the line of every key and table of a valid document, by the path of keys and places in arrays."""
    return _Scan(text).lines


def line_of(lines: Mapping[Path, int], path: Path) -> int | None:
    """Return the line of a path, or of the nearest table around it; None if there is none."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)


class _Scan:
    """One walk over a document."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._text = text
        self._at = 0
        self._tables: dict[Path, int] = {}  # how many tables each array of tables has
        self._line, self._counted = 1, 0
        table: Path = ()
        self._skip(_BLANK)
        while self._at < len(text):
            table = self._header() if text[self._at] == "[" else self._pair(table)
            self._skip(_BLANK)

    def _header(self) -> Path:
        """Read `[a.b]` or `[[a.b]]`; return the path of the table."""
        several = self._text.startswith("[[", self._at)
        at = self._at
        self._at += 2 if several else 1
        self._skip(_SPACE)
        path = self._in_last((), self._key())
        self._at += 2 if several else 1
        if several:
            number = self._tables[path] = self._tables.get(path, -1) + 1
            self._note(path, at)
            path = (*path, number)
        self._note(path, at)
        return path

    def _in_last(self, table: Path, key: Path) -> Path:
        """Return the path of a key; an array of tables on the way stands for its last table."""
        for at, part in enumerate(key):
            table = (*table, part)
            if table in self._tables and at < len(key) - 1:
                table = (*table, self._tables[table])
        return table

    def _pair(self, table: Path) -> Path:
        """Read `key = value` of a table; return the table's path."""
        at = self._at
        path = self._in_last(table, self._key())
        self._note(path, at)
        self._at += 1  # the equals sign
        self._skip(_SPACE)
        self._value(path)
        return table

    def _key(self) -> Path:
        """Read a key and the blanks behind it."""
        parts: list[str] = []
        while True:
            found = _BARE.match(self._text, self._at) or _STRING.match(self._text, self._at)
            assert found is not None, "the document is valid"
            word = found.group()
            parts.append(tomllib.loads(f"k={word}")["k"] if word[0] in "\"'" else word)
            self._at = found.end()
            self._skip(_SPACE)
            if self._text[self._at : self._at + 1] != ".":
                return tuple(parts)
            self._at += 1
            self._skip(_SPACE)

    def _value(self, path: Path) -> None:
        """Read a value."""
        first = self._text[self._at : self._at + 1]
        if first == "[":
            self._array(path)
        elif first == "{":
            self._inline_table(path)
        else:
            found = _STRING.match(self._text, self._at) or _PLAIN.match(self._text, self._at)
            assert found is not None, "the second pattern always matches"
            self._at = found.end()

    def _array(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._next("]"):
            self._note((*path, number), self._at)
            self._value((*path, number))
            number += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        while self._next("}"):
            self._pair(path)

    def _next(self, end: str) -> bool:
        """Go to the next part of an array or a table; tell whether there is one."""
        self._skip(_BLANK)
        if self._text[self._at] == ",":
            self._at += 1
            self._skip(_BLANK)
        if self._text[self._at] != end:
            return True
        self._at += 1
        return False

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        assert found is not None, "it matches nothing, too"
        self._at = found.end()

    def _note(self, path: Path, at: int) -> None:
        self._line += self._text.count("\n", self._counted, at)
        self._counted = at
        for length in range(1, len(path) + 1):
            self.lines.setdefault(path[:length], self._line)
