"""The node of a run in log mode: log `in` has numbered messages, and a query copies them to log `out`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import rstreams
from adapters.spark.tests.crash.processes import HERE, Child
from rstreams import Connection, Message, Stream

PARTITIONS: Final = 3


class LogNode:
    """A node that keeps its logs in a store.

    Attributes:
        port: Where it listens; the same when it is started again.
    """

    def __init__(self, folder: Path) -> None:
        """Start nothing yet; the store will be in `folder`."""
        self.port = "0"
        self._folder = folder
        self._child = Child(HERE.parent / "log_process.py")

    async def start(self, messages: int = 0) -> None:
        """Start it, and append so many messages to log `in`."""
        logs = (f"{name}={PARTITIONS}" for name in ("in", "out"))
        self.port = await self._child.start(self.port, str(self._folder), *logs)
        if messages:
            numbered = Stream.range(messages).map(lambda n: Message(b"%d" % n, id=f"m-{n}"))
            async with self._connected() as connection:
                await connection.publish("in", numbered)

    async def restart_broker(self) -> None:
        """Kill it, and start it again at its port."""
        await self.kill()
        await self.start()

    async def kill(self) -> None:
        """End it as a crash would."""
        await self._child.kill()

    async def copied(self) -> list[dict[str, object]]:
        """Return the ids of the messages in log `out`, and where they were in log `in`.

        Messages of one partition of `in` have one key. Therefore they are in one partition of `out`, in their order.
        """
        found: list[dict[str, object]] = []
        async with self._connected() as connection:
            for number, end in enumerate(await self._ends(connection)):
                messages = await connection.messages(f"out-{number}", start="first").take(end).to_list() if end else []
                for message in messages:
                    partition, offset = message.properties["partition"], int(str(message.properties["offset"]))
                    found.append({"item": str(message.id), "partition": str(partition), "offset": offset})
        return found

    async def _ends(self, connection: Connection) -> list[int]:
        statistics: Any = await connection.stream("$statistics").first_or_none()
        return [int(partition["next"]) for partition in statistics["logs"]["out"]["partitions"]]

    def _connected(self) -> Any:  # noqa: ANN401 - the block that `connect` returns
        return rstreams.connect(f"amqp://127.0.0.1:{self.port}")
