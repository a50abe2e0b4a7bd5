"""The source's connection through faults, against a node in another process; no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rstreams_spark import _receiver
from rstreams_spark._intake import RowIntake
from rstreams_spark._options import SourceOptions
from rstreams_spark.errors import SourceFailed, UnparsableMessage

from adapters.spark.tests.broken_connection import proxy_to
from adapters.spark.tests.test_receiver import receiving
from rstreams import Message

if TYPE_CHECKING:
    from conftest import Eventually, NodeProcess

pytestmark = pytest.mark.slow  # each test starts a node in a process of its own

MIB = 1024 * 1024


def numbered(first: int, last: int) -> list[Message]:
    return [Message(body=b"%d" % n, id=f"m-{n}") for n in range(first, last)]


def test_a_message_of_more_than_64_mib_stays_in_the_queue(node: NodeProcess) -> None:
    node.publish("in", [b"a", bytes(65 * MIB), b"y"])
    with receiving(node.url) as receiver:
        assert receiver.collect_queued(0, 10) == [b"a"]
        with pytest.raises(UnparsableMessage, match="it has 68157448 bytes, more than option maxMessageSize=67108864"):
            receiver.collect_queued(1, 10)
    counters = node.queue("in")
    assert (counters["accepted"], counters["rejected"], counters["ready"]) == (1, 0, 2)
    with receiving(node.url, maxmessagesize="66m") as receiver:
        assert [len(body or b"") for body in receiver.collect_queued(0, 10)] == [65 * MIB]
        assert receiver.collect_queued(1, 10) == [b"y"]


def test_reject_takes_a_message_that_is_too_large_out_of_the_queue(node: NodeProcess) -> None:
    node.publish("in", [b"a", bytes(2_000), b"y"])
    with receiving(node.url, maxmessagesize="1k", onunparsable="reject") as receiver:
        assert receiver.collect_queued(0, 10) == [b"a", b"y"]
        assert receiver.collect_queued(2, 10) == []
    counters = node.queue("in")
    assert (counters["accepted"], counters["rejected"], counters["ready"]) == (2, 1, 0)


def test_with_a_log_a_reset_connection_comes_back_and_nothing_is_doubled(
    node: NodeProcess, eventually: Eventually
) -> None:
    node.publish("in", numbered(0, 5))
    with (
        proxy_to(node.port) as proxy,
        receiving(f"amqp://127.0.0.1:{proxy.port}", known=(), maxmessagespertrigger="10") as receiver,
    ):
        assert len(receiver.collect_queued(0, 3)) == 3  # a batch that is out; two messages wait
        proxy.reset()
        eventually(lambda: proxy.accepted == 2 and node.queue("in")["unsettled"] == 5, "all five have come again")
        assert receiver.collect(0, 10) == [b"3", b"4"]
        assert receiver.collect(5, 10) == []
        counters = eventually(lambda: (now := node.queue("in"))["accepted"] == 5 and now, "all are accepted")
        assert (counters["ready"], counters["unsettled"]) == (0, 0)
        node.publish("in", numbered(5, 6))
        assert receiver.collect_queued(5, 10) == [b"5"]


def test_with_a_log_a_batch_that_was_committed_during_the_loss_is_not_doubled(
    node: NodeProcess, eventually: Eventually
) -> None:
    node.publish("in", numbered(0, 5))
    with (
        proxy_to(node.port) as proxy,
        receiving(f"amqp://127.0.0.1:{proxy.port}", known=(), maxmessagespertrigger="5") as receiver,
    ):
        assert len(receiver.collect_queued(0, 5)) == 5
        proxy.reset(refuse=True)
        eventually(lambda: node.queue("in")["ready"] == 5, "the node has noticed the loss")
        assert receiver.collect(5, 5) == []
        proxy.reset()
        eventually(lambda: node.queue("in")["accepted"] == 5, "they came again, and were accepted")
        assert receiver.collect(5, 5) == []


@pytest.mark.parametrize("ids", [[None, None], ["m-0", "m-1"], ["m-0", "m-0"]])
def test_messages_come_again_after_a_reset_whatever_their_ids_are(
    node: NodeProcess, eventually: Eventually, ids: list[str | None]
) -> None:
    node.publish("in", [Message(body=b"%d" % n, id=each) for n, each in enumerate(ids, 1)])
    with (
        proxy_to(node.port) as proxy,
        receiving(f"amqp://127.0.0.1:{proxy.port}", maxmessagespertrigger="10") as receiver,
    ):
        assert len(receiver.collect_queued(0, 2)) == 2
        proxy.reset()
        eventually(lambda: proxy.accepted == 2 and node.queue("in")["unsettled"] == 2, "they have come again")
        assert receiver.collect(2, 10) == [b"1", b"2"]


def test_an_idle_connection_that_is_reset_comes_back(node: NodeProcess, eventually: Eventually) -> None:
    with proxy_to(node.port) as proxy, receiving(f"amqp://127.0.0.1:{proxy.port}") as receiver:
        assert receiver.collect(0, 10) == []
        proxy.reset()
        eventually(lambda: proxy.accepted == 2, "it is there again")
        node.publish("in", [b"1"])
        assert eventually(lambda: receiver.collect(0, 10), "the message") == [b"1"]


def test_a_loss_that_lasts_too_long_fails_with_the_reason(node: NodeProcess, eventually: Eventually) -> None:
    with proxy_to(node.port) as proxy:
        url = f"amqp://127.0.0.1:{proxy.port}"
        with receiving(url, maxreconnecttime="300ms") as receiver:
            proxy.reset(refuse=True)
            text = r"ConnectionLost: no connection for 0\.3 s \(option maxReconnectTime\): Connect"
            with pytest.raises(SourceFailed, match=text):
                while True:
                    receiver.collect(0, 10)


def test_without_reconnect_a_loss_fails_at_once(node: NodeProcess) -> None:
    with (
        proxy_to(node.port) as proxy,
        receiving(f"amqp://127.0.0.1:{proxy.port}", reconnect="false") as receiver,
    ):
        proxy.reset()
        with pytest.raises(SourceFailed, match="ConnectionLost: "):
            while True:
                receiver.collect(0, 10)


def test_with_a_log_a_link_that_the_peer_detaches_is_attached_again_and_nothing_is_doubled(
    node: NodeProcess, capfd: pytest.CaptureFixture[str], eventually: Eventually
) -> None:
    with receiving(
        node.url, address="detached", known=(), maxmessagespertrigger="10", maxtriggerdelay="1h"
    ) as receiver:
        got = eventually(lambda: receiver.collect(0, 10), "a batch")
        assert got == [b"%d" % n for n in range(10)]
        got += eventually(lambda: receiver.collect(10, 10), "the other ten have come")
        state = receiver.progress(0)
        assert state is not None
        assert state["connectionsLost"] == 0
    assert got == [b"%d" % n for n in range(20)]
    assert node.first("detached/most") == 10
    assert "the link has ended, and it is attached again for up to 600 s" in capfd.readouterr().err


@contextmanager
def broker(folder: Path, port: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a node whose queue `in-0` has 20 messages and survives its end."""
    program = Path(__file__).with_name("crash") / "broker.py"
    command = [sys.executable, str(program), str(port), str(folder), "1", "20"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_a_node_that_drains_and_comes_back_ends_nothing(tmp_path: Path) -> None:
    with broker(tmp_path, 0) as (node, port):
        url = f"amqp://127.0.0.1:{port}"
        options = {"address": "in-0", "maxmessagespertrigger": "5", "maxreconnecttime": "60s"}
        with receiving(url, known=(), **options) as receiver:
            got = receiver.collect(0, 5)
            node.terminate()
            while node.poll() is None:
                got += receiver.collect(len(got), 5)
            with broker(tmp_path, port):
                while len(got) < 20:
                    got += receiver.collect(len(got), 5)
    assert got == [b"%d" % n for n in range(20)]


def test_without_reconnect_a_detached_link_ends_the_source(node: NodeProcess) -> None:
    with (
        receiving(node.url, address="detached", maxmessagespertrigger="10", reconnect="false") as receiver,
        pytest.raises(SourceFailed, match=r"LinkDetached: .*the queue was deleted"),
    ):
        while True:
            receiver.collect(0, 10)


def test_the_bound_holds_through_losses(node: NodeProcess, eventually: Eventually) -> None:
    with (
        proxy_to(node.port) as proxy,
        receiving(f"amqp://127.0.0.1:{proxy.port}", address="bounded", maxmessagespertrigger="20") as receiver,
    ):
        committed = 0
        for resets in range(1, 5):
            committed += len(receiver.collect(committed, 20))
            proxy.reset()
            eventually(lambda resets=resets: proxy.accepted == resets + 1, "it is there again")
            assert node.first("bounded/most") == 20


class Checkpoint:
    """A checkpoint as Spark writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, log: str, batch: int, *lines: object) -> None:
        (self.folder / log).mkdir(parents=True, exist_ok=True)
        (self.folder / log / str(batch)).write_text("\n".join(["v1", *(json.dumps(line) for line in lines)]))


END = {"messages": 3, "address": "in"}


def test_a_batch_is_accepted_when_the_commit_log_has_it(
    node: NodeProcess, tmp_path: Path, eventually: Eventually
) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.write("offsets", 6, {}, {"messages": 0, "address": "in"})
    node.publish("in", numbered(0, 5))
    with receiving(node.url, checkpointlocation=str(tmp_path), maxmessagespertrigger="3") as receiver:
        assert len(receiver.collect_queued(0, 3)) == 3
        receiver.settle_when_committed(dict(END), 3)
        checkpoint.write("offsets", 7, {}, {"address": "in", "messages": 3})
        checkpoint.write("commits", 6, {})
        assert node.queue("in")["accepted"] == 0
        checkpoint.write("commits", 7, {})
        counters = eventually(lambda: (now := node.queue("in"))["accepted"] == 3 and now, "the batch is accepted")
        assert counters["accepted"] + counters["unsettled"] <= 6
        assert receiver.collect_queued(3, 3) == [b"3", b"4"]


def test_closing_accepts_a_batch_that_has_just_been_committed(node: NodeProcess, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    node.publish("in", numbered(0, 5))
    with receiving(node.url, checkpointlocation=str(tmp_path), maxmessagespertrigger="3") as receiver:
        assert len(receiver.collect_queued(0, 3)) == 3
        receiver.settle_when_committed(dict(END), 3)
        checkpoint.write("offsets", 0, {}, END)
        checkpoint.write("commits", 0, {})
    counters = node.queue("in")
    assert (counters["accepted"], counters["ready"], counters["unsettled"]) == (3, 2, 0)


def test_a_batch_that_is_not_committed_is_given_back(node: NodeProcess, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    node.publish("in", numbered(0, 3))
    with receiving(node.url, checkpointlocation=str(tmp_path)) as receiver:
        assert len(receiver.collect_queued(0, 3)) == 3
        receiver.settle_when_committed(dict(END), 3)
        checkpoint.write("offsets", 0, {}, END)
    assert (node.queue("in")["accepted"], node.queue("in")["ready"]) == (0, 3)


def test_the_checkpoint_of_another_query_settles_nothing_and_is_told_of(
    node: NodeProcess, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.write("offsets", 0, {}, {"messages": 99, "address": "other"})
    node.publish("in", numbered(0, 6))
    with receiving(node.url, checkpointlocation=str(tmp_path)) as receiver:
        assert len(receiver.collect_queued(0, 3)) == 3
        receiver.settle_when_committed(dict(END), 3)
        checkpoint.write("offsets", 1, {}, {"messages": 3, "address": "other"})
        checkpoint.write("commits", 1, {})
        assert len(receiver.collect_queued(3, 3)) == 3
        receiver.settle_when_committed({"messages": 6, "address": "in"}, 6)
        told = capfd.readouterr().err
        assert f"option checkpointLocation={str(tmp_path)!r}: a batch that Spark has committed is not in" in told
    assert (node.queue("in")["accepted"], node.queue("in")["ready"]) == (3, 3)


def test_available_now_takes_what_was_there_at_the_start(node: NodeProcess) -> None:
    node.publish("in", numbered(0, 5))
    with receiving(node.url, maxmessagespertrigger="2") as receiver:
        assert receiver.count_queued() == 5
        got: list[object] = []
        while rows := receiver.collect_queued(len(got), 2):
            node.publish("in", numbered(100, 103))  # faster than they are read
            got += rows
        assert got == [b"0", b"1", b"2", b"3", b"4"]
        counters = node.queue("in")
        assert (counters["accepted"], counters["unsettled"]) == (5, 0), "no other message was asked for"


def test_available_now_ends_where_another_consumer_took_counted_messages(node: NodeProcess) -> None:
    node.publish("in", numbered(0, 5))
    with receiving(node.url, maxmessagespertrigger="2") as receiver:
        assert receiver.count_queued() == 5
        taken = [message.body for message in node.take("in", 3)]
        assert taken == [b"0", b"1", b"2"]
        got = receiver.collect_queued(0, 2)
        assert got == [b"3", b"4"]
        assert receiver.collect_queued(2, 2) == []


@pytest.mark.parametrize("address", ["three", "counted"])
def test_a_served_stream_has_no_count(node: NodeProcess, address: str) -> None:
    with receiving(node.url, address=address) as receiver:
        assert receiver.count_queued() is None


def test_a_large_batch_comes_in_parts(node: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_receiver, "RowIntake", partial(RowIntake, most_rows=4))
    node.publish("in", numbered(0, 25))
    options = {"url": node.url, "address": "in", "maxmessagespertrigger": "10"}
    receiver = _receiver.Receiver(SourceOptions.parse(options), lambda: None)
    try:
        assert [len(part) for part in receiver.collect_queued(0, 10)] == [4, 4, 2]
        assert [len(part) for part in receiver.collect(10, 10)] == [4, 4, 2]
        assert [len(part) for part in receiver.collect_queued(20, 10)] == [4, 1]
        assert list(receiver.collect_queued(25, 10)) == []
    finally:
        receiver.close()
    assert node.queue("in")["accepted"] == 25
