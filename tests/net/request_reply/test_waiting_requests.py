"""Requests that wait for credit, a place or their reply, and handlers that answer without a wait."""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import ContextVar

import pytest
import trio
import trio.testing

import rstreams
from rstreams import Node
from rstreams.errors import ConfigError, ConnectionLost, StreamTimeout
from rstreams.message import encode_item
from rstreams.net.request_reply.pending import Pending, TimeLimits
from rstreams.node.stored_bytes import StoredBytes
from rstreams.node.temporary import CAPACITY, ReplyQueue
from rstreams.runtime.scope import open_nursery
from tests.net.asking import Gate, answered, cut, returning
from tests.net.over_tcp import until

# -------------------------------------------------------------------------------------------------- waiting for credit


async def test_a_request_that_is_cancelled_while_it_waits_for_credit_is_not_sent() -> None:
    gate = Gate()
    async with answered(gate, concurrency=1) as (_, _, requester), trio.open_nursery() as nursery:
        nursery.start_soon(requester.request, "first")
        await until(lambda: gate.came)
        async with trio.open_nursery() as impatient:
            impatient.start_soon(requester.request, "cancelled")
            await trio.testing.wait_all_tasks_blocked()
            impatient.cancel_scope.cancel()
        nursery.start_soon(requester.request, "third")
        gate.open.set()
    assert gate.came == ["first", "third"]
    assert requester.in_flight == 0


async def test_a_request_that_waits_for_credit_too_long_is_not_sent(mock_clock: trio.testing.MockClock) -> None:
    gate = Gate()
    async with answered(gate, concurrency=1) as (_, _, requester), trio.open_nursery() as nursery:
        nursery.start_soon(requester.request, "first")
        await until(lambda: gate.came)
        with pytest.raises(StreamTimeout, match="'service' has had no reply within 2 s"):
            async with open_nursery() as impatient:
                impatient.start_soon(lambda: requester.request("late", timeout_s=2))
                await trio.testing.wait_all_tasks_blocked()
                mock_clock.jump(2)
        nursery.start_soon(requester.request, "third")
        gate.open.set()
    assert gate.came == ["first", "third"]


async def test_requests_that_wait_for_credit_are_sent_in_their_order() -> None:
    gate = Gate()
    async with answered(gate, concurrency=1) as (_, _, requester), trio.open_nursery() as nursery:
        nursery.start_soon(requester.request, 0)
        await until(lambda: gate.came)
        for number in range(1, 6):
            nursery.start_soon(requester.request, number)
            await trio.testing.wait_all_tasks_blocked()
        gate.open.set()
    assert gate.came == list(range(6))


async def test_a_request_that_was_not_sent_when_its_connection_was_lost_is_sent_on_the_next_one() -> None:
    gate, lost = Gate(), list[str]()
    async with (
        Node() as node,
        rstreams.connect((await node.listen("127.0.0.1:0")).url, reconnect=rstreams.Reconnect(first_delay_s=0.0)) as it,
    ):
        node.respond("service", gate, concurrency=1)
        async with it.requester("service") as requester, trio.open_nursery() as nursery:

            async def ask_first() -> None:
                with pytest.raises(ConnectionLost):
                    await requester.request("first")
                lost.append("first")

            nursery.start_soon(ask_first)
            await until(lambda: gate.came)
            nursery.start_soon(requester.request, "waiting")
            await trio.testing.wait_all_tasks_blocked()
            await cut(it)
            await until(lambda: lost)
            gate.open.set()
            await until(lambda: gate.came == ["first", "waiting"])
        assert requester.in_flight == 0


