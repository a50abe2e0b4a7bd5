"""Draws the picture of the running demo, `docs/images/demo.svg`: `.venv/bin/python tools/demo_picture.py`.

It runs `make demo` in a terminal of its own. It takes one screen from the middle of the run and draws it below a sketch
of the flow.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

from rich.color import Color
from rich.console import Console
from rich.segment import Segment
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURE: Final = Path(__file__).parents[1] / "docs/images/demo.svg"
COLUMNS: Final = 80
LINES: Final = 28  # below 30 lines the demo draws its small chart
HALF: Final = 26_115 // 2

_CELL: Final = 8  # the width of a character
_LINE: Final = 17
_MARGIN: Final = 20
_TOP: Final = 140  # where the terminal begins
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_BARS: Final = {"━": (0.0, 1.0), "╸": (0.0, 0.5), "╺": (0.5, 0.5)}
_AT_REST: Final = re.compile(r"credit 0\b.*?([\d,]+) of 26,115 processed.*? \1 received", re.DOTALL)
_NEW_FRAME: Final = re.compile(r"\r\x1b\[2K(?:\x1b\[1A\x1b\[2K)*")  # rich erases its last frame, line by line


def screens() -> list[str]:
    """Run the demo and return all screens that it has drawn."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    written = bytearray()
    command = ["make", "demo"]
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment) as demo:
        os.close(its)
        try:
            while data := os.read(ours, 65536):
                written += data
        except OSError:  # the terminal's other end is closed: all processes have ended
            pass
    os.close(ours)
    if demo.returncode:
        sys.exit(f"the demo failed: {written.decode(errors='replace')[-500:]}")
    return _NEW_FRAME.split(written.decode())


def half_way(drawn: list[str]) -> str:
    """Return a screen near the middle of the run: the queue is full, and Spark and the subscriber are equally far."""
    known = {int(found[1].replace(",", "")): screen for screen in drawn if (found := _AT_REST.search(_plain(screen)))}
    if not known:
        sys.exit("no screen shows a full queue while Spark and the subscriber agree; run it again")
    return known[min(known, key=lambda processed: abs(processed - HALF))]


def _plain(screen: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", screen)


def picture(screen: str) -> str:
    """Return a screen below a sketch of the flow, as SVG."""
    console = Console(width=COLUMNS, color_system="truecolor", force_terminal=True, legacy_windows=False)
    lines = console.render_lines(Text.from_ansi(screen.replace("\r\n", "\n").rstrip()))
    width = COLUMNS * _CELL + 2 * _MARGIN
    height = _TOP + len(lines) * _LINE + 2 * _MARGIN
    terminal = (
        f'<rect y="{_TOP}" width="{width}" height="{height - _TOP}" rx="8" fill="{MONOKAI.background_color.hex}"/>'
    )
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    made = "<!-- Made by tools/demo_picture.py from a run of `make demo`. -->"
    told = "<title>The demo: three publishers, a queue, a Spark job, a queue and a subscriber</title>"
    paper = f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>'
    drawn = [part for row, line in enumerate(lines) for part in _line(line, _TOP + _MARGIN + row * _LINE)]
    style = (
        'font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="13" xml:space="preserve"'
    )
    return "\n".join(
        [
            begin,
            made,
            told,
            paper,
            *_flow(width),
            terminal,
            f'<g {style} shape-rendering="crispEdges">',
            *drawn,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _line(segments: list[Segment], y: int) -> Iterator[str]:
    """Draw one line of the terminal. Bars and blocks are rectangles, which look the same with every font."""
    column = 0
    for text, style, _control in segments:
        color = style.color if style and style.color else Color.default()
        fill = color.get_truecolor(MONOKAI).hex
        weight = ' font-weight="bold"' if style and style.bold else ""
        faint = ' opacity="0.6"' if style and style.dim else ""
        for part in re.finditer(r"([━╸╺]+|[▁▂▃▄▅▆▇█]+)|[^━╸╺▁▂▃▄▅▆▇█]+", text):
            x = _MARGIN + (column + part.start()) * _CELL
            if part[1]:
                yield from _rectangles(part[1], x, y, fill)
            elif part[0].strip():
                words = part[0].rstrip()
                length = f'textLength="{len(words) * _CELL}" lengthAdjust="spacingAndGlyphs"'
                yield f'<text x="{x}" y="{y + 13}" {length} fill="{fill}"{weight}{faint}>{escape(words)}</text>'
        column += len(text)


def _rectangles(text: str, x: int, y: int, fill: str) -> Iterator[str]:
    for same in re.finditer(r"(.)\1*", text):
        left, width = x + same.start() * _CELL, len(same[0]) * _CELL
        if same[1] in _BARS:
            begin, share = _BARS[same[1]]
            size = f'x="{left + begin * width:g}" y="{y + 7}" width="{width * share:g}" height="3"'
        else:
            high = _LINE * _BLOCKS.index(same[1]) / 8
            size = f'x="{left}" y="{y + _LINE - high:g}" width="{width}" height="{high:g}"'
        yield f'<rect {size} fill="{fill}"/>'


def _flow(width: int) -> Iterator[str]:
    """Draw the programs and the queues: messages go from left to right, credit goes from right to left."""
    yield '<g font-family="system-ui, Helvetica, DejaVu Sans, sans-serif" font-size="13" text-anchor="middle">'
    wide, y, high = 108, 46, 48
    names = [
        ("3 publishers", "EWR, JFK, LGA"),
        ("queue", "observations"),
        ("Spark job", "daily maxima"),
        ("queue", "maxima"),
        ("subscriber", "1,092 results"),
    ]
    gap = (width - 2 * _MARGIN - len(names) * wide) // (len(names) - 1)
    for place, (name, detail) in enumerate(names):
        x = _MARGIN + place * (wide + gap)
        fill = "#e8f0f7" if name == "queue" else "#f6efe0"
        yield f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="6" fill="{fill}" stroke="#8a97a3"/>'
        yield f'<text x="{x + wide // 2}" y="{y + 20}" font-weight="bold" fill="#1f2d3a">{name}</text>'
        yield f'<text x="{x + wide // 2}" y="{y + 38}" fill="#44525e">{detail}</text>'
        if place:
            yield from _arrow(x - gap + 4, x - 5, y + 16, "#2a6fa8")
            yield from _arrow(x - 4, x - gap + 5, y + 34, "#b3541e")
    yield f'<text x="{width // 2}" y="28" fill="#2a6fa8">messages, over AMQP 1.0 links</text>'
    yield f'<text x="{width // 2}" y="{y + high + 24}" fill="#b3541e">credit: how many messages may be sent</text>'
    yield "</g>"


def _arrow(begin: int, end: int, y: int, colour: str) -> Iterator[str]:
    back = -6 if end > begin else 6
    yield f'<line x1="{begin}" y1="{y}" x2="{end + back}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
    yield f'<path d="M{end},{y} l{back},-4 v8 z" fill="{colour}"/>'


def main() -> None:
    """Run the demo and write the picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(half_way(screens())), encoding="utf-8")
    print(PICTURE.relative_to(Path.cwd()))


if __name__ == "__main__":
    main()
