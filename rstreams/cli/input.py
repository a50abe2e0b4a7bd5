"""What `rstreams send` reads: arguments, whole files, and lines, JSON lines or rows of CSV of files and standard input.

Files are read in a thread, a piece at a time: a command that waits for its input still answers its peer. What is read
is sent at once; nothing waits for a full piece.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import trio

from rstreams.cli.console import is_terminal
from rstreams.cli.envelope import read_envelope
from rstreams.cli.exit_codes import CommandEnded, mistake
from rstreams.message import Message

_PIECE_BYTES: Final = 256 * 1024
_MOST_BYTES: Final = 64 * 1024 * 1024
"""The longest line, and the largest whole file: the most that a message may have by default."""

STDIN: Final = "-"


class InputFiles:
    """Files to be read one after the other.

    Attributes:
        place: Where it reads, for errors: the file and the line.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Read these files; `-` is standard input."""
        self._names = names
        self._line = 0
        self._name = ""

    @property
    def place(self) -> str:
        """The file and the line that were read last."""
        name = "standard input" if self._name == STDIN else self._name
        return f"{name}, line {self._line}" if self._line else name

    def open_all(self) -> list[BinaryIO]:
        """Open the files, before anything is sent.

        Errors: `CommandEnded` for one that cannot be read.
        """
        opened = []
        for name in self._names:
            try:
                opened.append(sys.stdin.buffer if name == STDIN else Path(name).open("rb"))  # noqa: SIM115 - read later
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or str(error)
                msg = f"--file {name!r} cannot be read: {why}"
                raise mistake(msg) from None
        return opened

    async def whole(self, files: Sequence[BinaryIO]) -> AsyncGenerator[list[bytes], None]:
        """Return each file as one message."""
        for name, file in zip(self._names, files, strict=True):
            self._name = name
            with file:
                content = await trio.to_thread.run_sync(file.read, _MOST_BYTES + 1, abandon_on_cancel=True)
            if len(content) > _MOST_BYTES:
                msg = f"{self.place}: it has more than {_MOST_BYTES:,} bytes"
                raise mistake(msg)
            yield [content]

    async def lines(self, files: Sequence[BinaryIO]) -> AsyncGenerator[list[bytes], None]:
        """Return the lines, as many at a time as are there."""
        for name, file in zip(self._names, files, strict=True):
            self._name, self._line = name, 0
            rest = b""
            with file:
                while piece := await trio.to_thread.run_sync(_read_some, file, abandon_on_cancel=True):
                    *lines, rest = (rest + piece).split(b"\n") if rest else piece.split(b"\n")
                    if b"\r" in piece:
                        lines = [line.removesuffix(b"\r") for line in lines]
                    if len(rest) > _MOST_BYTES:
                        msg = f"{self.place}: a line has more than {_MOST_BYTES:,} bytes; give --whole"
                        raise mistake(msg)
                    if lines:
                        yield lines
                        self._line += len(lines)
            if rest:
                yield [rest]

    def envelopes(self, lines: Iterable[bytes]) -> Iterator[Message]:
        """Return the messages of envelopes.

        Errors: `CommandEnded` that names the line.
        """
        for at, line in enumerate(lines, self._line + 1):
            if line.strip():
                try:
                    yield read_envelope(line)
                except CommandEnded as error:
                    name = "standard input" if self._name == STDIN else self._name
                    msg = f"{name}, line {at}: {error}"
                    raise mistake(msg) from None


def _read_some(file: Any) -> bytes:  # noqa: ANN401 - a file that may have `read1`
    read: Callable[[int], bytes] = getattr(file, "read1", file.read)
    return read(_PIECE_BYTES)


class Rows:
    """The rows of a CSV file, as JSON objects by the names of its first row."""

    def __init__(self, source: InputFiles) -> None:
        """Read rows of these lines; a value may have newlines within quotes."""
        self._source = source
        self._names: list[str] | None = None
        self._open = ""  # the begin of a row whose quotes are still open

    def bodies(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Return the bodies.

        Errors: `CommandEnded` for a row that has not as many values as there are names.
        """
        for line in lines:
            try:
                self._open += line.decode() + "\n"
                if self._open.count('"') % 2:
                    continue
                row = next(csv.reader([self._open], strict=True), [])
            except (UnicodeDecodeError, csv.Error) as error:
                msg = f"{self._source.place}: it is no row of CSV: {error}"
                raise mistake(msg) from None
            self._open = ""
            if not row:
                continue
            if self._names is None:
                self._names = row
            elif len(row) != len(self._names):
                msg = f"{self._source.place}: a row has {len(row)} values, and the first one {len(self._names)} names"
                raise mistake(msg)
            else:
                yield json.dumps(dict(zip(self._names, row, strict=True)), ensure_ascii=False).encode()

    def check_end(self) -> None:
        """Check that no row is unfinished.

        Errors: `CommandEnded` if one is.
        """
        if self._open:
            msg = f"{self._source.place}: the quotes of the last row are not closed"
            raise mistake(msg)


def is_typed() -> bool:
    """Tell whether a person types the standard input."""
    return is_terminal(sys.stdin)
