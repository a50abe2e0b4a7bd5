"""A part of a stall as its harness sees it: a process that is started, asked, and ended by its pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import trio

from tests.stalls.answers import Answer

START_S: Final = 150.0
"""How long a process may take until it plays; Spark needs most of it on a busy machine."""

ANSWER_S: Final = 6.0
"""How long it may take to answer."""


class Part:
    """One process.

    Args:
        played: The module in `tests.stalls` and the function, with a dot between, and arguments of the function.
        log: The file for what it writes to the standard error.
        disk: A folder that is to be a small disk of its own, for this process and as long as it lives.

    Attributes:
        name: As `played`.
    """

    def __init__(self, played: str, log: Path, disk: Path | None = None) -> None:
        self.name = played
        self._log = log
        self._disk = disk
        self._process: trio.Process | None = None
        self._lines = b""
        self._is_silent = False

    async def start(self, told: dict[str, Any]) -> dict[str, Any]:
        """Start it with what the earlier parts told; return this with what it tells, when it plays.

        Errors: `RuntimeError` with the end of its log, if it ends or takes too long.
        """
        function, *arguments = self.name.split()
        command = [sys.executable, "-m", "tests.stalls.part", function, json.dumps(told), *arguments]
        if self._disk is not None:
            self._disk.mkdir()
            mount = 'mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"'
            mapped = [] if os.geteuid() == 0 else ["--map-root-user"]
            command = ["unshare", *mapped, "--mount", "sh", "-c", mount, str(self._disk), *command]
        with self._log.open("wb") as log:
            self._process = await trio.lowlevel.open_process(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        with trio.move_on_after(START_S):
            line = await self._line()
            if line:
                more: dict[str, Any] = json.loads(line)
                return told | more
        text = self._log.read_text(errors="replace").strip()[-300:]
        msg = f"{self.name} does not play: {text}"
        raise RuntimeError(msg)

    async def ask(self) -> Answer:
        """Ask whom the others wait for."""
        assert self._process is not None
        assert self._process.stdin is not None
        if not self._is_silent:
            with trio.move_on_after(ANSWER_S):
                await self._process.stdin.send_all(b"explain\n")
                line = await self._line()
                return Answer(**json.loads(line)) if line else Answer(text="the process has ended")
        self._is_silent = True  # a late answer would be taken for that to a later question
        return Answer(text=f"it has not answered within {ANSWER_S:g} s")

    async def _line(self) -> bytes:
        """Return the next line that it writes; an empty one if it has ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        while b"\n" not in self._lines:
            data = await self._process.stdout.receive_some()
            if not data:
                return b""
            self._lines += data
        line, _, self._lines = self._lines.partition(b"\n")
        return line

    def stop(self) -> None:
        """Stop it: it lives, and does nothing more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    async def end(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
