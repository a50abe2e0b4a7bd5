"""A node with logs in a process of its own, for the tests: `python log_node.py`.

Its first line of output is its port. It has:

    events        a log with four partitions, by subject
    one           a log with one partition
    short         a log with one partition that keeps few messages
    prices        a compacted log
    in, out       queues
    copies        a log to send to
    observations  a log with two partitions, of examples.spark.replay

Each line of its input is the name of a log and a number: the log is made, or made anew, with as many partitions, or
deleted with 0. It answers with a line. It ends when its input closes, or by a signal.
"""

from __future__ import annotations

import sys

import trio

from rstreams import Node


async def main() -> None:
    async with Node(max_message_bytes=None) as node:
        node.log("events", partitions=4, key=lambda message: message.subject, retention_items=1_000_000)
        node.log("one", retention_items=1_000_000)
        node.log("short", retention_items=100)
        node.log("prices", key=lambda message: message.subject, compact=True)
        node.log("observations", partitions=2, retention_items=1_000_000)
        node.log("copies", retention_items=1_000_000)
        for name in ("in", "out"):
            node.queue(name, capacity=100_000)
        listener = await node.listen("127.0.0.1:0")
        _say(listener.port)
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            name, partitions = line.split()
            if name in node.statistics().logs:
                node.remove(name)
            if int(partitions):
                node.log(name, partitions=int(partitions), retention_items=1_000_000)
            _say("done")


def _say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    trio.run(main)
