"""The processes of the crash matrix: brokers and a Spark driver, started, asked and ended by their process ids."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import trio

from benchmarks._processes import descendants, parent_of
from tests.small_spark import SETTINGS

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[3]


class Child:
    """A Python program whose standard output is read line by line."""

    def __init__(self, program: Path, *arguments: str, log: Path | None = None) -> None:
        """Start nothing yet.

        Args:
            program: The file.
            arguments: Its arguments.
            log: The file for what it writes to standard error; None: nowhere.
        """
        self._command = [sys.executable, str(program), *arguments]
        self._log = log
        self.process: trio.Process | None = None
        self._came = b""

    async def start(self, *more: str) -> str:
        """Start it, with `more` arguments; return its first line."""
        with self._open_log() as stderr:
            self.process = await trio.lowlevel.open_process(
                [*self._command, *more],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=os.environ | SETTINGS | {"PYTHONPATH": str(ROOT)},
                cwd=ROOT,
            )
        self._came = b""
        return await self.line()

    def _open_log(self) -> IO[bytes]:
        return Path(os.devnull).open("wb") if self._log is None else self._log.open("ab")

    async def line(self) -> str:
        """Return its next line.

        Errors: `RuntimeError` if it has ended.
        """
        assert self.process is not None, "it is started first"
        assert self.process.stdout is not None, "it is a pipe"
        while b"\n" not in self._came:
            some = await self.process.stdout.receive_some()
            if not some:
                msg = f"{self._command[1]} has ended"
                raise RuntimeError(msg)
            self._came += some
        line, _, self._came = self._came.partition(b"\n")
        return line.decode()

    async def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    await pipe.aclose()
            self.process = None


class Driver(Child):
    """A Spark driver: `driver.py`.

    Attributes:
        jvm: The process id of its JVM; 0 if it does not run.
    """

    def __init__(self, log: Path) -> None:
        """Start nothing yet."""
        super().__init__(HERE / "driver.py", log=log)
        self.jvm = 0
        self.starts = 0

    async def __aenter__(self) -> Self:
        """Return it; it is started by the first command."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it, and its JVM."""
        with trio.CancelScope(shield=True):
            await self.kill()

    async def ask(self, **command: object) -> dict[str, Any]:
        """Return the answer to a command; the driver is started if it does not run.

        Errors: `RuntimeError` if it ends meanwhile.
        """
        if self.process is None:
            self.jvm = int(await self.start())
            self.starts += 1
        assert self.process is not None, "it has just been started"
        assert self.process.stdin is not None, "it is a pipe"
        await self.process.stdin.send_all(json.dumps(command).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await self.line())
        return answer

    async def kill(self) -> None:
        """End it and its JVM as a crash would."""
        if self.jvm:
            kill(self.jvm)
        await super().kill()
        self.jvm = 0

    def runner(self) -> int | None:
        """Return the process id of the runner of its query."""
        return next(
            (pid for pid in descendants(self.jvm) if b"python_streaming_source_runner" in command_of(pid)), None
        )

    def workers(self) -> list[int]:
        """Return the process ids of its Python workers, but the runner; their daemon, if it has none."""
        daemons = [pid for pid in descendants(self.jvm) if b"pyspark.daemon" in command_of(pid)]
        workers = [pid for pid in daemons if parent_of(pid) in daemons]
        return workers or daemons


def kill(pid: int | None) -> None:
    """Kill a process that this program has started, or that a child of it has; None: there is none."""
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def go_on(pid: int) -> None:
    """Let a process that stopped itself go on, if it lives."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def command_of(pid: int) -> bytes:
    """Return the command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
