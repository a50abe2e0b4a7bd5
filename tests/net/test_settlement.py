"""Settlement over TCP: deliveries decided by hand, handlers that raise, dead letters, messages sent one by one."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal

import pytest
import trio

import rstreams
from rstreams import DeadLetters, Delivery, Message, Node, Stream
from rstreams.errors import ConfigError, ConnectionLost, DeliveryFailed, LinkDetached, RStreamsError
from rstreams.net.dialects import Dialect, Place
from rstreams.net.failures import FailureName
from rstreams.net.sender import MessageHold, Receipt, SenderPublisher
from rstreams.protocol.delivery import ACCEPTED, RELEASED
from rstreams.protocol.frames import Attach, Disposition, Flow, Lost, Role, Settlement
from rstreams.protocol.sender import LinkSubscriber
from rstreams.testing import ProbeSubscriber
from tests.net.over_tcp import connected, until
from tests.protocol.played import LOST, REJECTED, PlayedDriver

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
async def test_by_hand_the_queue_hears_what_was_said(word: Word, counter: str) -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.of("job"))
        async with connection.stream("work", settlement="manual").take(1).open() as deliveries:
            async for delivery in deliveries:
                assert delivery.item == "job"
                assert queue.statistics().unsettled == 1
                word(delivery)
        await until(lambda: getattr(queue.statistics(), counter) == 1)


@pytest.mark.parametrize("dedup_window", [None, 300])
async def test_by_hand_a_loop_that_is_left_gives_back_what_it_has_not_come_to(dedup_window: int | None) -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(5))
        deliveries = connection.stream("work", settlement="manual", dedup_window=dedup_window)
        async with deliveries.open() as items:
            last = await anext(items)
            await until(lambda: queue.statistics().unsettled == 5)
        assert await connection.stream("work").take(4).to_list() == [1, 2, 3, 4], "others have them at once"
        assert (queue.statistics().unsettled, queue.statistics().released) == (1, 4)
        last.accept()  # the loop has come to this one, so it is the user's
        await until(lambda: queue.statistics().accepted == 5)
        assert queue.statistics().modified == 0


async def test_by_hand_what_a_stage_fails_at_is_given_back_as_failed() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.of(0))
        with pytest.raises(ZeroDivisionError):
            await connection.stream("work", settlement="manual").map(lambda delivery: 1 // delivery.item).to_list()
        await until(lambda: queue.statistics().modified == 1)


async def test_by_hand_a_subscriber_that_raises_has_failed_at_its_item() -> None:
    class Raising(ProbeSubscriber[Delivery[int]]):
        def on_next(self, item: Delivery[int]) -> None:
            raise LookupError(item.item)

    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.of(0))
        connection.stream("work", settlement="manual").subscribe(Raising(1))
        await until(lambda: queue.statistics().modified == 1)


async def test_an_unsettled_delivery_counts_against_the_window() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(10))
        kept: list[Delivery[int]] = []
        async with trio.open_nursery() as nursery:
            deliveries = connection.stream("work", settlement="manual", window=3)
            nursery.start_soon(deliveries.take(10).for_each, kept.append)
            await until(lambda: len(kept) == 3)
            for _ in range(50):
                await trio.lowlevel.checkpoint()
            assert [delivery.item for delivery in kept] == [0, 1, 2]
            assert queue.statistics().unsettled == 3
            while len(kept) < 10:
                kept[-1].accept()
                await until(lambda: not kept[-1].settled)
            for delivery in kept:
                delivery.accept()
        await until(lambda: queue.statistics().accepted == 10)


async def test_what_comes_settled_cannot_be_decided() -> None:
    async with connected() as (node, connection):
        node.serve("numbers", Stream.of(1, 2))
        got: list[int] = []

        def take(delivery: Delivery[int]) -> None:
            delivery.reject()
            got.append(delivery.item)

        await connection.stream("numbers", settlement="manual").for_each(take)
        assert got == [1, 2]


# handlers


def refuse_odd(item: int) -> None:
    if item % 2:
        raise ValueError(item)


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_handlers_return_accepts_and_its_failure_is_as_told(asynchronous: bool) -> None:  # noqa: FBT001
    async def refuse_odd_later(item: int) -> None:
        await trio.lowlevel.checkpoint()
        refuse_odd(item)

    async with connected() as (node, connection), trio.open_nursery() as nursery:
        queue = node.queue("work")
        await connection.publish("work", Stream.range(10))
        handler = refuse_odd_later if asynchronous else refuse_odd

        async def consume() -> None:
            await connection.consume("work", handler, concurrency=3, on_failure="reject")

        nursery.start_soon(consume)
        await until(lambda: queue.statistics().rejected == 5 and queue.statistics().accepted == 5)
        nursery.cancel_scope.cancel()


async def test_a_failure_ends_the_call_unless_it_is_told_otherwise() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(4))
        with pytest.raises(ValueError, match="1"):
            await connection.consume("work", refuse_odd)
        await until(lambda: queue.statistics().ready == 3)
        assert (queue.statistics().accepted, queue.statistics().modified) == (1, 1)


async def test_the_first_failure_of_a_handler_is_told_aloud(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "rstreams.net")
    async with connected() as (node, connection):
        node.serve("numbers", Stream.range(3))
        await connection.consume("numbers", lambda n: 1 // n, on_failure="reject")
        node.serve("zeros", Stream.of(0, 0, 0))
        await connection.consume("zeros", lambda n: 1 // n, on_failure="reject")
    told = [(each.levelname, each.getMessage()) for each in caplog.records if each.exc_info is not None]
    assert told == [
        ("WARNING", "the handler of 'numbers' failed; on_failure='reject'"),
        ("WARNING", "the handler of 'zeros' failed; on_failure='reject'"),
        *[("DEBUG", "the handler of 'zeros' failed; on_failure='reject'")] * 2,
    ]


async def test_never_more_items_are_asked_for_than_can_be_handled() -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        queue = node.queue("work")
        await connection.publish("work", Stream.range(10))
        inside = 0

        async def handle(_item: int) -> None:
            nonlocal inside
            inside += 1
            await trio.sleep_forever()

        async def consume() -> None:
            await connection.consume("work", handle, concurrency=2)

        nursery.start_soon(consume)
        await until(lambda: inside == 2)
        assert queue.statistics().unsettled == 2
        nursery.cancel_scope.cancel()
    assert (queue.statistics().ready, queue.statistics().modified) == (10, 2), "given back as failed by the cancel"


async def test_the_window_of_a_consumer_lets_as_many_be_in_hand_as_it_may_handle() -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        queue = node.queue("work")
        await connection.publish("work", Stream.range(400))
        with pytest.raises(ConfigError) as raised:
            await connection.consume("work", print, concurrency=9, window=8)
        assert str(raised.value) == "consume(concurrency=9): window=8 lets no more than 8 items be in hand"
        inside = 0

        async def handle(_item: int) -> None:
            nonlocal inside
            inside += 1
            await trio.sleep_forever()

        async def consume() -> None:
            await connection.consume("work", handle, concurrency=300)

        nursery.start_soon(consume)
        await until(lambda: inside == 300)
        assert queue.statistics().unsettled == 300
        nursery.cancel_scope.cancel()


async def test_a_handler_of_a_stream_that_ends_returns() -> None:
    async with connected() as (node, connection):
        node.serve("numbers", Stream.range(5))
        got: list[int] = []
        await connection.consume("numbers", got.append)
        assert got == [0, 1, 2, 3, 4]
        with pytest.raises(ConfigError, match="concurrency=0"):
            await connection.consume("numbers", print, concurrency=0)


async def test_a_generator_as_a_handler_accepts_nothing() -> None:
    def handle(item: int) -> Iterator[int]:
        yield item

    async def handle_later(item: int) -> AsyncIterator[int]:
        yield item

    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.of(1))
        for generator in (handle, handle_later):
            with pytest.raises(
                TypeError, match=r"^consume\(handler\): nobody would run handler, but .* is a generator"
            ):
                await connection.consume("work", generator)
            assert queue.statistics().delivered == 0
        for handler in (lambda item: handle(item), lambda item: handle_later(item)):  # noqa: PLW0108 - not seen through
            with pytest.raises(TypeError, match=r"^consume\(handler\): handler returned a generator that nobody would"):
                await connection.consume("work", handler)
        await until(lambda: (queue.statistics().accepted, queue.statistics().modified) == (0, 2))
        with pytest.raises(ConfigError, match=r"^consume\(handler=None\): it must be a function$"):
            await connection.consume("work", None)  # type: ignore[arg-type]


# what cannot be decoded, and dead letters


def decode_odd(encoded: bytes) -> int:
    number = encoded[-1]
    if number % 2 == 0:
        raise ValueError(number)
    return number


@pytest.mark.parametrize(
    ("on_failure", "counter"), [("reject", "rejected"), ("accept", "accepted"), (DeadLetters("dead"), "accepted")]
)
async def test_what_cannot_be_decoded_ends_the_stream_only_if_that_is_wanted(
    on_failure: FailureName | DeadLetters, counter: str
) -> None:
    async with connected() as (node, connection):
        queue, dead = node.queue("work"), node.queue("dead")
        await connection.publish("work", Stream.of(b"\x01", b"\x02", b"\x03"))
        stream = connection.stream("work", decode=decode_odd, on_failure=on_failure)
        assert await stream.take(2).to_list() == [1, 3]
        await until(lambda: getattr(queue.statistics(), counter) == (3 if counter == "accepted" else 1))
        assert dead.statistics().enqueued == (1 if isinstance(on_failure, DeadLetters) else 0)

        await connection.publish("work", Stream.of(b"\x02"))
        with pytest.raises(ValueError, match="2"):
            await connection.stream("work", decode=decode_odd).to_list()


async def test_the_first_item_that_cannot_be_decoded_is_told_aloud(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "rstreams.net")
    async with connected() as (node, connection):
        node.serve("numbers", Stream.of(b"\x02", b"\x01", b"\x04"))
        assert await connection.stream("numbers", decode=decode_odd, on_failure="reject").to_list() == [1]
    told = [(each.levelname, each.getMessage()) for each in caplog.records if each.exc_info is not None]
    text = "an item from 'numbers' cannot be decoded; on_failure='reject'"
    assert told == [("WARNING", text), ("DEBUG", text)]


async def test_a_dead_letter_is_the_message_with_the_reason() -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        queue = node.queue("work")
        node.queue("dead")
        await connection.publish("work", Stream.of(Message(1, subject="a", annotations={"x-opt-mine": 1}), 2, 3))

        async def consume() -> None:
            await connection.consume("work", refuse_odd, on_failure=DeadLetters("dead"))

        nursery.start_soon(consume)
        await until(lambda: queue.statistics().accepted == 3)
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
    assert len(told) == 2, "one line for each that ended"


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
    assert "a dead letter could not be sent, and what failed is given back: this peer has no 'dead'" in caplog.text


async def test_dead_letters_that_would_come_back_at_once_are_refused() -> None:
    async with connected() as (_, connection):
        with pytest.raises(ConfigError, match="another address"):
            connection.stream("work", on_failure=DeadLetters("work"))


# one by one


async def test_each_message_has_its_receipt() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        async with connection.sender("work") as sender:
            await sender.send("a")
            assert queue.statistics().enqueued == 1
            receipt = await sender.submit(Message("b", id="1"))
            await receipt.wait()
            assert receipt.settled
            assert receipt.error is None
            with pytest.raises(ConfigError, match="object"):
                await sender.send(object())
            assert repr(sender) == "<rstreams sender to 'work'>"
        assert await connection.stream("work").take(2).to_list() == ["a", "b"]
        with pytest.raises(RStreamsError, match="closed"):
            await sender.send("c")


async def test_tasks_wait_for_credit_in_their_order_and_nothing_is_buffered() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work", capacity=4)
        sent: list[int] = []

        async with connection.sender("work") as sender, trio.open_nursery() as nursery:

            async def send(number: int) -> None:
                await sender.send(number)
                sent.append(number)

            for number in range(8):
                nursery.start_soon(send, number)
            await until(lambda: len(sent) == 4)
            cancelled = trio.CancelScope()

            async def give_up() -> None:
                with cancelled:
                    await sender.send("never")

            nursery.start_soon(give_up)
            await until(lambda: len(sender._waiters) == 5)
            cancelled.cancel()
            await until(lambda: len(sender._waiters) == 4)
            got = await connection.stream("work").take(8).to_list()
            assert sorted(got) == list(range(8))
            await until(lambda: len(sent) == 8)
        assert queue.statistics().enqueued == 8


async def test_an_outcome_that_is_no_acceptance_is_raised_by_its_own_message_alone() -> None:
    sender = SenderPublisher("work")
    end = LinkSubscriber(
        sender,
        encode=bytes,
        settlement=Settlement.AT_LEAST_ONCE,
        settle_before_detach=True,
        fail_on_refusal=False,
        expose_errors=False,
        on_finished=sender.on_finished,
    )
    driver = PlayedDriver()
    driver.link = end.bind("test", driver)
    driver.link.send(Attach("test", Role.SENDER, "", "work"))
    driver.receive(Attach("test", Role.RECEIVER, "", "work"))
    driver.wire = 3
    driver.receive(Flow(3))
    receipts = [await sender.submit(number) for number in range(3)]
    driver.turn()
    driver.receive(Disposition([1], REJECTED), Disposition([0], ACCEPTED), Disposition([2], RELEASED))
    await receipts[0].wait()
    with pytest.raises(DeliveryFailed, match="x:bad: unreadable") as raised:
        await receipts[1].wait()
    assert receipts[1].error is raised.value
    with pytest.raises(DeliveryFailed, match="released"):
        await receipts[2].wait()
    driver.wire = 1
    driver.receive(Flow(1))
    untold = await sender.submit(3)
    driver.turn()
    driver.link.lose(Lost(LOST))
    with pytest.raises(ConnectionLost):
        await untold.wait()
    with pytest.raises(ConnectionLost):
        await sender.submit(4)


@pytest.mark.parametrize("settlement", ["at_least_once", "at_most_once"])
async def test_the_block_waits_until_all_is_settled(settlement: Literal["at_least_once", "at_most_once"]) -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        async with connection.sender("work", settlement=settlement) as sender:
            receipts = [await sender.submit(number) for number in range(100)]
        assert all(receipt.settled for receipt in receipts)
        await until(lambda: queue.statistics().enqueued == 100)


async def test_a_sender_that_is_refused_says_why() -> None:
    async with connected() as (_, connection):
        with pytest.raises(LinkDetached, match="nowhere"):
            async with connection.sender("nowhere") as sender:
                await sender.send("a")


async def test_a_block_that_raises_detaches_at_once() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work", capacity=1)
        with pytest.raises(KeyError):
            async with connection.sender("work") as sender:
                await sender.send("a")
                _ = dict[str, str]()["a"]
        await until(lambda: queue.statistics().producers == 0)
        assert await connection.stream("work").take(1).to_list() == ["a"]


async def test_explain_says_which_outcomes_a_full_window_waits_for() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        await connection.publish("work", Stream.range(8))
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


async def test_explain_of_a_full_window_of_another_settlement_says_how_many() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        await connection.publish("work", Stream.range(10))
        probe = ProbeSubscriber[None](9)
        held = connection.stream("work", window=4)
        held.map_async(_for_ever, concurrency=9).subscribe(probe)
        await until(lambda: "waits for the outcomes of 4 items in hand" in str(held.explain()))
        assert str(held.explain()).endswith("as many as its window allows")
        probe.cancel()


async def _for_ever(_item: object) -> None:
    await trio.sleep_forever()


def test_what_help_shows_of_senders_and_receipts_is_what_a_user_may_call() -> None:
    shown = {kind: {name for name in dir(kind) if not name.startswith("_")} for kind in (rstreams.Sender, Receipt)}
    assert shown == {
        rstreams.Sender: {"send", "submit"},
        Receipt: {"error", "settled", "wait", "when_settled"},
    }


async def test_a_receipt_shows_what_is_known() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        async with connection.sender("work") as sender:
            receipt = await sender.submit(1)
            assert repr(receipt) == "<rstreams receipt: waits>"
            with pytest.raises(TypeError, match=r"`await receipt\.wait\(\)`"):
                await receipt  # type: ignore[misc] # pyright: ignore[reportGeneralTypeIssues]
            await receipt.wait()
            assert repr(receipt) == "<rstreams receipt: accepted>"
    late = MessageHold()
    late.release()
    assert repr(late) == "<rstreams receipt: failed: the receiver released an item>"
