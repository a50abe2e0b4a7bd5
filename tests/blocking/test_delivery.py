"""Senders, handlers and the orderly end for threads, against a node in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import rstreams.blocking
from rstreams import ByteStream, Message, Node, Stream
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


def test_a_delivery_is_settled_in_any_thread(node: tuple[Portal, Node], jobs: tuple[Queue, BlockingConnection]) -> None:
    (portal, there), (queue, connection) = node, jobs
    connection.publish("jobs", Stream.range(6))
    with connection.stream("jobs", settlement="manual").open() as deliveries:
        a, b, c, d, e = (next(deliveries) for _ in range(5))
        a.accept()
        thread = threading.Thread(target=b.reject)
        thread.start()
        thread.join(10)
        c.modify()
        d.release()
        d.accept()  # only the first word counts
        assert (a.settled, b.settled, e.settled) == (True, True, False)
        with pytest.raises(ConfigError, match="condition"):
            e.reject("ü")
    e.accept()  # after the loop, which has not come to the sixth
    assert sorted(connection.stream("jobs").take(3).to_list()) == [2, 3, 5]
    assert connection.drain_and_close(timeout_s=5).complete
    assert portal.run(there.drain_and_close).complete  # it has read all that the connection wrote
    now = queue.statistics()
    assert (now.accepted, now.rejected, now.modified, now.unsettled) == (5, 1, 1, 0)


def test_operators_may_settle_deliveries_too(node: tuple[Portal, Node], jobs: tuple[Queue, BlockingConnection]) -> None:
    (portal, there), (queue, connection) = node, jobs
    connection.publish("jobs", Stream.range(3))
    connection.messages("jobs", settlement="manual").take(3).do_on_next(lambda delivery: delivery.accept()).to_list()
    assert connection.drain_and_close(timeout_s=5).complete
    assert portal.run(there.drain_and_close).complete
    assert (queue.statistics().accepted, queue.statistics().unsettled) == (3, 0)
    with pytest.raises(RStreamsError, match=r"the connection to .* is drained and closed"):
        connection.stream("jobs").to_list()


def test_bodies_are_read_while_they_come(jobs: tuple[Queue, BlockingConnection]) -> None:
    _, connection = jobs
    chunks = [bytes([n]) * 50_000 for n in range(3)]
    connection.publish("jobs", Stream.of(Message(ByteStream(chunks), id="large"), Message("small", id="s")))
    read: dict[object, object] = {}
    for message in connection.streamed_messages("jobs").take(2):
        body = message.body
        read[message.id] = b"".join(body) if isinstance(body, ByteStream) else body
    assert read == {"large": b"".join(chunks), "s": "small"}


def test_operators_may_read_bodies_too(jobs: tuple[Queue, BlockingConnection]) -> None:
    _, connection = jobs
    connection.publish("jobs", Stream.of(Message(ByteStream([b"a", b"b"]))))
    assert connection.streamed_messages("jobs").take(1).map_async(lambda message: message.body.read()).to_list() == [
        b"ab"
    ]


def test_a_closed_connection_says_so(jobs: tuple[Queue, BlockingConnection], node: tuple[Portal, Node]) -> None:
    with rstreams.blocking.connect(node[0].run(node[1].listen, "127.0.0.1:0").url) as connection:
        numbers = connection.stream("jobs")
    for call in (numbers.to_list, numbers.first_or_none, lambda: connection.publish("jobs", Stream.of(1))):
        with pytest.raises(RStreamsError, match="this connection is closed: its `with` block"):
            call()
