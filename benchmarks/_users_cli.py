"""The commands `rstreams send` and `rstreams recv`, with lines of a file and lines into nowhere.

The process that listens has a node with a queue. The other process runs the command, and times it from its connecting
to its end.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import rstreams.cli.looking
import rstreams.cli.recv
import rstreams.cli.sending  # noqa: F401 - what the commands would import while they are timed
from benchmarks._processes import Figures, Load, Timer, idle
from benchmarks._users_rstreams import drain, feed
from rstreams.cli.__main__ import main
from rstreams.cli.envelope import envelope_line
from rstreams.message import Message

__all__ = ["drain", "feed", "idle", "recv", "recv_json", "send", "send_json"]


def send(load: Load) -> Figures:
    """Send lines."""
    return _send(load, load.item, "--lines")


def send_json(load: Load) -> Figures:
    """Send envelopes."""
    return _send(load, envelope_line(Message(load.item)).encode(), "--jsonl")


def recv(load: Load) -> Figures:
    """Take the messages, and write their bodies."""
    return _timed(load, "recv", "items", "--take", "-n", str(load.items))


def recv_json(load: Load) -> Figures:
    """Take the messages, and write their envelopes."""
    return _timed(load, "recv", "items", "--take", "-n", str(load.items), "--json")


def _send(load: Load, line: bytes, form: str) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lines"
        file.write_bytes((line + b"\n") * load.items)
        return _timed(load, "send", "items", form, "--file", str(file))


def _timed(load: Load, *words: str) -> Figures:
    command = [*words, "--quiet", "--url", f"amqp://127.0.0.1:{load.port}"]
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        timer = Timer(load)
        code = main(command)
    assert code == 0, command
    return timer.figures()
