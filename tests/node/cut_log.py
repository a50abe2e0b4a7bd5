"""A log behind a network that a test cuts, and a client that comes back at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import rstreams
from rstreams import Node, Reconnect, Stream
from rstreams.net.connection import Connection
from rstreams.testing import FaultyNetwork, ProbeSubscriber
from tests.net.over_tcp import until

AT_ONCE: Final = Reconnect(first_delay_s=0.0, max_delay_s=0.0, jitter=0.0)


class CutLog(NamedTuple):
    """A node with the log "events", a network in front of it, a connection through this network, and a direct one."""

    node: Node
    network: FaultyNetwork
    connection: Connection
    direct: Connection

    def cut(self) -> None:
        """Reset all connections through the network."""
        for each in list(self.network.live):
            each.reset()


@asynccontextmanager
async def cut_log(*, partitions: int = 1) -> AsyncIterator[CutLog]:
    async with Node() as node:
        node.log("events", partitions=partitions, retention_items=1000)
        listener = await node.listen("127.0.0.1:0")
        async with (
            FaultyNetwork(listener.url) as network,
            rstreams.connect(listener.url) as direct,
            rstreams.connect(network.url, reconnect=AT_ONCE) as connection,
        ):
            yield CutLog(node, network, connection, direct)


async def cut_behind_the_first(log: CutLog) -> ProbeSubscriber[int]:
    """Cut a reader of ten messages that has had the first one, and return it; `log.network.reopen` lets it go on."""
    await log.direct.publish("events", Stream.range(10))
    probe = ProbeSubscriber[int](1)
    log.connection.stream("events", to_end=True, window=1).subscribe(probe)
    await until(lambda: probe.items == [0])
    log.network.close()
    log.cut()
    await until(lambda: log.node.statistics().logs["events"].readers == 0)
    return probe
