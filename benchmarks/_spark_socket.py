"""The least that receiving costs: rows of 1 KB from a plain socket; the server is `python -m benchmarks._spark_socket`.

A task asks for a number of rows with 8 bytes, and gets the bodies one behind the other. There is no protocol, no credit
and no message to read: the bytes that were received are the column. What a log takes beyond it is the price of AMQP, of
fields and offsets, and of our own code.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructType

from benchmarks._spark_peers import BODY_BYTES, ROWS, MemoryReader, Range

_COUNT = struct.Struct(">Q")


class SocketReader(MemoryReader):
    """Has as many rows as it is asked for; executors receive them."""

    def __init__(self, options: dict[str, str]) -> None:
        """Read the options."""
        super().__init__(options)
        self._port = int(options["port"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the received bodies, without a copy."""
        assert isinstance(partition, Range)
        schema = pa.schema([pa.field("body", pa.binary())])
        with socket.create_connection(("127.0.0.1", self._port)) as peer:
            peer.sendall(_COUNT.pack(partition.last - partition.first))
            for first in range(partition.first, partition.last, ROWS):
                rows = min(ROWS, partition.last - first)
                ends = pa.array(range(0, (rows + 1) * BODY_BYTES, BODY_BYTES), pa.int32()).buffers()[1]
                bodies = pa.Array.from_buffers(pa.binary(), rows, [None, ends, _received(peer, rows * BODY_BYTES)])
                yield pa.RecordBatch.from_arrays([bodies], schema=schema)


class SocketSource(DataSource):
    """Rows from a plain socket."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "benchmark_socket"

    def schema(self) -> str:
        """Return the one column."""
        return "body binary"

    def streamReader(self, schema: StructType) -> SocketReader:  # noqa: ARG002, N802 - Spark calls it
        """Return the reader."""
        return SocketReader(dict(self.options))


def _received(peer: socket.socket, size: int) -> pa.Buffer:
    """Return the next bytes.

    Errors: `ConnectionError` if there are fewer.
    """
    into = bytearray(size)
    view, at = memoryview(into), 0
    while at < size:
        count = peer.recv_into(view[at:])
        if not count:
            msg = f"the server closed after {at} of {size} bytes"
            raise ConnectionError(msg)
        at += count
    return pa.py_buffer(into)


@contextmanager
def running_socket() -> Iterator[int]:
    """Have the server in a process of its own for a block; the value is its port."""
    command = [sys.executable, "-m", "benchmarks._spark_socket"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def _serve(peer: socket.socket) -> None:
    """Send as many rows as a task asks for; a task that is gone wants no more."""
    some = bytes(BODY_BYTES * 256)
    with peer, suppress(OSError):
        left = _COUNT.unpack(peer.recv(_COUNT.size, socket.MSG_WAITALL))[0] * BODY_BYTES
        while left:
            left -= peer.send(memoryview(some)[:left])


def main() -> None:
    """Be the server."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sys.stdout.write(f"{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            peer, _ = listening.accept()
            threading.Thread(target=_serve, args=(peer,), daemon=True).start()


if __name__ == "__main__":
    main()
