"""An innocent client of a node that is attacked: `python -m benchmarks._hostile_innocent PORT`.

It asks a served stream for an item 50 times a second, until its input is closed. Then it prints how long it waited for
each, in seconds, as JSON.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from time import perf_counter, sleep
from typing import Final

from benchmarks._hostile_client import TRANSFER, attach, frame, opening
from rstreams._codec.encode import NULL, encode_uint

ASK_EVERY_S: Final = 0.02
_FALSE: Final = b"\x42"


class Innocent:
    """A client that asks a served stream for one item after another."""

    def __init__(self, port: int, address: str) -> None:
        """Attach to the address."""
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.settimeout(30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._count = 0
        self._socket.sendall(opening() + attach(0, receives=address, settled=True))
        self._rest = b""
        self._until(b"\x00\x53\x12")

    def ask(self) -> None:
        """Ask for one item, and wait for it."""
        window, count = encode_uint(2**31 - 1), encode_uint(self._count)
        none = encode_uint(0)
        self._socket.sendall(frame(0x13, count, window, none, window, none, count, encode_uint(1), NULL, _FALSE))
        self._until(TRANSFER)
        self._count += 1

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _until(self, what: bytes) -> None:
        data = b""
        while what not in data:
            more = self._socket.recv(65536)
            if not more:
                msg = "the node has closed the connection of the innocent client"
                raise RuntimeError(msg)
            data += more


def main(port: int) -> None:
    """Ask until the input is closed."""
    over = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        over.set()

    client = Innocent(port, "one")
    for _ in range(50):
        client.ask()
    threading.Thread(target=wait_for_the_end, daemon=True).start()
    print("attached", flush=True)
    waits_s, due = [], perf_counter()
    while not over.is_set():
        due += ASK_EVERY_S
        sleep(max(0.0, due - perf_counter()))
        client.ask()
        waits_s.append(perf_counter() - due)
    client.ask()  # the node is still there
    client.close()
    print(json.dumps(waits_s))


if __name__ == "__main__":
    main(int(sys.argv[1]))
