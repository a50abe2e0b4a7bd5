"""Workers as processes, and their calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trio

from tests.compat.environment import ROOT

ANSWER_S: Final = 60.0
"""How long a call may take; a call that takes longer has stalled."""

_START: Final = "import sys; sys.path.append({root!r}); from tests.compat.worker import main; main()"
"""The root comes last: rstreams is the one that is installed for the interpreter."""


@dataclass(frozen=True)
class Version:
    """One of the two versions.

    Attributes:
        name: "old" or "new".
        python: Its interpreter.
        root: The folder that its rstreams is in.
    """

    name: str
    python: Path
    root: Path


def new_version() -> Version:
    """Return the version of the working tree."""
    return Version("new", Path(sys.executable), ROOT)


class CallFailed(Exception):
    """A worker answered with an error.

    Attributes:
        told: Its type, text, condition, description, info.
    """

    def __init__(self, call: str, told: dict[str, Any]) -> None:
        super().__init__(f"{call}: {told['type']}: {told['text']}")
        self.told = told


class Process:
    """A worker; each method of it is a call: `await process("publish", "c", "queue", count=5)`."""

    def __init__(self, version: Version, process: trio.Process) -> None:
        self.version = version
        self._process = process
        self._waiting: dict[int, tuple[str, trio.Event]] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._calls = 0
        self._lock = trio.Lock()
        self.ended = trio.Event()

    async def __call__(self, call: str, name: str, *places: Any, **options: Any) -> Any:
        """Make a call; `places` are the second and later parameters that most calls have."""
        self._calls += 1
        number, answered = self._calls, trio.Event()
        self._waiting[number] = call, answered
        options |= dict(zip(_PLACES.get(call, ()), places, strict=False))
        line = json.dumps({"id": number, "do": call, "name": name, **options}) + "\n"
        assert self._process.stdin is not None
        if self.ended.is_set():
            raise CallFailed(call, {"type": "Ended", "text": f"the {self.version.name} process has ended"})
        with trio.move_on_after(ANSWER_S):
            async with self._lock:
                await self._process.stdin.send_all(line.encode())
            await answered.wait()
        if number not in self._answers:
            raise CallFailed(call, {"type": "NoAnswer", "text": f"the {self.version.name} process did not answer"})
        answer = self._answers.pop(number)
        if "error" in answer:
            what = f"{self.version.name} {call}"
            raise CallFailed(what, answer["error"])
        return answer["result"]

    async def hear(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Receive the answers."""
        assert self._process.stdout is not None
        rest = b""
        async for chunk in self._process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                if "rstreams" in answer:
                    if not Path(answer["rstreams"]).is_relative_to(self.version.root):
                        msg = f"the {self.version.name} process has the rstreams in {answer['rstreams']}"
                        raise AssertionError(msg)
                    task_status.started()
                    continue
                _, answered = self._waiting.pop(answer["id"])
                self._answers[answer["id"]] = answer
                answered.set()
        self.ended.set()
        for _, answered in self._waiting.values():  # nothing answers these any more
            answered.set()

    async def kill(self) -> None:
        """End it with `kill -9`."""
        self._process.kill()
        await self._process.wait()

    async def end(self) -> None:
        """Have it close everything in order, and end."""
        assert self._process.stdin is not None
        with suppress(trio.BrokenResourceError):  # it was killed
            await self._process.stdin.aclose()
        with trio.move_on_after(ANSWER_S):
            await self._process.wait()


_PLACES: Final = {
    "connect": ("url",),
    "publish": ("address", "count"),
    "send": ("address", "count"),
    "open": ("connection", "address"),
    "next": ("count", "outcome"),
    "streamed": ("address", "count"),
    "request": ("address", "asked"),
    "replies": ("address", "asked", "count"),
    "respond": ("address",),
    "unsubscribe": ("address", "subscription"),
    "manage": ("call", "of"),
    "add": ("kind", "address"),
    "serve": ("address", "count"),
    "serve_from": ("address", "count"),
    "answer": ("address",),
    "listen": ("place",),
}
"""The names of the parameters that are given by place."""


@asynccontextmanager
async def started(version: Version, errors: Path) -> AsyncIterator[Process]:
    """Start a worker for the length of a block; what it writes to standard error goes to a file."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(version.python), "-P", "-c", _START.format(root=str(ROOT))]
    with errors.open("ab") as file:
        process = await trio.lowlevel.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, env=environment, cwd=errors.parent
        )
    worker = Process(version, process)
    try:
        async with trio.open_nursery() as nursery:
            with trio.fail_after(ANSWER_S):
                await nursery.start(worker.hear)
            yield worker
            await worker.end()
            nursery.cancel_scope.cancel()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
