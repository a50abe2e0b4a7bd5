"""Servers that the tests start: on free ports of the loopback, each ended by its pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from benchmarks._processes import wait_until_listening

BUILD: Final = Path(__file__).parents[2] / "build" / "interop"
"""Where `make interop` installs the peers."""

Event = dict[str, Any]


def installed(peer: str, directory: str) -> Path:
    """Return where a peer is installed; skip the test that asks if it is not, saying why."""
    why = BUILD / f"{peer}.skipped"
    if why.exists():
        pytest.skip(f"{peer}: {why.read_text().strip()}")
    place = BUILD / directory
    if not place.exists():
        pytest.skip(f"{peer}: not installed; run `make interop`")
    return place


def took_part(peer: str) -> None:
    """Note for `make interop` that a peer, with its version, was there."""
    with (BUILD / "peers").open("a") as peers:
        peers.write(f"{peer}\n")


async def eventually(happened: Callable[[], object]) -> None:
    """Wait for what a real peer does in its own time; it is an error if it does not."""
    with trio.fail_after(10):
        while not happened():  # noqa: ASYNC110 - what happens is a signal to some probe
            await trio.sleep(0.01)


class Server:
    """A server process; its output goes to a file, which an error quotes.

    Attributes:
        port: Where it listens on 127.0.0.1.
    """

    def __init__(self, command: Sequence[str], *, port: int, log: Path, environment: Mapping[str, str] = {}) -> None:
        """Prepare the process; `start` starts it."""
        self.port = port
        self._command = list(command)
        self._environment = {**os.environ, **environment}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where a client connects to, without credentials."""
        return f"amqp://127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor killed."""
        return self._process is not None

    def start(self, *, timeout_s: float = 60.0) -> None:
        """Start the process and wait until it listens."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        wait_until_listening(self._process, self.port, self._log, timeout_s)

    def kill(self) -> None:
        """End the process, and what it has started, without a word."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the process in order."""
        self._end(signal.SIGTERM)

    def _end(self, signal_: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal_)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it started lives in the same session
        process.wait()


async def told_by(command: Sequence[str], *, script: bytes = b"", timeout_s: float = 30.0) -> tuple[int, list[Event]]:
    """Run a client that does one thing; return its exit code and the events it told, each a line of JSON.

    Args:
        command: What to run.
        script: What its standard input is: a program, for an interpreter in a chroot that sees none of our files.
        timeout_s: How long it may take; it is ended then, which is an error.
    """
    said, errors = bytearray(), bytearray()

    async def read(stream: trio.abc.ReceiveStream, into: bytearray) -> None:
        async for data in stream:
            into += data

    try:
        with trio.fail_after(timeout_s):
            async with trio.open_nursery() as nursery:
                pipe = subprocess.PIPE
                process: trio.Process = await nursery.start(
                    partial(trio.run_process, list(command), stdin=script, stdout=pipe, stderr=pipe, check=False)
                )
                assert process.stdout is not None
                assert process.stderr is not None
                nursery.start_soon(read, process.stdout, said)
                nursery.start_soon(read, process.stderr, errors)
        assert process.returncode is not None
    finally:
        sys.stdout.write(f"{said.decode()}{errors.decode(errors='replace')}")  # pytest shows it if the test fails
    return process.returncode, [json.loads(line) for line in said.splitlines()]


def of(events: list[Event], name: str) -> list[Event]:
    """Return the events of one name."""
    return [event for event in events if event["event"] == name]


def chrooted(root: Path, *command: str) -> list[str]:
    """Return the command that runs `command` inside `root`, with a /proc that goes away with it."""
    script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
    return ["unshare", "--mount", "sh", "-c", script, str(root), *command]
