"""Marble diagrams, drawn as text in the operators' docstrings, made into pictures.

A diagram is a few lines: timelines, read from left to right, and between them what happens to the items.

    --1--2--3|        items at their times; `|` is the completion, `X` a failure, `>` that it goes on
       map(x * 10)
    --10-20-30|

A text behind three blanks or more at the end of a timeline is a remark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

_CELL = 13  # the width of a character
_ROW = 44
_RADIUS = 15
_COLOURS = ("#3f7cac", "#95190c", "#e3a72f", "#5b8e4e", "#7d5ba6", "#d1603d", "#2a9d8f", "#6c757d")


def is_timeline(line: str) -> bool:
    """Tell whether a line of a diagram is a timeline, and not what happens to the items."""
    return "--" in line or line.strip() in {"|", "X"}


def picture(diagram: str) -> str:
    """Return a diagram as SVG."""
    lines = [line.rstrip() for line in diagram.splitlines() if line.strip()]
    width = max(len(line) for line in lines) * _CELL + 60
    body: list[str] = []
    for row, line in enumerate(lines):
        middle = row * _ROW + _ROW // 2 + 6
        body.extend(_timeline(line, middle) if is_timeline(line) else _box(line, middle, width))
    height = len(lines) * _ROW + 12
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="ui-monospace, monospace" font-size="13"'
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>'
    background = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([begin, background, *body, "</svg>", ""])


def _timeline(line: str, y: int) -> Iterator[str]:
    lead = len(line) - len(line.lstrip())
    text, *remarks = re.split(r"\s{3,}", line.strip())
    for part in re.finditer(r"\S+", text):
        begin, end = _x(lead + part.start()), _x(lead + part.end())
        yield f'<line x1="{begin}" y1="{y}" x2="{end}" y2="{y}" stroke="#333333" stroke-width="2"/>'
    for mark in re.finditer(r"[^-\s]+", text):
        yield from _mark(mark.group(), lead + mark.start(), y)
    for remark in remarks:
        x = _x(lead + len(text) + 2)
        yield f'<text x="{x}" y="{y + 4}" fill="#555555">{escape(remark)}</text>'


def _mark(text: str, column: int, y: int) -> Iterator[str]:
    if text[-1:] in {"|", "X", ">"} and len(text) > 1:
        yield from _mark(text[:-1], column, y)
        yield from _mark(text[-1], column + len(text) - 1, y)
        return
    x = _x(column) + _CELL * len(text) // 2
    if text == ">":
        tip = f"M{x - 6},{y - 6} L{x + 6},{y} L{x - 6},{y + 6}"
        yield f'<path d="{tip}" fill="none" stroke="#333333" stroke-width="2"/>'
    elif text == "|":
        yield f'<line x1="{x}" y1="{y - 14}" x2="{x}" y2="{y + 14}" stroke="#333333" stroke-width="3"/>'
    elif text == "X":
        cross = f"M{x - 8},{y - 8} L{x + 8},{y + 8} M{x - 8},{y + 8} L{x + 8},{y - 8}"
        yield f'<path d="{cross}" stroke="#c00000" stroke-width="3"/>'
    else:
        half = max(_RADIUS, _CELL * len(text) * 3 // 10 + 6)
        colour = _COLOURS[sum(map(ord, text)) % len(_COLOURS)]
        shape = f'x="{x - half}" y="{y - _RADIUS}" width="{2 * half}" height="{2 * _RADIUS}" rx="{_RADIUS}"'
        yield f'<rect {shape} fill="{colour}"/>'
        yield f'<text x="{x}" y="{y + 4}" text-anchor="middle" fill="#ffffff">{escape(text)}</text>'


def _box(line: str, y: int, width: int) -> Iterator[str]:
    yield (
        f'<rect x="10" y="{y - 15}" width="{width - 20}" height="30" rx="4" fill="#f2f2f2" stroke="#999999"/>'
        f'<text x="{width // 2}" y="{y + 4}" text-anchor="middle" fill="#222222">{escape(line.strip())}</text>'
    )


def _x(column: int) -> int:
    return 20 + column * _CELL
