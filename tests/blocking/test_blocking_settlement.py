"""Senders, handlers and the orderly end for threads, against a node in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import rstreams.blocking
from rstreams import Node, Stream
from rstreams.blocking import BlockingConnection
from rstreams.errors import ConfigError, ConnectionLost, RStreamsError
from rstreams.node.queue import Queue
from rstreams.runtime.portal import Portal, start_portal


@pytest.fixture
def node() -> Iterator[tuple[Portal, Node]]:
    with start_portal("node") as portal, portal.enter(Node()) as node:
        yield portal, node


@pytest.fixture
def jobs(node: tuple[Portal, Node]) -> Iterator[tuple[Queue, BlockingConnection]]:
    portal, there = node
    queue = there.queue("jobs")
    listener = portal.run(there.listen, "127.0.0.1:0")
    with rstreams.blocking.connect(listener.url) as connection:
        yield queue, connection


def test_each_message_has_its_receipt(jobs: tuple[Queue, BlockingConnection]) -> None:
    queue, connection = jobs
    with connection.sender("jobs", settlement="effectively_once") as sender:
        sender.send("a")
        assert queue.statistics().enqueued == 1
        receipt = sender.submit("b")
        receipt.wait()
        assert receipt.settled
        assert repr(sender) == "<blocking <rstreams sender to 'jobs'>>"
        with pytest.raises(ConfigError):
            sender.send(object())
    assert connection.stream("jobs").take(2).to_list() == ["a", "b"]
    with pytest.raises(RStreamsError, match="closed"):
        sender.send("c")


def test_a_handler_may_block_its_thread(jobs: tuple[Queue, BlockingConnection]) -> None:
    queue, connection = jobs
    connection.publish("jobs", Stream.range(6), pack_items=1)
    together = threading.Barrier(3)
    handled: list[int] = []

    def handle(item: int) -> None:
        together.wait(10)
        handled.append(item)
        if len(handled) == 6:
            raise ValueError(item)

    with pytest.raises(ValueError, match=r"\d"):
        connection.consume("jobs", handle, concurrency=3)
    assert sorted(handled) == list(range(6))
    with pytest.raises(ConfigError, match="concurrency=0"):
        connection.consume("jobs", handle, concurrency=0)
    assert queue.statistics().enqueued == 6


def test_a_loop_in_another_thread_ends_in_order(
    node: tuple[Portal, Node], jobs: tuple[Queue, BlockingConnection]
) -> None:
    (portal, there), (queue, connection) = node, jobs
    connection.publish("jobs", Stream.range(5))
    got: list[int] = []
    all_came = threading.Event()

    def loop() -> None:
        for item in connection.stream("jobs"):
            got.append(item)
            if len(got) == 5:
                all_came.set()

    thread = threading.Thread(target=loop)
    thread.start()
    assert all_came.wait(10)
    assert connection.drain_and_close(timeout_s=5).complete
    thread.join(10)
    assert got == [0, 1, 2, 3, 4]
    assert portal.run(there.drain_and_close).complete  # it has read all that the connection wrote
    assert (queue.statistics().accepted, queue.statistics().unsettled) == (5, 0)
    with pytest.raises(ConnectionLost, match="drained"):
        connection.publish("jobs", Stream.of(1))
