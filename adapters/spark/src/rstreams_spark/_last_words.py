"""A second process that gives Spark the reason when the runner is killed, for example because memory has run out.

A runner that is killed can say nothing. Spark then sees the end of a socket, and the query fails without a reason. A
witness is a small process that holds the same socket. It does nothing while the runner lives. When the runner ends
without a word, the witness answers Spark's call in its place, as PySpark writes an exception: the number -2, the length
of the text, the text.

The socket is the one that is connected to the place in PySpark's environment variables. Without it there is no witness.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

_EXCEPTION: Final = -2


class Witness:
    """The other process, for one runner.

    Context: The runner's main thread.
    """

    def __init__(self, text: str) -> None:
        """Start it.

        Args:
            text: What Spark is told if this process is killed.
        """
        self._pipe: int | None = None
        channel = _channel()
        if channel is None:
            return
        heard, self._pipe = os.pipe()  # the pipe ends with this process, however it ends
        with suppress(OSError):
            subprocess.Popen(  # noqa: S603 - this file
                [sys.executable, "-E", "-S", __file__, str(channel), str(heard), text],
                pass_fds=(channel, heard),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        os.close(heard)

    def dismiss(self) -> None:
        """End it: this process ends in order, and speaks for itself."""
        if self._pipe is not None:
            with suppress(OSError):
                os.write(self._pipe, b".")
            os.close(self._pipe)
            self._pipe = None


def take_witness(where: str, then: str) -> Witness:
    """Have Spark told if this process is killed, and end it in order when Spark ends it.

    Args:
        where: Names the source.
        then: What becomes of its messages.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end_process)
    return Witness(
        f"{where}: its process {os.getpid()} was killed, for example because the machine had no memory left; {then}"
    )


def _end_process(_signal: int, _frame: object) -> None:
    """End the runner in the way of Spark's own code: its `finally` calls `stop` of the reader."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Spark sends it more than once
    sys.exit(0)


def _channel() -> int | None:
    """Return the descriptor of the socket to Spark."""
    path, port = (os.environ.get(f"PYTHON_WORKER_FACTORY_{name}") for name in ("SOCK_PATH", "PORT"))
    if path is None and port is None:
        return None
    for entry in Path("/dev/fd").iterdir():
        with suppress(OSError):
            each = socket.socket(fileno=int(entry.name))
            try:
                peer = each.getpeername()
            finally:
                each.detach()
            if peer == path or (isinstance(peer, tuple) and str(peer[1]) == port):
                return int(entry.name)
    return None


def _wait(channel: int, heard: int, text: str) -> None:
    if os.read(heard, 1):
        return
    told = text.encode()
    with socket.socket(fileno=channel) as spark, suppress(OSError):
        spark.sendall(_EXCEPTION.to_bytes(4, "big", signed=True) + len(told).to_bytes(4, "big") + told)
        while spark.recv(65536):  # a call that Spark makes meanwhile; it closes when it has read the answer
            pass


if __name__ == "__main__":
    _wait(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
