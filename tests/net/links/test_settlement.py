"""Settlement over TCP: deliveries decided by hand, what cannot be decoded, and dead letters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import trio

import rstreams
from rstreams import DeadLetters, Delivery, Message, Node, Stream
from rstreams.errors import ConfigError, LinkDetached
from rstreams.net.dialects import Dialect, Place
from rstreams.net.links.failures import FailureName
from rstreams.testing import ProbeSubscriber
from tests.loops import Loop, over_both_loops
from tests.net.over_tcp import connected, refuse_odd, until

Word = Callable[[Delivery[Any]], None]


@pytest.mark.parametrize(
    ("word", "counter"),
    [
        (Delivery.accept, "accepted"),
        (Delivery.reject, "rejected"),
        (Delivery.release, "released"),
        (Delivery.modify, "modified"),
    ],
)
@over_both_loops
async def test_by_hand_the_queue_hears_what_was_said(on: Loop, word: Word, counter: str) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", on.Stream.of("job"))
        async with connection.stream("work", settlement="manual").take(1).open() as deliveries:
            async for delivery in deliveries:
                assert delivery.item == "job"
                assert queue.statistics().unsettled == 1
                word(delivery)
        await on.until(lambda: getattr(queue.statistics(), counter) == 1)


@pytest.mark.parametrize("dedup_window", [None, 300])
@over_both_loops
async def test_by_hand_a_loop_that_is_left_gives_back_what_it_has_not_come_to(
    on: Loop, dedup_window: int | None
) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", on.Stream.range(5))
        deliveries = connection.stream("work", settlement="manual", dedup_window=dedup_window)
        async with deliveries.open() as items:
            last = await anext(items)
            await on.until(lambda: queue.statistics().unsettled == 5)
        assert await connection.stream("work").take(4).to_list() == [1, 2, 3, 4], "others have them at once"
        await on.until(lambda: (queue.statistics().unsettled, queue.statistics().released) == (1, 4))
        last.accept()  # the loop has come to this one, so it is the user's
        await on.until(lambda: queue.statistics().accepted == 5)
        assert queue.statistics().modified == 0


@over_both_loops
async def test_by_hand_what_a_stage_fails_at_is_given_back_as_failed(on: Loop) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", on.Stream.of(0))
        with pytest.raises(ZeroDivisionError):
            await connection.stream("work", settlement="manual").map(lambda delivery: 1 // delivery.item).to_list()
        await on.until(lambda: queue.statistics().modified == 1)


@over_both_loops
async def test_by_hand_a_subscriber_that_raises_has_failed_at_its_item(on: Loop) -> None:
    class Raising(ProbeSubscriber[Delivery[int]]):
        def on_next(self, item: Delivery[int]) -> None:
            raise LookupError(item.item)

    async with on.connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", on.Stream.of(0))
        connection.stream("work", settlement="manual").subscribe(Raising(1))
        await on.until(lambda: queue.statistics().modified == 1)


@over_both_loops
async def test_an_unsettled_delivery_counts_against_the_window(on: Loop) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", on.Stream.range(10))
        kept: list[Delivery[int]] = []
        async with on.open_nursery() as nursery:
            deliveries = connection.stream("work", settlement="manual", window=3)
            nursery.start_soon(deliveries.take(10).for_each, kept.append)
            await on.until(lambda: len(kept) == 3)
            for _ in range(50):
                await on.checkpoint()
            assert [delivery.item for delivery in kept] == [0, 1, 2]
            assert queue.statistics().unsettled == 3
            while len(kept) < 10:
                kept[-1].accept()
                await on.until(lambda: not kept[-1].settled)
            for delivery in kept:
                delivery.accept()
        await on.until(lambda: queue.statistics().accepted == 10)


@over_both_loops
async def test_what_comes_settled_cannot_be_decided(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.serve("numbers", on.Stream.of(1, 2))
        got: list[int] = []

        def take(delivery: Delivery[int]) -> None:
            delivery.reject()
            got.append(delivery.item)

        await connection.stream("numbers", settlement="manual").for_each(take)
        assert got == [1, 2]


# what cannot be decoded, and dead letters


def decode_odd(encoded: bytes) -> int:
    number = encoded[-1]
    if number % 2 == 0:
        raise ValueError(number)
    return number


@pytest.mark.parametrize(
    ("on_failure", "counter"), [("reject", "rejected"), ("accept", "accepted"), (DeadLetters("dead"), "accepted")]
)
@over_both_loops
async def test_what_cannot_be_decoded_ends_the_stream_only_if_that_is_wanted(
    on: Loop, on_failure: FailureName | DeadLetters, counter: str
) -> None:
    async with on.connected() as (node, connection):
        queue, dead = node.queue("work"), node.queue("dead")
        await connection.publish("work", on.Stream.of(b"\x01", b"\x02", b"\x03"))
        stream = connection.stream("work", decode=decode_odd, on_failure=on_failure)
        assert await stream.take(2).to_list() == [1, 3]
        await on.until(lambda: getattr(queue.statistics(), counter) == (3 if counter == "accepted" else 1))
        assert dead.statistics().enqueued == (1 if isinstance(on_failure, DeadLetters) else 0)

        await connection.publish("work", on.Stream.of(b"\x02"))
        with pytest.raises(ValueError, match="2"):
            await connection.stream("work", decode=decode_odd).to_list()


@over_both_loops
async def test_each_item_that_cannot_be_decoded_is_told(on: Loop, caplog: pytest.LogCaptureFixture) -> None:
    async with on.connected() as (node, connection):
        node.serve("numbers", on.Stream.of(b"\x02", b"\x01", b"\x04", b"\x06"))
        assert await connection.stream("numbers", decode=decode_odd, on_failure="reject").to_list() == [1]
        await on.sleep(2)
    text = "an item from 'numbers' cannot be decoded ({} so far); on_failure='reject'"
    assert [each.getMessage() for each in caplog.records if "decoded" in each.msg % each.args] == [
        text.format(1),
        f"2 more of this kind about numbers, the last: {text.format(3)} (ValueError: 6)",
    ]
    assert {each.levelname for each in caplog.records} == {"WARNING"}


@over_both_loops
async def test_a_dead_letter_is_the_message_with_the_reason(on: Loop) -> None:
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        queue = node.queue("work")
        node.queue("dead")
        await connection.publish("work", on.Stream.of(Message(1, subject="a", annotations={"x-opt-mine": 1}), 2, 3))

        async def consume() -> None:
            await connection.consume("work", refuse_odd, on_failure=DeadLetters("dead"))

        nursery.start_soon(consume)
        await on.until(lambda: queue.statistics().accepted == 3)
        first, second = await connection.messages("dead").take(2).to_list()
        assert (first.body, first.subject, second.body) == (1, "a", 3)
        assert first.annotations == {
            "x-opt-mine": 1,
            "x-opt-rstreams-failure": "ValueError: 1",
            "x-opt-rstreams-failed-at": "work",
        }
        nursery.cancel_scope.cancel()


async def test_dead_letters_that_the_peer_refuses_end_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.of(1, 3, 5))
        with trio.fail_after(5), pytest.raises(LinkDetached, match=r"on_failure=DeadLetters\('ded'\): ") as raised:
            await connection.consume("work", refuse_odd, on_failure=DeadLetters("ded"))
        assert raised.value.condition == "amqp:not-found"
        await until(lambda: queue.statistics().ready == 3)
        assert (queue.statistics().modified, queue.statistics().accepted) == (1, 0), "the one in hand is given back"

        undecodable = connection.stream("work", decode=decode_none, on_failure=DeadLetters("ded"))
        with trio.fail_after(5), pytest.raises(LinkDetached, match=r"on_failure=DeadLetters\('ded'\): "):
            await undecodable.to_list()
        await until(lambda: queue.statistics().ready == 3)

        dead = node.queue("ded")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: connection.consume("work", refuse_odd, on_failure=DeadLetters("ded")))
            await until(lambda: (dead.statistics().enqueued, queue.statistics().accepted) == (3, 3))
            nursery.cancel_scope.cancel()
    told = [each.getMessage() for each in caplog.records if "dead letter" in each.getMessage()]
    assert len(told) == 1, "the second one came within a second: it is counted"


def decode_none(encoded: bytes) -> int:
    raise ValueError(encoded)


class Particular(Dialect):
    """A peer that has an address for some things only."""

    name = "particular"

    def target(self, address: str) -> Place:
        if address == "dead":
            msg = "this peer has no 'dead'"
            raise ConfigError(msg)
        return Place(address)


async def test_dead_letters_to_what_the_peer_cannot_have_end_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    async with Node() as node:
        queue = node.queue("work", max_deliveries=3)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            connection._links._dialect = Particular()
            await connection.publish("work", Stream.of(1))
            with pytest.raises(ConfigError, match=r"^on_failure=DeadLetters\('dead'\): this peer has no 'dead'$"):
                await connection.consume("work", refuse_odd, on_failure=DeadLetters("dead"))
            await until(lambda: queue.statistics().modified == 1)
            assert connection.status.state == "connected"
    text = "a dead letter to 'dead' could not be sent, and the failed messages are given back: this peer has no 'dead'"
    assert text in caplog.text


@over_both_loops
async def test_dead_letters_that_would_come_back_at_once_are_refused(on: Loop) -> None:
    async with on.connected() as (_, connection):
        with pytest.raises(ConfigError, match="another address"):
            connection.stream("work", on_failure=DeadLetters("work"))


@over_both_loops
async def test_explain_says_which_outcomes_a_full_window_waits_for(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.queue("work")
        await connection.publish("work", on.Stream.range(8))
        deliveries = connection.stream("work", settlement="manual", window=4, dedup_window=9).name("mine")
        async with deliveries.open() as items:
            kept = [await anext(items) for _ in range(4)]
            kept[0].accept()
            kept.append(await anext(items))
            _, *stages, stall = str(deliveries.explain()).splitlines()
            names = [line.partition("  requested")[0].strip() for line in stages]
            assert names == ["mine", "deliveries", "effectively once", "link 'work'"]
            assert re.fullmatch(
                r" *-> link 'work' stalls: it owes 251 items; it waits for the outcomes of 4 items in hand, "
                r"as many as its window allows, longest of 1: for [0-9.e-]+ s",
                stall,
            )
            for delivery in kept:
                delivery.accept()
            kept.append(await anext(items))
            assert "waits for the outcomes" not in str(deliveries.explain())


@over_both_loops
async def test_explain_of_a_full_window_of_another_settlement_says_how_many(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.queue("work")
        await connection.publish("work", on.Stream.range(10))
        probe = ProbeSubscriber[None](9)
        held = connection.stream("work", window=4)
        held.map_async(_for_ever, concurrency=9).subscribe(probe)
        await on.until(lambda: "waits for the outcomes of 4 items in hand" in str(held.explain()))
        assert str(held.explain()).endswith("as many as its window allows")
        probe.cancel()


@pytest.mark.parametrize("limit", [{"max_unsettled": 4}, {"max_unsettled_bytes": 4000}])
@over_both_loops
async def test_explain_says_that_the_sender_may_keep_no_more_unsettled(on: Loop, limit: dict[str, int]) -> None:
    async with on.connected(**limit) as (node, connection):
        node.queue("work")
        await connection.publish("work", on.Stream.range(12).map(lambda _: b"x" * 1000))
        deliveries = connection.stream("work", settlement="manual")
        async with deliveries.open() as items:
            kept = [await anext(items) for _ in range(3)]
            await on.until(lambda: "may keep no more items unsettled" in str(deliveries.explain()))
            stall = str(deliveries.explain()).splitlines()[-1]
            text = r"deliveries, and may keep no more items unsettled than the [34] in hand, longest of"
            assert re.search(text, stall)
            for delivery in kept:
                delivery.accept()
            for _ in range(9):
                (await anext(items)).accept()
            await on.until(lambda: "may keep no more" not in str(deliveries.explain()))


async def _for_ever(_item: object) -> None:
    await trio.sleep_forever()


@over_both_loops
async def test_by_hand_what_a_function_raises_fails_its_delivery_and_no_other(on: Loop) -> None:
    taken: list[Delivery[Any]] = []

    def take(delivery: Delivery[Any]) -> None:
        if delivery.item == 2:
            raise LookupError
        taken.append(delivery)

    async with on.connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", on.Stream.range(5))
        with pytest.raises(LookupError):
            await connection.stream("work", settlement="manual").for_each(take)
        assert [delivery.item for delivery in taken] == [0, 1]
        assert not any(delivery.settled for delivery in taken)
        for delivery in taken:
            delivery.accept()
        await on.until(lambda: queue.statistics().accepted == 2 and queue.statistics().ready == 3)
        assert queue.statistics().modified == 1


@over_both_loops
async def test_by_hand_what_cannot_be_decoded_fails_no_delivery_before_it(on: Loop) -> None:
    def refuse_2(payload: bytes) -> Any:  # noqa: ANN401
        item = rstreams.message.decode_body(payload)
        if item == 2:
            raise LookupError
        return item

    async with on.connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", on.Stream.range(5))
        stream = connection.stream("work", settlement="manual", decode=refuse_2, on_failure="reject")
        deliveries = await stream.take(4).to_list()
        assert [delivery.item for delivery in deliveries] == [0, 1, 3, 4]
        assert not any(delivery.settled for delivery in deliveries)
        for delivery in deliveries:
            delivery.accept()
        await on.until(lambda: queue.statistics().accepted == 4 and queue.statistics().rejected == 1)
