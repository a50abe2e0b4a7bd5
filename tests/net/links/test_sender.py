"""Messages sent one by one over TCP: each has its receipt."""

from __future__ import annotations

from typing import Literal

import pytest
import trio

import rstreams
from rstreams import Message
from rstreams.abc import Subscription
from rstreams.errors import ConfigError, ConnectionLost, DeliveryFailed, LinkDetached, RStreamsError
from rstreams.message import ByteStream, as_is, decode_body, encode_item
from rstreams.net.links.bodies import open_body
from rstreams.net.links.sender import TURN_CALLS, Receipt, SenderPublisher
from rstreams.protocol.delivery import ACCEPTED, RELEASED
from rstreams.protocol.frames import Attach, Disposition, Flow, Lost, Role, Transfer
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.outgoing_body import streaming
from rstreams.protocol.sender import LinkSubscriber
from tests.loops import Loop, over_both_loops
from tests.net.over_tcp import connected, until
from tests.protocol.played import LOST, REJECTED, PlayedDriver


@over_both_loops
async def test_each_message_has_its_receipt(on: Loop) -> None:
    async with on.connected() as (node, connection):
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


@over_both_loops
async def test_a_message_whose_head_cannot_be_encoded_fails_alone_also_if_its_body_is_streamed(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.queue("work")
        async with connection.sender("work") as sender:
            for body in (b"x", ByteStream([b"x"])):
                with pytest.raises(ConfigError, match=r"a message to 'work'.*x-a.*object"):
                    await sender.send(Message(body, annotations={"x-a": object()}))
            await sender.send("a")


async def test_tasks_wait_for_credit_in_their_order_and_nothing_is_buffered() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work", capacity=4)
        sent: list[int] = []

        async with connection.sender("work") as sender, trio.open_nursery() as nursery:
            assert isinstance(sender, SenderPublisher)

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


class _Received:
    """A subscriber that keeps the bodies of the messages, in their order."""

    def __init__(self) -> None:
        self.bodies: list[object] = []

    def on_subscribe(self, subscription: Subscription) -> None: ...

    def on_next(self, item: bytes) -> None:
        self.bodies.append(decode_body(item))

    def on_error(self, error: BaseException) -> None:
        raise error

    def on_complete(self) -> None: ...


async def test_messages_that_wait_for_credit_leave_in_the_order_of_their_tasks() -> None:
    sender, received = SenderPublisher("work"), _Received()
    sender.subscribe(received)
    async with trio.open_nursery() as nursery:
        for number in range(1, 33):  # trio may run tasks that become ready together in any order
            nursery.start_soon(sender.submit, number)
            await until(lambda: sender.waiting == 1)
            nursery.start_soon(sender.submit, -number)
            await until(lambda: sender.waiting == 2)
            sender.request(3)
            assert received.bodies == [number, -number]
            await sender.submit("behind them")
            assert received.bodies.pop() == "behind them"
            received.bodies.clear()


async def test_no_message_overtakes_one_whose_task_lets_others_run() -> None:
    for _ in range(16):  # as above
        sender, received = SenderPublisher("work"), _Received()
        sender.subscribe(received)
        sender.request(1000)
        begun: list[int] = []
        async with trio.open_nursery() as nursery:
            for numbers in (range(TURN_CALLS), range(TURN_CALLS, 2 * TURN_CALLS)):
                nursery.start_soon(_submit_each, sender, numbers, begun)
        assert received.bodies == begun


async def _submit_each(sender: SenderPublisher, numbers: range, begun: list[int]) -> None:
    for number in numbers:
        begun.append(number)
        await sender.submit(number)


async def test_an_outcome_that_is_no_acceptance_is_raised_by_its_own_message_alone() -> None:
    sender = SenderPublisher("work")
    end = LinkSubscriber(sender, SendingOptions(encode=bytes, settle_before_detach=True), sender.on_finished)
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


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("when", ["no credit any more", "sent again"])
async def test_a_cancelled_send_takes_its_message_back_from_the_link(when: str, streamed: bool) -> None:  # noqa: FBT001
    def bind() -> PlayedDriver:
        driver = PlayedDriver()
        driver.link = end.bind("test", driver)
        driver.link.send(Attach("test", Role.SENDER, "", "work"))
        driver.receive(Attach("test", Role.RECEIVER, "", "work"))
        driver.wire = 9
        driver.receive(Flow(9))
        return driver

    sender = SenderPublisher("work", message_of=streaming(encode_item, open_body))
    options = SendingOptions(encode=as_is, settle_before_detach=True, resends=True)
    end = LinkSubscriber(sender, options, sender.on_finished)
    driver = bind()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            if when == "no credit any more":
                driver.wire = 0
            messages = [
                "first",
                Message(ByteStream([b"x"])) if streamed and when == "no credit any more" else "cancelled",
            ]
            for message in messages:
                nursery.start_soon(sender.send, message)
                await trio.testing.wait_all_tasks_blocked()
            driver.turn()
            if when == "sent again":
                assert driver.link is not None
                driver.link.lose(Lost(LOST, returns=True))
            scope.cancel()
    receipt = await sender.submit("kept")
    if when == "no credit any more":
        driver.wire = 9
        driver.turn()
    else:
        driver = bind()
    sent = [payload for frame in driver.sent if isinstance(frame, Transfer) for payload in frame.payloads]
    assert [decode_body(payload) for payload in sent] == ["kept"]
    driver.receive(Disposition([frame.deliveries[0] for frame in driver.sent if isinstance(frame, Transfer)], ACCEPTED))
    assert receipt.settled
    assert end.unsettled == 0


async def test_a_cancelled_send_that_was_sent_before_a_loss_leaves_nothing_before_messages_that_were_not() -> None:
    def bind(credit: int) -> PlayedDriver:
        driver = PlayedDriver()
        driver.link = end.bind("test", driver)
        driver.link.send(Attach("test", Role.SENDER, "", "work"))
        driver.receive(Attach("test", Role.RECEIVER, "", "work"))
        driver.wire = credit
        driver.receive(Flow(credit))
        return driver

    sender = SenderPublisher("work")
    options = SendingOptions(encode=as_is, settle_before_detach=True, resends=True)
    end = LinkSubscriber(sender, options, sender.on_finished)
    driver = bind(9)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sender.send, "cancelled")
        await trio.testing.wait_all_tasks_blocked()
        driver.turn()
        driver.wire = 0
        receipt = await sender.submit("kept")
        driver.turn()
        assert driver.link is not None
        driver.link.lose(Lost(LOST, returns=True))
        nursery.cancel_scope.cancel()
    driver = bind(9)
    (sent,) = (frame for frame in driver.sent if isinstance(frame, Transfer))
    assert [decode_body(payload) for payload in sent.payloads] == ["kept"]
    driver.receive(Disposition(sent.deliveries, ACCEPTED))
    assert receipt.settled
    assert end.unsettled == 0


