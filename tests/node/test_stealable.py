"""An attach that begins something in the store is answered when the store has it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio

import rstreams
from rstreams import Connection, Node, Stream
from rstreams.errors import LinkDetached, ProtocolError
from rstreams.node.log import MAX_GROUPS, LogAddress
from rstreams.node.multicast import MulticastAddress
from rstreams.testing import ProbeSubscriber
from tests.crash.shop import shop
from tests.net.foreign import Foreign, attach_of, foreign
from tests.net.over_tcp import until
from tests.net.wire import condition_of, detach_frame
from tests.node.held_commits import HELD_S, held_up, killed_behind_the_answer, store_of
from tests.node.test_named_subscriptions import NEVER

Begin: TypeAlias = Callable[[Connection], Awaitable[object]]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Node, Connection]]:
    """A node with a log of three messages, and a connection."""
    async with shop(folder) as node:
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url, container_id="shop") as connection:
            await connection.publish("events", Stream.range(3))
            yield node, connection


def names(node: Node) -> list[str]:
    return [named.name for named in node.statistics().multicasts["prices"].named]


def group_of(node: Node) -> tuple[int, ...] | None:
    group = node.statistics().logs["events"].groups.get("billing")
    return None if group is None else group.committed


async def attached(stream: Stream[Any]) -> None:
    """Subscribe, and leave when the peer has answered the attach."""
    probe = ProbeSubscriber[Any](0)
    stream.subscribe(probe)
    await until(lambda: probe.signals)
    if probe.error is not None:
        raise probe.error
    assert probe.subscription is not None
    probe.subscription.cancel()


async def subscribe(connection: Connection) -> None:
    await attached(connection.stream("prices", subscription="billing"))


async def join(connection: Connection, start: Any) -> None:  # noqa: ANN401 - of `stream`
    await attached(connection.stream("events", group="billing", start=start))


BEGINS: dict[str, tuple[Begin, Callable[[Node], object], object]] = {
    "a named subscription": (subscribe, names, ["billing"]),
    "a group": (lambda to: join(to, "first"), group_of, (0,)),
    "a group that begins with the next message": (lambda to: join(to, "next"), group_of, (3,)),
    "a group that begins at a time": (lambda to: join(to, datetime(2001, 1, 1, tzinfo=UTC)), group_of, (0,)),
}


@pytest.mark.parametrize("begun", BEGINS)
async def test_what_was_begun_outlives_a_kill(tmp_path: Path, begun: str) -> None:
    begin, look, expected = BEGINS[begun]
    async with opened(tmp_path / "store") as (node, connection):
        again = await killed_behind_the_answer(tmp_path / "store", node, lambda: begin(connection))
        await begin(connection)  # it is there, and is answered at once
    async with again:
        assert look(again) == expected


@pytest.mark.parametrize("begun", BEGINS)
async def test_an_attach_is_refused_if_the_store_does_not_write_it_and_can_be_repeated(
    tmp_path: Path, begun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rstreams.node.stealable.ANSWER_WITHIN_S", HELD_S)
    begin, look, expected = BEGINS[begun]
    async with opened(tmp_path) as (node, connection):
        with held_up(store_of(node)), pytest.raises(LinkDetached, match="the store has not written it") as told:
            await begin(connection)
        assert told.value.condition == "amqp:internal-error"
        store_of(node).flush()
        await begin(connection)
        assert look(node) == expected


async def read_fresh(connection: Connection) -> None:
    await attached(connection.stream("fresh"))


async def join_fresh(connection: Connection) -> None:
    await attached(connection.stream("fresh", group="billing"))


def id_of(node: Node) -> str:
    return node.statistics().logs["fresh"].partitions[0].incarnation


@pytest.mark.parametrize("begin", [read_fresh, join_fresh])
async def test_the_id_of_a_new_log_outlives_a_kill_behind_the_answer(tmp_path: Path, begin: Begin) -> None:
    async with opened(tmp_path / "store") as (node, connection):

        async def declare_and_begin() -> None:
            node.log("fresh", retention_s=3600.0)
            await begin(connection)

        again = await killed_behind_the_answer(tmp_path / "store", node, declare_and_begin)
        told = id_of(node)
    again.log("fresh", retention_s=3600.0)
    async with again:
        assert id_of(again) == told


async def test_an_id_that_could_not_be_written_is_written_for_the_next_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "store") as (node, connection):

        def fail(*_: Any, **_options: Any) -> Any:  # noqa: ANN401
            raise sqlite3.OperationalError

        store_of(node).flush()
        with monkeypatch.context() as patched:
            patched.setattr(store_of(node)._tables, "commit", fail)
            node.log("fresh", retention_s=3600.0)
            with pytest.raises(LinkDetached) as told:
                await read_fresh(connection)
            assert told.value.condition == "amqp:internal-error"
        await read_fresh(connection)
        told_id = id_of(node)
        shutil.copytree(tmp_path / "store", tmp_path / "killed")
    again = shop(tmp_path / "killed")
    again.log("fresh", retention_s=3600.0)
    async with again:
        assert id_of(again) == told_id


# what may come before the answer

Meanwhile: TypeAlias = Callable[[Node, Foreign], Awaitable[None]]


def prices(node: Node) -> MulticastAddress:
    address = node._addresses["prices"]
    assert isinstance(address, MulticastAddress)
    return address


async def detach(client: Foreign, *, closed: bool) -> None:
    await client.send(detach_frame(closed=closed))


async def take_over(node: Node, _: Foreign) -> None:
    node._scope.nursery.start_soon(attach_elsewhere, node)


async def attach_elsewhere(node: Node) -> None:
    async with foreign(node._listeners[0]) as client:
        await client.attach("billing", "receiver", address="prices", kept=NEVER)


async def remove(node: Node, _: Foreign) -> None:
    node.remove("prices")


async def unsubscribe(node: Node, _: Foreign) -> None:
    prices(node).unsubscribe("scripted", "billing")


async def forbid(node: Node, _: Foreign) -> None:
    await node.renew_access(permissions=[])


MEANWHILE: dict[str, tuple[Meanwhile, str | None, list[str]]] = {
    "the peer detaches": (lambda _, client: detach(client, closed=False), None, ["billing"]),
    "the peer ends it": (lambda _, client: detach(client, closed=True), None, []),
    "the same link elsewhere": (take_over, "amqp:link:stolen", ["billing"]),
    "the address is removed": (remove, "amqp:resource-deleted", []),
    "it is ended here": (unsubscribe, "amqp:resource-deleted", []),
    "it is forbidden": (forbid, "amqp:unauthorized-access", ["billing"]),
}


@pytest.mark.parametrize("meanwhile", MEANWHILE)
async def test_an_end_before_the_answer_is_answered_by_both_frames(tmp_path: Path, meanwhile: str) -> None:
    act, condition, left = MEANWHILE[meanwhile]
    async with opened(tmp_path) as (node, _):
        async with foreign(node._listeners[0]) as client:
            with held_up(store_of(node)) as go_on:
                await client.send(attach_of("billing", "receiver", address="prices", kept=NEVER))
                await until(lambda: names(node) == ["billing"])
                await act(node, client)
                with trio.move_on_after(HELD_S) as waited:
                    await client.due("attach")
                waits = waited.cancelled_caught
                go_on.set()
            if waits:
                await client.due("attach")
            detached = await client.due("detach")
            assert (detached["error"] and condition_of(detached["error"])[0]) == condition
            if condition is not None:
                await client.send(detach_frame())
        if "prices" in node._addresses:
            await until(lambda: names(node) == left)
            await until(lambda: not any(each.attached for each in prices(node).statistics().named))


async def test_a_connection_that_is_lost_before_the_answer_leaves_the_subscription_away(tmp_path: Path) -> None:
    async with opened(tmp_path) as (node, _):
        with held_up(store_of(node)):
            async with await trio.open_tcp_stream("127.0.0.1", node._listeners[0].port) as stream:
                client = Foreign(stream)
                await client.begins_here()
                await client.send(attach_of("billing", "receiver", address="prices", kept=NEVER))
                await until(lambda: names(node) == ["billing"])
            await until(lambda: not prices(node).statistics().named[0].attached)
        assert names(node) == ["billing"]


async def test_what_comes_before_the_answer_is_for_the_subscription(tmp_path: Path) -> None:
    async with opened(tmp_path) as (node, connection), trio.open_nursery() as nursery:
        probe = ProbeSubscriber[Any](10)
        with held_up(store_of(node)):
            connection.stream("prices", subscription="billing").subscribe(probe)
            await until(lambda: names(node) == ["billing"])
            nursery.start_soon(connection.publish, "prices", Stream.range(3))
            await until(lambda: node.statistics().multicasts["prices"].enqueued == 3)
            assert probe.signals == []
        await until(lambda: probe.items == [0, 1, 2])


async def test_a_group_whose_attach_is_not_answered_is_not_forgotten_for_another(tmp_path: Path) -> None:
    async with opened(tmp_path) as (node, _):
        log = node._addresses["events"]
        assert isinstance(log, LogAddress)
        with held_up(store_of(node)):
            for number in range(MAX_GROUPS):
                log._admitted(f"group {number}", "next")
            with pytest.raises(ProtocolError, match="consumer groups"):
                log._admitted("one more", "next")
        await log.written()
        log._admitted("one more", "next")
