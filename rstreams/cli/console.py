"""What a command prints: objects and lines on standard output, all else on standard error.

--json      one object a line on standard output, for programs; its fields are documented and stay
--quiet     no summaries, no notes, no progress; errors are always printed
NO_COLOR    no colours, https://no-color.org
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

_REDRAW_S: Final = 0.1
_CLEAR: Final = "\r\x1b[K"


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands that print something."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON object a line")
    group.add_argument("-q", "--quiet", action="store_true", help="print no summary, no notes and no progress")


class Console:
    """Where a command prints.

    Attributes:
        json: Whether objects are printed.
        quiet: Whether only results and errors are printed.
        has_progress: Whether progress is shown: on a terminal alone.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Print as the arguments say."""
        self.json: bool = arguments.json
        self.quiet: bool = arguments.quiet
        self._command: str = arguments.command
        self.has_progress = not self.quiet and is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self._drawn_at = 0.0
        self._is_drawn = False

    def note(self, text: str) -> None:
        """Say something beside the results, unless it is to be quiet."""
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Say something that must be heard, also if it is to be quiet."""
        self.clear_progress()
        self._to_stderr(f"rstreams {self._command}: {visible(text)}\n")

    def print_object(self, value: Mapping[str, Any]) -> None:
        """Print an object as one line."""
        self.clear_progress()
        self._print(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))

    def line(self, text: str = "") -> None:
        """Print a line of a result."""
        self.clear_progress()
        self._print(text)

    @staticmethod
    def _print(text: str) -> None:
        try:
            print(text)
        except BrokenPipeError:  # whoever reads has enough; what the command does is done all the same
            sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends

    def table(self, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table. On a terminal the last column ends where the terminal does."""
        texts = [[visible(str(cell)) for cell in row] for row in rows]
        widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
        right = [all(isinstance(row[at], int) for row in rows) and bool(rows) for at in range(len(head))]
        most = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
        for number, row in enumerate([list(head), *texts]):
            cells = [
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            ]
            text = "  ".join(cells).rstrip()
            text = text if most is None or len(text) <= most else f"{text[: most - 1]}…"
            self.line(bold(text) if number == 0 else text)

    def progress(self, text: str) -> None:
        """Show how far it has come, at most ten times a second, on the last line of a terminal."""
        if self.has_progress and (now := time.monotonic()) - self._drawn_at >= _REDRAW_S:
            self._drawn_at = now
            self._is_drawn = True
            width = shutil.get_terminal_size().columns
            self._to_stderr(f"{_CLEAR}{text[: width - 1]}")

    def clear_progress(self) -> None:
        """Take the progress away, before something else is printed."""
        if self._is_drawn:
            self._is_drawn = False
            self._to_stderr(_CLEAR)

    def _to_stderr(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):  # the terminal is closed: nobody reads it
            self.has_progress = False


def is_terminal(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal; a closed one is not."""
    try:
        return stream.isatty()
    except (ValueError, AttributeError):
        return False


def bold(text: str) -> str:
    """Return the text in bold type, where it is shown."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not is_terminal(sys.stdout)
    return text if plain else f"\x1b[1m{text}\x1b[0m"


def visible(text: str) -> str:
    """Return text of a peer in a form that does nothing to a terminal: no escapes, no moves of the cursor."""
    if text.isprintable():
        return text
    return "".join(
        each if each in "\t " or unicodedata.category(each)[0] not in "CZ" else ascii(each)[1:-1] for each in text
    )
