"""Peers for the tests of the commands: a node as a process, and servers that speak no AMQP 1.0."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rstreams.node import PasswordHash

QUEUES = 200
"""How many queues the node has; each test takes new ones."""


class CommandNode:
    """A node that runs as a process.

    Attributes:
        url: Its url; user alice, whose password is in `secret`, if it has users.
        secret: The file with her password.
    """

    def __init__(self, url: str, secret: Path) -> None:
        self.url = url
        self.secret = secret
        self._numbers = itertools.count()

    @property
    def queue(self) -> str:
        """A queue that nobody has used."""
        number = next(self._numbers)
        assert number < QUEUES
        return f"q{number}"


@contextmanager
def command_node(folder: Path, *, users: bool = False) -> Iterator[CommandNode]:
    """Run a node until the block ends."""
    secret = folder / "secret"
    secret.write_text("hunter2\n")
    config = folder / "node.toml"
    text = '[[listen]]\nplace = "127.0.0.1:0"\n[queues.small]\ncapacity = 2\nwhen_full = "reject"\n'
    text += "".join(f"[queues.q{number}]\ncapacity = 1000000\n" for number in range(QUEUES))
    text += '[logs.events]\nretention_items = 100000\n[logs.newest]\ncompact = true\nkey = "x-opt-partition-key"\n'
    text += "[multicasts.news]\n"
    if users:
        text += f'[users.alice]\npassword = "{PasswordHash.of("hunter2").text}"\n'
        text += '[[permissions]]\nusers = "alice"\naddresses = "q0"\nallow = "subscribe"\n'
    config.write_text(text)
    command = [sys.executable, "-m", "rstreams.cli", "node", "--config", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), line
        yield CommandNode(line.removeprefix("listening on ").strip(), secret)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def server(answer: bytes) -> Iterator[str]:
    """Listen, and send each client the same bytes, whatever it says; yield the url."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client:
                    client.recv(4096)
                    client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"amqp://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(5)
