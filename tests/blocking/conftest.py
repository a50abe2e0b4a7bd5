"""A node in a thread of its own, and a blocking connection to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import rstreams
import rstreams.blocking
from rstreams import Stream
from rstreams.blocking import BlockingConnection
from rstreams.node.statistics import QueueStatistics
from rstreams.runtime.portal import start_portal


class Fixture:
    """A node and a connection to it."""

    def __init__(self, url: str, connection: BlockingConnection, jobs: Callable[[], QueueStatistics]) -> None:
        self.url = url
        self.connection = connection
        self.jobs = jobs

    def publish(self, *items: object) -> int:
        return self.connection.publish("jobs", Stream.of(*items)).accepted

    def jobs_once(self, right: Callable[[QueueStatistics], bool]) -> QueueStatistics:
        """Return the queue's numbers once they are right: what a closed loop settled is on its way for a moment."""
        now, given_up = self.jobs(), time.monotonic() + 10
        while not right(now):
            assert time.monotonic() < given_up, now
            now = self.jobs()
        return now


@pytest.fixture
def here() -> Iterator[Fixture]:
    with start_portal("node") as portal, portal.enter(rstreams.Node()) as node:
        node.serve("numbers", Stream.range(10_000))
        node.serve("few", Stream.range(3))
        node.serve("broken", Stream.range(3).concat(Stream.fail(ValueError("no more"))))
        node.queue("jobs")
        listener = portal.run(node.listen, "127.0.0.1:0")

        async def jobs() -> QueueStatistics:
            return node.statistics().queues["jobs"]

        with rstreams.blocking.connect(listener.url) as connection:
            yield Fixture(listener.url, connection, lambda: portal.run(jobs))
