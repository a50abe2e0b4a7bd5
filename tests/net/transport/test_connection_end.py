"""What was said before a connection ended counts."""

from __future__ import annotations

import trio
import trio.testing

import rstreams
from rstreams import Stream
from rstreams.testing import ProbeSubscriber


async def test_outcomes_told_just_before_the_connection_closed_are_known() -> None:
    async with rstreams.Node() as node:
        queue = node.queue("jobs")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("jobs", Stream.range(300))
            all_here = trio.Event()
            probe = ProbeSubscriber[int](
                request=300, hold=True, on_item=lambda item: all_here.set() if item == 299 else None
            )
            connection.stream("jobs", window=300).subscribe(probe)
            await all_here.wait()
            for number, hold in enumerate(probe.holds):
                if number % 3:
                    hold.done()
                else:
                    hold.release()
            # The connection closes with the dispositions still on their way, and without a detach.
        while listener.connections:
            await trio.testing.wait_all_tasks_blocked(0.001)
        now = queue.statistics()
        assert (now.accepted, now.released, now.modified, now.ready) == (200, 100, 0, 100)
