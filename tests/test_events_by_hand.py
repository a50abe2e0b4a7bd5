"""Events that no other test causes: what their causes leave behind, beside the line of the log."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Message, Node, Stream
from rstreams._stages import run_tasks
from rstreams.aio._turns import Turns
from rstreams.errors import RStreamsError, StoreError
from rstreams.message import encode_item
from rstreams.net.links.explain_link import Trees
from rstreams.net.management import ManagementRefused
from rstreams.node import node_links
from rstreams.node.log_keys import Compaction, Keys
from rstreams.protocol.frames import Attach, Role
from rstreams.store import writer
from rstreams.testing import ProbeSubscriber
from tests.store.stores import opened


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.event for each in caplog.records if hasattr(each, "event")]


def test_a_task_without_subscribers_and_without_a_scope(caplog: pytest.LogCaptureFixture) -> None:
    run_tasks._end_scope(None, ValueError("nobody hears it"))
    assert told(caplog) == ["stream.task_failed"]
    assert "nobody hears it" in caplog.text


def test_an_address_that_raises_in_a_signal(caplog: pytest.LogCaptureFixture) -> None:
    node_links._log_raised(ValueError("a defect"))
    assert told(caplog) == ["producer.failed"]


def test_a_trio_whose_guest_is_another_has_a_thread(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "rstreams.aio")
    called: list[object] = []
    loop = asyncio.new_event_loop()
    Turns(loop, called.append).schedule(lambda: called.append("trio's own step"))
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert called == ["trio's own step"]
    assert told(caplog) == ["asyncio.other_thread"]


def test_a_commit_that_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer, "SLOW_S", 0.0)
    with opened(tmp_path / "s") as used:
        used.append([b"a"])
        used.append([b"b"])
    assert told(caplog) == ["store.slow_sync"], "once a second"
    assert "until it was on the disk" in caplog.text


def test_a_writer_that_cannot_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: writer.Writer) -> None:
        raise ZeroDivisionError

    with opened(tmp_path / "s") as used:
        used.append([b"a"])
        monkeypatch.setattr(writer.Writer, "close", fail)
    assert told(caplog) == ["store.not_closed"]


class Unclosable:
    """A connection to SQLite that cannot be closed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the connection has
        return getattr(self._connection, name)

    def close(self) -> None:
        """Close it, and say that it could not be closed."""
        self._connection.close()
        raise sqlite3.OperationalError


def test_tables_that_cannot_be_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with opened(tmp_path / "s") as used:
        tables = used.store._tables
        tables.connection = Unclosable(tables.connection)  # type: ignore[assignment] # it is used like one
    assert told(caplog) == ["store.tables_open"]


async def test_a_defect_that_a_question_finds(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: object) -> Any:  # noqa: ANN401 - no tree
        raise ZeroDivisionError

    asker = ProbeSubscriber[dict[str, Any]](1)
    async with trio.open_nursery() as nursery:
        Trees(Attach("a", Role.RECEIVER, None, ""), fail, nursery.start_soon).subscribe(asker)
    assert isinstance(asker.error, ZeroDivisionError)
    assert told(caplog) == ["explain.failed"]


def test_keys_that_raise_or_cannot_be_used(caplog: pytest.LogCaptureFixture) -> None:
    message = encode_item(Message(b"", annotations={"k": [1]}))
    assert Keys(lambda message: message.body[5], 1).of(message) is None
    assert Keys("k", 1).of(message) is None
    assert told(caplog) == ["log.key_raised", "log.key_wrong"]
    assert "a key of type list" in caplog.text


def test_a_log_that_cannot_be_read_is_not_compacted(caplog: pytest.LogCaptureFixture) -> None:
    class Kept:
        first = 0

        def read(self, _: int, on_read: Callable[[StoreError], None], **_options: object) -> None:
            on_read(StoreError("the disk is gone"))

    partition: Any = SimpleNamespace(name="events", kept=Kept())
    Compaction(partition, Keys("k", 1), 1.0, lambda: 0.0).begin()
    assert told(caplog) == ["log.not_compacted"]


async def test_a_defect_that_an_http_client_finds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("rstreams.web.listener.converse", fail)
    async with Node() as node:
        listener = await node.listen_http("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            assert await stream.receive_some() == b""
    assert told(caplog) == ["http.failed"]


async def test_a_defect_that_a_request_to_the_management_finds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, connection.management() as management:
            monkeypatch.setattr("rstreams.node.management.operations.body_of", fail)
            with pytest.raises(ManagementRefused):
                await management.purge("q")
    assert told(caplog) == ["management.failed"]


async def test_dead_letters_without_room_are_told_and_their_end_too(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    del autojump_clock
    async with Node() as node:
        node.queue("dead", capacity=1, when_full="reject")
        node.queue("q", dead_letters="dead")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("q", Stream.of(1, 2))
            with trio.move_on_after(5):
                await connection.consume("q", lambda item: item.nothing, on_failure="reject")
            assert "dead_letters.refused" in told(caplog)
            assert "dead_letters.taken_again" not in told(caplog)
            with trio.move_on_after(5):
                await connection.consume("dead", lambda _: None)
            assert told(caplog).count("dead_letters.taken_again") == 1


async def test_a_stream_of_replies_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    async with Node() as node:
        node.respond("service", lambda _: Stream.fail(ValueError("no replies")))
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, connection.requester("service") as requester:
            with pytest.raises(RStreamsError):
                await requester.stream(b"please").to_list()
    assert "request.stream_failed" in told(caplog)
