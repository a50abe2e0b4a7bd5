"""Two queries of one driver that read the same queue: each message goes to one of them, which few people mean.

It happens when `writeStream` is called twice on one DataFrame. Each query has a process of its own; the processes of a
driver are known to each other by the names of sockets, which end with their process. Only Linux has such names.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys

from rstreams_spark._log import TWO_READERS, say


class OneReader:
    """This process as a reader of a queue.

    Args:
        where: Names the source in the log.
        queue: Names the queue and its peer.
    """

    def __init__(self, where: str, queue: str) -> None:
        self._name: socket.socket | None = None
        if sys.platform != "linux":
            return
        self._name = socket.socket(socket.AF_UNIX)
        digest = hashlib.blake2b(queue.encode(), digest_size=16).hexdigest()
        try:
            self._name.bind(f"\0rstreams-spark-{os.getuid()}-{os.getppid()}-{digest}")
        except OSError:
            say(
                TWO_READERS,
                where,
                "another stream of this driver reads this queue, and each message goes to one of the two "
                "only. To write the rows to several places, start one query, and write each batch to all of them in "
                "foreachBatch",
            )

    def close(self) -> None:
        """Read no more."""
        if self._name is not None:
            self._name.close()
