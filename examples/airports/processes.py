"""The processes of the demo: started each in a session of its own, read line by line, and ended with all they started.

Spark's JVM and its Python workers change their process groups, but no process leaves its session by itself. So what
belongs to a child is what is in its session, whether its parent still lives or not. If the demo itself is killed, the
keeper ends its children; that is one more process.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import trio

ROOT = Path(__file__).resolve().parents[2]
"""Where `python -m examples...` finds the examples."""

GRACE_S = 5.0
"""How long processes may take to end by themselves."""

_LOOK_EVERY_S = 0.05

_KEEP = 'while read -r child; do children="$children -$child"; done; [ -z "$children" ] || kill -TERM $children'
"""Reads the children's ids until the end of the input, then ends the process group of each."""


class Child:
    """A process that was started, and everything it started.

    Attributes:
        tail: The last lines it wrote to standard error, for when it fails.
    """

    def __init__(self, process: trio.Process) -> None:
        """Wrap a process that leads its session; see `start`."""
        self.tail: deque[str] = deque(maxlen=50)
        self._process = process

    @classmethod
    async def start(cls, command: Sequence[str], environment: dict[str, str] | None = None) -> Child:
        """Start a process; `environment` is what it has beside that of this process."""
        process = await trio.lowlevel.open_process(
            command,
            cwd=ROOT,
            env=os.environ | (environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches only the demo, which then ends the others in order
        )
        return cls(process)

    @property
    def pid(self) -> int:
        """The id of the process, and so of its session and its first process group."""
        return self._process.pid

    async def run(self, on_line: Callable[[str], None]) -> int:
        """Call `on_line` with each line of its standard output, and return its exit code when it has ended."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, self._process.stdout, on_line)
            nursery.start_soon(self._read, self._process.stderr, self.tail.append)
            code = await self._process.wait()
            # What it started may live on and keep the pipes open.
            nursery.cancel_scope.deadline = trio.current_time() + 1
        return code

    async def _read(self, stream: trio.abc.ReceiveStream, on_line: Callable[[str], None]) -> None:
        rest = b""
        async with stream:
            async for received in stream:
                *lines, rest = (rest + received).split(b"\n")
                for line in lines:
                    on_line(line.decode(errors="replace"))

    async def end(self) -> None:
        """End it and all it started: by SIGTERM to the process itself, and after `GRACE_S` by SIGKILL to all.

        Cancels: Not at all; what was started must not be left behind.
        """
        with trio.CancelScope(shield=True):
            if self._process.poll() is None:
                self._process.terminate()
            with trio.move_on_after(GRACE_S):
                await self._process.wait()
                await self._wait_for_session()
            while left := self._session():
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                await self._process.wait()
                await trio.sleep(_LOOK_EVERY_S)
            await self._process.wait()

    async def _wait_for_session(self) -> None:
        while self._session():  # noqa: ASYNC110 - nobody tells of the end of a process that is not a child
            await trio.sleep(_LOOK_EVERY_S)

    def _session(self) -> list[int]:
        """Return the processes that live in its session; without /proc, only itself."""
        if not Path("/proc/self").exists():
            return [self._process.pid] if self._process.poll() is None else []
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        return [pid for pid in pids if _session_of(pid) == self._process.pid]


class Keeper:
    """A process that ends the children if this process ends without having done so, as it does by SIGKILL.

    It waits for the end of its standard input, which comes when this process is gone, however it went.
    """

    def __init__(self, process: trio.Process) -> None:
        """Wrap a process that runs `_KEEP`; see `start`."""
        self._process = process

    @classmethod
    async def start(cls) -> Keeper:
        """Start the process, in a session of its own, so that Ctrl-C does not reach it."""
        command = ["sh", "-c", _KEEP]
        return cls(await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, start_new_session=True))

    async def keep(self, child: Child) -> None:
        """Have a child ended if this process is gone."""
        assert self._process.stdin is not None
        with suppress(trio.BrokenResourceError):  # somebody has ended it; the demo can do without
            await self._process.stdin.send_all(f"{child.pid}\n".encode())

    async def end(self) -> None:
        """End it without the children."""
        with trio.CancelScope(shield=True):
            self._process.kill()
            await self._process.wait()
            assert self._process.stdin is not None
            await self._process.stdin.aclose()


def _session_of(pid: int) -> int | None:
    """Return the session of a process that is alive: one that is over and only not yet reaped is not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, _parent, _group, session = status.rpartition(")")[2].split()[:4]  # the name before may hold anything
    return int(session) if state not in "ZX" else None
