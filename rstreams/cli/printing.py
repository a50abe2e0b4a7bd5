"""How received messages are written: as bodies, in a format, as JSON, or each into a file of its own."""

from __future__ import annotations

import argparse
import os
import select
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rstreams.cli.console import is_terminal, visible
from rstreams.cli.envelope import envelope_line
from rstreams.cli.exit_codes import mistake
from rstreams.cli.formats import OFFSET, Part, body_bytes, writer_of
from rstreams.message import Message, decode_body
from rstreams.net.links.effectively_once import decode_unstamped

_PARTITION: Final = "x-opt-partition-id"
_MARK: Final = OFFSET.encode()
_FIRST_LOOK_S: Final = 0.00002
_LAST_LOOK_S: Final = 0.005


class Printer:
    """Writes messages to standard output.

    Attributes:
        count: How many have been written.
        skipped: How many messages of a log did not come, by their offsets.
    """

    def __init__(self, part: Part | None) -> None:
        """Write each message as `part` does; None: write its body."""
        self.count = 0
        self.skipped = 0
        self._part = part
        self._is_terminal = is_terminal(sys.stdout)
        self._offsets: dict[object, int] = {}

    def text_of(self, encoded: list[bytes]) -> bytes:
        """Return what is to be written for messages."""
        part = self._part
        if part is None and _MARK not in encoded[0]:
            return self._for_reader(b"\n".join([body_bytes(decode_body(each)) for each in encoded]) + b"\n")
        messages = [decode_unstamped(each) for each in encoded]
        self._note_offsets(messages)
        if part is None:
            return self._for_reader(b"\n".join([body_bytes(each.body) for each in messages]) + b"\n")
        return self._for_reader(b"".join([part(each, self.count + at) for at, each in enumerate(messages, 1)]))

    def _for_reader(self, text: bytes) -> bytes:
        """Return the text in a form that does nothing to a terminal."""
        if not self._is_terminal:
            return text
        return "\n".join(map(visible, text.decode(errors="replace").split("\n"))).encode()

    def _note_offsets(self, messages: list[Message]) -> None:
        for message in messages:
            notes: Any = message.annotations
            offset, partition = notes.get(OFFSET), notes.get(_PARTITION)
            if offset is not None and partition is not None:  # RabbitMQ's offsets have gaps without a message
                before = self._offsets.get(partition, offset - 1)
                self.skipped += max(0, offset - before - 1)
                self._offsets[partition] = max(offset, before)

    def write(self, text: bytes) -> None:
        """Write it; runs in a thread, because a slow reader blocks it."""
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()

    def reader_has_gone(self) -> bool:
        """Tell whether nobody reads standard output any more."""
        try:
            poll = select.poll()
            poll.register(sys.stdout.fileno(), 0)
            return bool(poll.poll(0))
        except (OSError, ValueError, AttributeError):  # it is no file of the system
            return False

    def wait_until_read(self) -> None:
        """Wait until the reader of a pipe has read all that was written to it; runs in a thread.

        Errors: `BrokenPipeError` if it has gone before.
        """
        wait_s = _FIRST_LOOK_S
        while self._in_pipe():
            if self.reader_has_gone():
                raise BrokenPipeError
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _LAST_LOOK_S)

    def _in_pipe(self) -> int:
        """Return how many bytes a pipe has that nobody has read; 0 if it is none, or the system does not tell it."""
        try:
            import fcntl
            import termios

            file = sys.stdout.fileno()
            if not stat.S_ISFIFO(os.fstat(file).st_mode):
                return 0
            return int.from_bytes(fcntl.ioctl(file, termios.FIONREAD, bytes(4)), sys.byteorder)
        except (OSError, ValueError, AttributeError, ImportError):
            return 0


class FilePrinter(Printer):
    """Writes each message into a file of its own; none that is there already is changed."""

    def __init__(self, folder: Path, *, is_json: bool) -> None:
        """Write into a folder, which is made if it is missing.

        Errors: `CommandEnded` if it cannot be.
        """
        super().__init__(None)
        self._folder = folder
        self._suffix = ".json" if is_json else ".body"
        self._is_json = is_json
        self._contents: list[bytes] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = f"--out {str(folder)!r}: {error.strerror}"
            raise mistake(msg) from error

    def text_of(self, encoded: list[bytes]) -> bytes:
        """Keep the contents of the files for `write`."""
        messages = [decode_unstamped(each) for each in encoded]
        self._note_offsets(messages)
        content: Callable[[Message], bytes] = _json if self._is_json else _body
        self._contents = [content(each) for each in messages]
        return b""

    def write(self, text: bytes) -> None:  # noqa: ARG002 - the contents are kept
        """Write the files.

        Errors: `CommandEnded` if one is there already, or cannot be written.
        """
        for at, content in enumerate(self._contents, self.count + 1):
            path = self._folder / f"{at:06}{self._suffix}"
            try:
                with path.open("xb") as file:
                    file.write(content)
            except FileExistsError:
                msg = f"--out: {path} is there already; give an empty folder"
                raise mistake(msg) from None
            except OSError as error:
                msg = f"--out: {path} cannot be written: {error.strerror}"
                raise mistake(msg) from error

    def reader_has_gone(self) -> bool:
        """Tell that there is no reader to be waited for."""
        return False

    def wait_until_read(self) -> None:
        """Do nothing: the files are written."""


def _json(message: Message) -> bytes:
    return envelope_line(message).encode(errors="surrogatepass") + b"\n"


def _body(message: Message) -> bytes:
    return body_bytes(message.body)


def printer_of(arguments: argparse.Namespace) -> Printer:
    """Return what writes messages as the arguments say.

    Errors: `CommandEnded` for a format or a folder that cannot be.
    """
    if arguments.out is not None:
        return FilePrinter(arguments.out, is_json=arguments.json)
    if sys.stdout is None:
        msg = "standard output is closed; redirect it to a file, or give --out DIR"
        raise mistake(msg)
    if arguments.json:
        return Printer(lambda message, _: _json(message))
    return Printer(None if arguments.format is None else writer_of(os.fsdecode(arguments.format)))
