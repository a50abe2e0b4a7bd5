"""What go-amqp said to a node, said again: `go_amqp/README.md` says how it was recorded. No Go is needed here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

import rstreams
from rstreams import Node, Stream
from rstreams.message import decode_body
from rstreams.node.queue import Queue
from tests.net.wire import AMQP_HEADER, Frame, Peer, condition_of, outcome_of

SESSIONS = Path(__file__).parent / "go_amqp"
MIXED, FIRST, SECOND = 2, 0, 1


class Client(Peer):
    """Says a recorded session, bit by bit."""

    def __init__(self, stream: trio.abc.Stream, session: str) -> None:
        super().__init__(stream)
        lines = (SESSIONS / f"{session}.txt").read_text().splitlines()
        self._left = [(name, bytes.fromhex(data)) for name, data in map(str.split, lines)]
        self._attach = next(data for name, data in self._left if name == "attach")

    async def says(self, *names: str) -> None:
        """Say what comes next, which has these names."""
        told, self._left = self._left[: len(names)], self._left[len(names) :]
        assert tuple(name for name, _ in told) == names
        await self.send(*[data for _, data in told])

    async def again(self) -> None:
        """Say the attach once more."""
        await self.send(self._attach)

    async def due(self, name: str) -> Frame:
        """Return the node's next frame of a name."""
        with trio.fail_after(10):
            while (came := await self.frame()).name != name:
                assert came.name != "close", f"{name} was due, and not {came}"
            return came

    async def begins(self) -> Frame:
        """Open the connection and attach the link; return the node's attach."""
        await self.says("header", "open", "begin", "attach")
        assert await self.take(8) == AMQP_HEADER
        await self.due("open")
        await self.due("begin")
        return await self.due("attach")

    async def ends(self) -> None:
        """Say the rest, and hear that the connection was closed without an error."""
        await self.says(*[name for name, _ in self._left])
        with trio.fail_after(10):
            while (came := await self.frame()).name != "close":
                pass
        assert came["error"] is None


@asynccontextmanager
async def playing(session: str, *, items: int = 20) -> AsyncIterator[tuple[Client, Queue]]:
    """Connect to a node with a queue that holds numbers, as go-amqp did."""
    async with Node() as node:
        queue = node.queue("work")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.range(items))
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            yield Client(stream, session), queue


def modes(answer: Frame) -> tuple[int, int]:
    """Return the settle modes of an attach as go-amqp reads them: absent is mixed, and first."""
    sender, receiver = answer["snd-settle-mode"], answer["rcv-settle-mode"]
    return MIXED if sender is None else sender, FIRST if receiver is None else receiver


async def test_a_drain_without_credit_is_answered_and_one_that_takes_credit_back() -> None:
    async with playing("drains") as (client, queue):
        await client.begins()
        await client.says("flow")
        assert [decode_body((await client.due("transfer")).payload) for _ in range(3)] == [0, 1, 2]
        await client.says("disposition", "disposition", "disposition", "flow")
        answer = await client.due("flow")
        assert (answer["handle"], answer["delivery-count"], answer["link-credit"]) == (0, 3, 0)
        await client.says("flow")
        assert [decode_body((await client.due("transfer")).payload) for _ in range(5)] == [3, 4, 5, 6, 7]
        await client.says("disposition", "flow")  # it drains before it has seen them all
        answer = await client.due("flow")
        assert (answer["handle"], answer["delivery-count"], answer["link-credit"]) == (0, 8, 0)
        await client.says("flow")
        assert decode_body((await client.due("transfer")).payload) == 8
        await client.ends()
        assert queue.statistics().accepted == 5


async def test_a_drain_of_an_empty_queue_is_answered() -> None:
    async with playing("drains", items=3) as (client, _):
        await client.begins()
        await client.says("flow")
        for _ in range(3):
            await client.due("transfer")
        await client.says("disposition", "disposition", "disposition", "flow")
        await client.due("flow")
        await client.says("flow", "disposition", "flow")
        answer = await client.due("flow")
        assert (answer["handle"], answer["link-credit"]) == (0, 0)


async def test_an_echo_is_answered_for_the_link_and_for_the_session() -> None:
    async with playing("echo", items=2) as (client, _):
        await client.begins()
        await client.says("flow")
        answer = await client.due("flow")
        assert (answer["handle"], answer["echo"]) in {(0, None), (0, False)}
        assert answer["delivery-count"] + answer["link-credit"] == 5
        await client.says("flow")
        answer = await client.due("flow")
        assert answer["handle"] is None
        await client.ends()


async def test_a_receiver_that_asks_for_mixed_gets_mixed() -> None:
    async with playing("receives-mixed") as (client, queue):
        assert modes(await client.begins()) == (MIXED, FIRST)
        await client.says("flow")
        assert [decode_body((await client.due("transfer")).payload) for _ in range(3)] == [0, 1, 2]
        await client.ends()
        assert queue.statistics().accepted == 3


async def test_a_sender_that_asks_for_mixed_gets_mixed_and_sends_both() -> None:
    async with playing("sends-mixed", items=0) as (client, queue):
        assert modes(await client.begins()) == (MIXED, FIRST)
        await client.due("flow")
        for number, settled in enumerate((False, True, False, True)):
            await client.says("transfer")
            if not settled:
                answer = await client.due("disposition")
                assert (answer["first"], answer["settled"], outcome_of(answer["state"])) == (number, True, "accepted")
        await client.ends()
        assert queue.statistics().ready == 4


async def test_a_receiver_that_settles_second_is_told_of_each_settlement() -> None:
    async with playing("receives-second") as (client, queue):
        assert modes(await client.begins())[1] == SECOND
        for number in range(3):
            await client.says("flow")
            await client.due("transfer")
            await client.says("disposition")
            answer = await client.due("disposition")
            assert (answer["role"], answer["first"], answer["settled"]) == (False, number, True)
            assert outcome_of(answer["state"]) == "accepted"
        await client.ends()
        assert queue.statistics().accepted == 3


async def test_a_flow_behind_the_detach_of_its_link_ends_nothing() -> None:
    async with playing("receives-settled") as (client, _):
        await client.begins()
        await client.says("flow")
        for _ in range(7):
            assert (await client.due("transfer"))["settled"] is True
        await client.says("detach", "flow")
        assert (await client.due("detach"))["closed"] is True
        await client.again()
        assert (await client.due("attach"))["source"] is not None, "the session goes on, and its handles are free"
        await client.ends()


async def test_a_batch_is_refused_rather_than_stored_as_one_message() -> None:
    async with playing("batch", items=0) as (client, queue):
        await client.begins()
        await client.due("flow")
        await client.says("transfer")
        answer = await client.due("disposition")
        assert outcome_of(answer["state"]) == "rejected"
        condition, description = condition_of(answer["state"].value[0])
        assert condition == "amqp:not-implemented"
        assert "0x80013700" in description
        await client.ends()
        assert queue.statistics().ready == 0
