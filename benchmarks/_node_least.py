"""The least that a durable send needs, a trio socket and a store: `python -m benchmarks._node_least PORT FOLDER`.

There is no protocol: a message has `MESSAGE_BYTES`, and one byte answers it when it is safe. The rest of the time of a
send to a node is that of the protocol, the address and the client.
"""

from __future__ import annotations

import sys
from typing import Final

import trio

from rstreams.errors import StoreError
from rstreams.store import Partition, Store

MESSAGE_BYTES: Final = 1024
SAFE: Final = b"\x01"


async def send(stream: trio.SocketStream, message: bytes) -> None:
    """Send a message, and wait until it is safe."""
    await stream.send_all(message)
    if await stream.receive_some(1) != SAFE:
        msg = "the server has gone"
        raise ConnectionError(msg)


class _Server:
    """The server: it appends each message that has come, and answers when the store has committed it."""

    def __init__(self, folder: str) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self.store = Store(f"{folder}/store", self._notify)

    def _notify(self) -> None:
        self._token.run_sync_soon(self.store.finish, idempotent=True)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer the messages of one client, until it goes."""
        partition, received = self.store.partition("items"), b""
        while data := await stream.receive_some(MESSAGE_BYTES - len(received)):
            received += data
            if len(received) == MESSAGE_BYTES:
                await self._keep(partition, received)
                await stream.send_all(SAFE)
                received = b""

    async def _keep(self, partition: Partition, message: bytes) -> None:
        is_safe = trio.Event()
        errors: list[StoreError] = []

        def done(error: StoreError | None) -> None:
            if error is not None:
                errors.append(error)
            is_safe.set()

        partition.append([message], done)
        await is_safe.wait()
        if errors:
            raise errors[0]


async def _run(port: int, folder: str) -> None:
    await trio.serve_tcp(_Server(folder).serve, port, host="127.0.0.1")


if __name__ == "__main__":
    trio.run(_run, int(sys.argv[1]), sys.argv[2])
