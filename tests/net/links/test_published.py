"""`publish` tells what became of every item, whichever way it ends: the numbers add up to what its source gave."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import trio

from rstreams import PublishResult, Reconnect, Stream
from rstreams.errors import ConfigError, ConnectionLost, DeliveryFailed, LinkDetached, RStreamsError
from rstreams.net.connection import Connection
from rstreams.testing import FaultyNetwork
from tests.loops import Loop, over_both_loops
from tests.net.peers import ReceivingPeer
from tests.net.wire import ACCEPT, Peer, described, detach_frame, disposition_frame, error, scripted

REJECT = described(0x25, error("x:bad", "unreadable"))
ITEMS = 10


class Numbers:
    """The numbers from 0, of which it knows how many it has given."""

    def __init__(self, count: int = 10**9) -> None:
        self.count = count
        self.given = 0

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            self.given += 1
            yield number


def adds_up(result: PublishResult, given: int) -> bool:
    return result.accepted + len(result.refused) + result.unknown + result.not_sent == given


ORDERS = {
    "in order": list(range(ITEMS)),
    "the last first": list(range(ITEMS))[::-1],
    "the refused one first": [3, 0, 1, 2, *range(4, ITEMS)],
    "the refused one last": [0, 1, 2, *range(4, ITEMS), 3],
    "odd ones first": [*range(1, ITEMS, 2), *range(0, ITEMS, 2)],
}


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("refused", [(3,), (3, 7), (0, 9)])
async def test_the_order_of_the_answers_changes_nothing(order: str, refused: tuple[int, ...]) -> None:
    async def peer(peer: Peer) -> None:
        receiving = ReceivingPeer(peer)
        await peer.opens()
        await receiving.attaches(credit=ITEMS)
        await receiving.takes(ITEMS)
        for number in ORDERS[order]:
            await peer.send(disposition_frame(number, number, REJECT if number in refused else ACCEPT))
            await trio.testing.wait_all_tasks_blocked()
        await peer.expect("detach")
        await peer.send(detach_frame())
        await peer.closes()

    results: list[PublishResult] = []
    source = Numbers()
    async with scripted(peer) as connection:
        with pytest.raises(DeliveryFailed) as raised:
            await connection.publish("a", Stream.from_iterable(source), on_end=results.append)
    [result] = results
    assert raised.value.published == result
    assert adds_up(result, source.given)
    assert (result.accepted, result.unknown, result.not_sent) == (ITEMS - len(refused), 0, 0)
    assert raised.value.accepted == result.accepted
    assert {number: (why.outcome, why.condition, why.description) for number, why in result.refused.items()} == (
        dict.fromkeys(refused, ("rejected", "x:bad", "unreadable"))
    )
    assert not result.complete


async def answers_some(peer: Peer, end: Callable[[Peer], Any]) -> None:
    """Take ten items, accept the first four, and do not answer the others."""
    receiving = ReceivingPeer(peer)
    await peer.opens()
    await receiving.attaches(credit=ITEMS)
    await receiving.takes(ITEMS)
    await peer.send(disposition_frame(0, 3, ACCEPT))
    await end(peer)


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("kind", [LinkDetached, ConnectionLost])
async def test_what_a_lost_link_leaves_open_is_unknown(kind: type[RStreamsError]) -> None:
    async def end(peer: Peer) -> None:
        if kind is ConnectionLost:
            await peer.hang_up()
            return
        await peer.send(detach_frame(why=error("amqp:resource-deleted", "gone")))
        await peer.expect("detach")
        await peer.closes()

    source = Numbers()
    results: list[PublishResult] = []

    async def publish(connection: Connection) -> None:
        with pytest.raises(kind) as raised:
            await connection.publish("a", Stream.from_iterable(source), on_end=results.append)
        assert results == [raised.value.published]
        assert raised.value.outcome_unknown == 6

    with pytest.raises(ConnectionLost) if kind is ConnectionLost else trio.CancelScope():
        async with scripted(lambda peer: answers_some(peer, end)) as connection:
            await publish(connection)
            if kind is ConnectionLost:
                raise ConnectionLost
    assert adds_up(results[0], source.given)
    assert (results[0].accepted, results[0].unknown) == (4, 6)


class Case:
    """A way in which publishing ends, and what its result must be."""

    def __init__(self, on: Loop, node: Any, connection: Any) -> None:  # noqa: ANN401 - of either loop
        self.on, self.node, self.connection = on, node, connection
        self.source = Numbers()
        self.results: list[PublishResult] = []
        self.handled = 0

    async def handle(self, item: int) -> None:
        """Accept two items, and keep the next ones for ever."""
        self.handled += 1
        if item >= 2:
            await self.on.sleep_forever()

    async def publish(self, items: Any, **options: Any) -> Any:  # noqa: ANN401 - of either loop
        return await self.connection.publish("work", items, on_end=self.results.append, **options)

    def numbers(self) -> Any:  # noqa: ANN401 - of either loop
        return self.on.Stream.from_iterable(self.source)


SETTLEMENTS = ("at_least_once", "at_most_once", "effectively_once")


@pytest.mark.parametrize("settlement", SETTLEMENTS)
@over_both_loops
async def test_a_stream_that_ends_well_is_accepted(on: Loop, settlement: str) -> None:
    async with on.connected() as (node, connection):
        node.queue("work")
        case = Case(on, node, connection)
        case.source.count = 300
        assert await case.publish(case.numbers(), settlement=settlement) == PublishResult(300)
        assert case.results == [PublishResult(300)]


@pytest.mark.parametrize("settlement", SETTLEMENTS)
@pytest.mark.parametrize("pack_items", [1, 64])
@over_both_loops
async def test_a_cancelled_call_has_told_its_result(on: Loop, settlement: str, pack_items: int) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("work", capacity=10)
        case = Case(on, node, connection)
        task = on.start(lambda: case.publish(case.numbers(), settlement=settlement, pack_items=pack_items))
        await on.until(lambda: queue.statistics().ready == 10)
        await on.settled()
        assert not case.results
        task.cancel()
        assert isinstance(await task.ended(), on.Cancelled)
        [result] = case.results
        assert adds_up(result, case.source.given)
        assert (result.accepted, result.complete) == (10, False)


@over_both_loops
async def test_items_that_are_not_answered_when_the_call_is_cancelled_are_unknown(on: Loop) -> None:
    async with on.connected() as (node, connection):
        case = Case(on, node, connection)
        node.respond("work", case.handle, concurrency=4)
        task = on.start(lambda: case.publish(case.numbers()))
        await on.until(lambda: case.handled == 6)
        await on.settled()
        task.cancel()
        await task.ended()
        [result] = case.results
        assert adds_up(result, case.source.given)
        assert result.accepted == 2
        assert result.unknown >= 4


@over_both_loops
async def test_items_of_a_lost_connection_are_unknown_and_each_link_has_its_own_result(on: Loop) -> None:
    async with on.Node() as node, FaultyNetwork((await node.listen("127.0.0.1:0")).url) as network:
        cases: list[Case] = []
        with pytest.raises(ConnectionLost):
            async with on.connect(network.url) as connection:
                for address, concurrency in (("a", 3), ("b", 5)):
                    case = Case(on, node, connection)
                    node.respond(address, case.handle, concurrency=concurrency)
                    cases.append(case)

                async def publish(address: str, case: Case) -> None:
                    with pytest.raises(ConnectionLost) as raised:
                        await connection.publish(address, case.numbers(), on_end=case.results.append)
                    assert raised.value.published == case.results[0]
                    assert raised.value.outcome_unknown == case.results[0].unknown

                async def break_it() -> None:
                    await on.until(lambda: [case.handled for case in cases] == [5, 7])
                    await on.settled()
                    network.reset()

                await on.together(lambda: publish("a", cases[0]), lambda: publish("b", cases[1]), break_it)
                raise ConnectionLost
        for case in cases:
            assert adds_up(case.results[0], case.source.given)
            assert case.results[0].accepted == 2
            assert case.results[0].unknown


@over_both_loops
async def test_a_refusal_by_a_handler_names_its_items(on: Loop) -> None:
    def refuse_odd(item: int) -> None:
        if item % 2:
            raise ValueError(item)

    async with on.connected() as (node, connection):
        node.respond("work", refuse_odd)
        case = Case(on, node, connection)
        with pytest.raises(DeliveryFailed) as raised:
            await case.publish(case.numbers())
        [result] = case.results
        assert raised.value.published == result
        assert adds_up(result, case.source.given)
        assert set(result.refused) == set(itertools.takewhile(result.refused.__contains__, itertools.count(1, 2)))
        assert {why.outcome for why in result.refused.values()} == {"modified"}


def broken(source: Numbers) -> Iterator[object]:
    for number in source:
        if number == 5:
            source.given -= 1
            raise KeyError(number)
        yield number


def spoiled(source: Numbers) -> Iterator[object]:
    for number in source:
        yield object() if number == 5 else number


def refuse_five(number: int) -> int:
    if number == 5:
        raise ValueError(number)
    return number


@pytest.mark.parametrize("how", ["the source fails", "an item cannot be encoded", "encode fails"])
@pytest.mark.parametrize("fused", [True, False])
@over_both_loops
async def test_a_failure_at_this_side_tells_how_far_it_came(on: Loop, how: str, fused: bool) -> None:  # noqa: FBT001
    async with on.connected() as (node, connection):
        queue = node.queue("work")
        case = Case(on, node, connection)
        of = {"the source fails": broken, "an item cannot be encoded": spoiled}.get(how, iter)
        items = on.Stream.from_iterable(of(case.source))
        items = items if fused else items.limit_rate(1)
        encode = refuse_five if how == "encode fails" else None
        with pytest.raises(KeyError if how == "the source fails" else ConfigError) as raised:
            await case.publish(items, encode=encode)
        [result] = case.results
        assert result.accepted == 5 == queue.statistics().enqueued
        assert (len(result.refused), result.unknown, result.complete) == (0, 0, False)
        assert adds_up(result, case.source.given) or not fused
        assert bool(result.not_sent) == (how != "the source fails")
        if isinstance(raised.value, RStreamsError):
            assert raised.value.published == result


@over_both_loops
async def test_a_drained_connection_tells_that_it_is_not_all(on: Loop) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("work", capacity=10)
        case = Case(on, node, connection)
        task = on.start(lambda: case.publish(case.numbers()))
        await on.until(lambda: queue.statistics().ready == 10)
        await connection.drain_and_close()
        assert await task.ended() is None
        [result] = case.results
        assert adds_up(result, case.source.given)
        assert not result.complete


@pytest.mark.usefixtures("autojump_clock")
async def test_a_function_that_raises_at_the_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.closes()

    def on_end(result: PublishResult) -> None:
        raise RuntimeError(result)

    async with scripted(peer) as connection:
        with trio.move_on_after(0) as scope:
            await connection.publish("a", Stream.never(), on_end=on_end)
    assert scope.cancelled_caught
    assert "on_end of publish('a') raised" in caplog.text


@pytest.mark.usefixtures("autojump_clock")
async def test_what_is_no_plain_function_is_refused() -> None:
    async def peer(peer: Peer) -> None:
        await peer.opens()
        await peer.closes()

    async def on_end(_result: PublishResult) -> None: ...

    async with scripted(peer) as connection:
        with pytest.raises(TypeError, match="on_end must not be an async function"):
            await connection.publish("a", Stream.of(1), on_end=on_end)


def test_a_result_shows_what_is_not_as_it_should_be() -> None:
    assert repr(PublishResult(3)) == "PublishResult(accepted=3)"
    assert repr(PublishResult(3, {}, 1, 2, complete=False)) == (
        "PublishResult(accepted=3, unknown=1, not_sent=2, complete=False)"
    )


@over_both_loops
async def test_a_message_whose_send_is_cancelled_while_the_connection_is_away_is_never_sent(on: Loop) -> None:
    async with on.Node() as node, FaultyNetwork((await node.listen("127.0.0.1:0")).url) as network:
        node.queue("work")
        async with (
            on.connect(network.url, reconnect=Reconnect(first_delay_s=0.01)) as connection,
            connection.sender("work") as sender,
        ):
            await sender.send("first")
            network.close().reset()
            await on.until(lambda: connection.status.state == "lost")
            tasks = [on.start(partial(sender.send, f"cancelled {number}")) for number in range(3)]
            await on.settled()
            kept = on.start(partial(sender.send, "kept"))
            await on.settled()
            for task in tasks:
                task.cancel()
                assert isinstance(await task.ended(), on.Cancelled)
            network.reopen()
            assert await kept.ended() is None
            await sender.send("last")
            assert await connection.stream("work").take(3).to_list() == ["first", "kept", "last"]