@pytest.mark.parametrize("settlement", ["at_least_once", "at_most_once"])
@over_both_loops
async def test_the_block_waits_until_all_is_settled(
    on: Loop, settlement: Literal["at_least_once", "at_most_once"]
) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("work")
        async with connection.sender("work", settlement=settlement) as sender:
            receipts = [await sender.submit(number) for number in range(100)]
        assert all(receipt.settled for receipt in receipts)
        await on.until(lambda: queue.statistics().enqueued == 100)


@over_both_loops
async def test_a_sender_that_is_refused_says_why(on: Loop) -> None:
    async with on.connected() as (_, connection):
        with pytest.raises(LinkDetached, match="nowhere"):
            async with connection.sender("nowhere") as sender:
                await sender.send("a")


@over_both_loops
async def test_a_block_that_raises_detaches_at_once(on: Loop) -> None:
    async with on.connected() as (node, connection):
        queue = node.queue("work", capacity=1)
        with pytest.raises(KeyError):
            async with connection.sender("work") as sender:
                await sender.send("a")
                _ = dict[str, str]()["a"]
        await on.until(lambda: queue.statistics().producers == 0)
        assert await connection.stream("work").take(1).to_list() == ["a"]


def test_what_help_shows_of_senders_and_receipts_is_what_a_user_may_call() -> None:
    shown = {kind: {name for name in dir(kind) if not name.startswith("_")} for kind in (rstreams.Sender, Receipt)}
    assert shown == {
        rstreams.Sender: {"send", "submit"},
        Receipt: {"error", "settled", "wait", "when_settled"},
    }


@over_both_loops
async def test_a_receipt_shows_what_is_known(on: Loop) -> None:
    async with on.connected() as (node, connection):
        node.queue("work")
        async with connection.sender("work") as sender:
            receipt = await sender.submit(1)
            assert repr(receipt) == "<rstreams receipt: waits>"
            with pytest.raises(TypeError, match=r"`await receipt\.wait\(\)`"):
                await receipt  # pyright: ignore[reportGeneralTypeIssues]
            await receipt.wait()
            assert repr(receipt) == "<rstreams receipt: accepted>"
    late = Receipt()
    late._settle("released")
    assert repr(late) == "<rstreams receipt: failed: the receiver released an item>"