async def test_a_request_that_waits_for_its_place_is_refused_before_if_it_cannot_be_encoded() -> None:
    gate = Gate()
    async with (
        answered(gate) as (_, connection, _),
        connection.requester("service", max_in_flight=1) as requester,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(requester.request, "first")
        await until(lambda: gate.came)
        with pytest.raises(ConfigError):
            await requester.request(object())
        assert requester.in_flight == 1
        gate.open.set()


async def test_a_place_is_free_again_after_each_end_of_a_request() -> None:
    async with (
        answered(lambda item: item) as (_, connection, _),
        connection.requester("service", max_in_flight=1) as requester,
    ):
        with pytest.raises(ConfigError):
            await requester.request(object())
        with trio.CancelScope() as scope:
            scope.cancel()
            await requester.request("cancelled")
        assert [await requester.request(number) for number in range(3)] == [0, 1, 2]
        assert requester.in_flight == requester.late == 0


# --------------------------------------------------------------------------------------------------------- time limits


async def test_each_time_limit_is_kept_in_whatever_order_they_begin(mock_clock: trio.testing.MockClock) -> None:
    limits = TimeLimits()
    waiting = {seconds: Pending[None]() for seconds in (30, 5, 60, 5.5)}

    def late() -> list[float]:
        return [seconds for seconds, pending in waiting.items() if pending.too_late]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(limits.run)
        for seconds, pending in waiting.items():
            limits.begin(pending, seconds)
        for now, expected in ((4, []), (5, [5]), (6, [5, 5.5]), (59, [30, 5, 5.5])):
            mock_clock.jump(now - trio.current_time())
            await trio.testing.wait_all_tasks_blocked()
            assert late() == expected
        limits.end(waiting[60])
        mock_clock.jump(10)
        await trio.testing.wait_all_tasks_blocked()
        assert late() == [30, 5, 5.5]
        nursery.cancel_scope.cancel()


async def test_a_reply_in_time_counts_although_the_limit_is_over_when_the_task_runs() -> None:
    pending = Pending[str]()
    pending.finish("reply", None)
    pending.time_out()
    assert not pending.too_late
    assert pending.result() == "reply"


# ------------------------------------------------------------------------------------- handlers that answer at once


async def test_a_plain_handler_costs_no_task() -> None:
    tasks: list[str] = []

    def handle(item: object) -> object:
        tasks.append(trio.lowlevel.current_task().name)
        return item

    async with answered(handle) as (_, _, requester):
        assert await requester.request("x") == "x"
    assert tasks == ["rstreams.net.transport.pump.Pump._receive"]


async def test_a_plain_handler_has_a_context_of_its_own_for_each_request() -> None:
    seen = ContextVar[int]("seen")

    def handle(number: int) -> int:
        before = seen.get(-1)
        seen.set(number)
        return before

    async with answered(handle) as (_, _, requester):
        assert [await requester.request(number) for number in range(3)] == [-1, -1, -1]


async def test_a_quick_answer_waits_for_its_place_while_slow_ones_have_all() -> None:
    gate, quick = Gate(), list[str]()

    def handle(item: str) -> object:
        if item.startswith("slow"):
            return gate(item)
        quick.append(item)
        return item

    async with (
        answered(handle, concurrency=2) as (_, connection, first),
        connection.requester("service") as second,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(first.request, "slow 1")
        nursery.start_soon(first.request, "slow 2")
        await until(lambda: len(gate.came) == 2)
        nursery.start_soon(second.request, "quick")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not quick
        gate.open.set()
    assert quick == ["quick"]


@pytest.mark.filterwarnings("ignore")
async def test_a_failed_plain_handler_gives_its_place_back() -> None:
    def handle(number: int) -> int:
        if number % 2:
            raise ValueError
        return number

    async with answered(handle, concurrency=1) as (_, _, requester):
        for number in range(6):
            if number % 2:
                with pytest.raises(rstreams.errors.RequestFailed):
                    await requester.request(number)
            else:
                assert await requester.request(number) == number


async def test_plain_and_async_answers_of_one_handler_all_arrive() -> None:
    async def later(number: int) -> int:
        await trio.lowlevel.checkpoint()
        return -number

    def handle(number: int) -> int | Awaitable[int]:
        return later(number) if number % 3 else -number

    got: dict[int, int] = {}
    async with answered(handle, concurrency=4) as (_, _, requester):

        async def ask(number: int) -> None:
            got[number] = await requester.request(number)

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(ask, number)
    assert got == {number: -number for number in range(60)}


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 2, 3, 4, 5, 16])
@pytest.mark.parametrize("plain", range(9))
async def test_all_places_can_be_taken_by_answers_that_wait(concurrency: int, plain: int) -> None:
    gate = Gate()

    def handle(number: int) -> object:
        return gate(number) if number >= 0 else number

    async with answered(handle, concurrency=concurrency) as (_, _, requester), trio.open_nursery() as nursery:
        for _ in range(plain):
            assert await requester.request(-1) == -1
        for number in range(concurrency + 1):
            nursery.start_soon(requester.request, number)
        await until(lambda: len(gate.came) == concurrency)
        gate.open.set()


def test_a_reply_is_stored_at_once_only_in_a_free_place() -> None:
    queue = ReplyQueue("temporary/x", StoredBytes())
    encoded = encode_item(b"reply")
    stored = 0
    while queue.store_now(encoded):
        stored += 1
    assert stored == CAPACITY
    assert queue.statistics().ready == CAPACITY


async def test_replies_of_plain_handlers_wait_for_room_in_the_requesters_queue() -> None:
    async with returning(lambda item: item) as (node, _, requester):
        (name,) = node._links._temporaries._made
        queue, _ = node._links._temporaries._made[name]
        assert isinstance(queue, ReplyQueue)
        queue._room.stored += CAPACITY  # as if so many replies were not settled
        async with trio.open_nursery() as nursery:
            got: list[object] = []

            async def ask() -> None:
                got.append(await requester.request("x"))

            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert not got
            queue._room.free(CAPACITY)
            queue._room.serve()
        assert got == ["x"]
