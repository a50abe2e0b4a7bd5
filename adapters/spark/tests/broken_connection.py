"""A TCP proxy on loopback whose connections a test can reset."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """Passes bytes on to a port, until it is told to reset or refuse connections."""

    def __init__(self, target: int, port: int = 0) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[threading.Thread, tuple[socket.socket, socket.socket]]] = []
        self._refuses = False
        self.accepted = self.refused = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def reset(self, *, refuse: bool = False) -> None:
        """Reset all connections; with `refuse` those that come later, too."""
        self._refuses = refuse
        pairs, self._pairs = self._pairs, []
        for thread, ends in pairs:
            for end in ends:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            _wake(ends)
            thread.join()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reset()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                near.close()
                self.refused += 1
                continue
            far = socket.create_connection(("127.0.0.1", self._target))
            thread = threading.Thread(target=_connect, args=(near, far), daemon=True)
            self._pairs.append((thread, (near, far)))
            thread.start()
            self.accepted += 1


def _connect(near: socket.socket, far: socket.socket) -> None:
    back = threading.Thread(target=_pass_on, args=(far, near), daemon=True)
    back.start()
    _pass_on(near, far)
    back.join()
    near.close()
    far.close()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    _wake((source, sink))


def _wake(ends: tuple[socket.socket, socket.socket]) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RD)


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
