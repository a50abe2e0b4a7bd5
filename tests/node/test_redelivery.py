"""Failed attempts: how long a message waits after each, and what its dead letter says of them."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import timedelta

import pytest
import trio

import rstreams
from rstreams import Connection, Message, Node, Stream
from rstreams.errors import ConfigError, ConnectionClosed, DeliveryFailed
from rstreams.message import decode_message
from rstreams.node.failure import MAX_TIMES
from rstreams.node.queue import Queue
from rstreams.node.redelivery import Attempts, RedeliveryDelay
from tests.loops import Loop, over_both_loops
from tests.net.foreign import foreign
from tests.net.over_tcp import connected, until
from tests.net.wire import described, disposition_frame
from tests.node.test_dead_letters import TODAY, Time, bodies, check_laws, consumer, fill

CONDITION = "x-opt-rstreams-error-condition"
DESCRIPTION = "x-opt-rstreams-error-description"
FROM = "x-opt-rstreams-error-from"
TIMES = "x-opt-rstreams-attempt-times"
FAILURE = "x-opt-rstreams-failure"


# the delay


@over_both_loops
async def test_explain_shows_what_waits_for_its_next_attempt(on: Loop) -> None:
    async with on.connected() as (node, connection), on.open_nursery() as nursery:
        node.queue("jobs", capacity=1, redelivery_delay_s=60)

        async def consume() -> None:
            def refuse(item: object) -> None:
                raise ValueError(item)

            await connection.consume("jobs", refuse, on_failure="modify")

        nursery.start_soon(consume)
        await connection.publish("jobs", on.Stream.of("poison"))
        await on.until(lambda: node.statistics().queues["jobs"].delayed == 1)
        assert (
            "queue 'jobs' is full: 1 of 1 stored, 0 ready, 0 unsettled at 1 consumer, "
            "1 delayed until the next attempt" in str(node.explain())
        )
        nursery.cancel_scope.cancel()


def test_what_failed_waits_and_others_pass_it() -> None:
    time = Time()
    queue = time.queue(attempts=Attempts(redelivery=RedeliveryDelay(2.0, 3.0, 10.0)))
    fill(queue, "a", "b", "c")
    probe = consumer(queue, 2)
    probe.holds[0].fail(ValueError())
    assert time.due == [102.0]
    now = queue.statistics()
    assert (now.ready, now.delayed, now.unsettled) == (1, 1, 1)
    check_laws(queue)
    assert isinstance(probe.subscription, object)
    probe.request(5)
    assert bodies(probe) == ["a", "b", "c"]
    queue.expire()
    assert bodies(probe) == ["a", "b", "c"], "not before its time"
    for attempt, delay_s in enumerate((2.0, 6.0, 10.0, 10.0), start=1):
        assert queue.next_deadline == time.now + delay_s
        time.now += delay_s
        queue.expire()
        assert bodies(probe)[3:] == ["a"] * attempt
        assert decode_message(probe.items[-1]).delivery_count == attempt
        assert queue.statistics().delayed == 0
        probe.holds[-1].fail(ValueError())
        probe.request(1)
    assert queue.statistics().delayed == 1
    check_laws(queue)


def test_what_is_released_or_was_not_to_come_here_does_not_wait() -> None:
    time = Time()
    queue = time.queue(attempts=Attempts(redelivery=RedeliveryDelay(2.0)))
    fill(queue, "a", "b")
    probe = consumer(queue, 2)
    probe.holds[0].release()
    probe.holds[1].fail(DeliveryFailed("modified", delivery_failed=False))
    assert (queue.statistics().delayed, queue.statistics().ready, time.due) == (0, 2, [])


def test_what_waits_counts_in_the_capacity_and_can_be_too_old() -> None:
    time = Time()
    dead = Queue("dead")
    queue = time.queue(capacity=2, attempts=Attempts(redelivery=RedeliveryDelay(60.0)), dead_letters=dead)
    link = fill(queue, Message("short", ttl_s=5.0), "long")
    probe, buried = consumer(queue, 2), consumer(dead, 2)
    for hold in probe.holds:
        hold.fail(ValueError())
    assert (queue.statistics().delayed, link.outstanding) == (2, 0)
    check_laws(queue)
    time.now += 5
    queue.expire()
    assert bodies(buried) == ["short"]
    letter = decode_message(buried.items[0])
    assert (letter.annotations[FAILURE], letter.annotations[DESCRIPTION]) == ("expired", "ValueError")
    assert (queue.statistics().delayed, link.outstanding) == (1, 1)
    check_laws(queue)
    time.now += 55
    probe.request(1)
    queue.expire()
    assert bodies(probe) == ["short", "long", "long"]


def test_the_delay_grows_to_its_limit_however_many_attempts_fail() -> None:
    delay = RedeliveryDelay(0.5, 1.001, 3600.0)
    assert [delay.after(failures) for failures in (1, 2)] == [0.5, 0.5 * 1.001]
    assert delay.after(10**9) == 3600.0
    assert RedeliveryDelay(5.0, 2.0, 1.0).after(1) == 1.0
    assert RedeliveryDelay(1.0, 1.0, 60.0).after(10**9) == 1.0
    assert RedeliveryDelay().after(3) == RedeliveryDelay(1.0, 2.0, 0.0).after(3) == 0.0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("redelivery_delay_s", -1),
        ("redelivery_delay_s", float("nan")),
        ("redelivery_delay_s", "1"),
        ("redelivery_delay_s", True),
        ("redelivery_delay_factor", 0.5),
        ("redelivery_delay_factor", float("inf")),
        ("max_redelivery_delay_s", -0.1),
        ("max_redelivery_delay_s", 10**9),
    ],
)
def test_a_delay_that_cannot_be_is_named(option: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"queue 'work': {option}="):
        Node().queue("work", **{option: value})  # type: ignore[arg-type]


async def test_over_tcp_each_attempt_waits_for_longer(autojump_clock: object) -> None:
    times: list[float] = []
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        node.queue("dead")
        node.queue("work", dead_letters="dead", max_deliveries=4, redelivery_delay_s=1.0, redelivery_delay_factor=4.0)

        def handle(item: str) -> None:
            times.append(trio.current_time())
            raise ValueError(item)

        async def consume() -> None:
            await connection.consume("work", handle, on_failure="modify")

        nursery.start_soon(consume)
        await connection.publish("work", Stream.of("poison"))
        [letter] = await connection.messages("dead").take(1).to_list()
        nursery.cancel_scope.cancel()
    waited = [after - before for before, after in itertools.pairwise(times)]
    assert [round(each, 1) for each in waited] == [1.0, 4.0, 16.0]
    assert letter.annotations["x-opt-rstreams-delivery-count"] == 4


async def test_a_drained_node_delivers_what_waits_while_there_is_a_consumer(autojump_clock: object) -> None:
    got: list[str] = []
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        queue = node.queue("work", redelivery_delay_s=2.0)

        def handle(item: str) -> None:
            got.append(item)
            if len(got) == 1:
                raise ValueError(item)

        async def consume() -> None:
            with suppress(ConnectionClosed):
                await connection.consume("work", handle, on_failure="modify")

        await connection.publish("work", Stream.of("twice"))
        nursery.start_soon(consume)
        await until(lambda: queue.statistics().delayed)
        assert (await node.drain_and_close(timeout_s=60)).complete
        nursery.cancel_scope.cancel()
    assert got == ["twice", "twice"]


async def test_what_still_waits_when_a_drained_node_closes_is_told(autojump_clock: object) -> None:
    async with connected() as (node, connection), trio.open_nursery() as nursery:
        queue = node.queue("work", redelivery_delay_s=100.0, max_redelivery_delay_s=100.0)

        async def consume() -> None:
            with suppress(ConnectionClosed):
                await connection.consume("work", _refuse, on_failure="modify")

        await connection.publish("work", Stream.of("late"))
        nursery.start_soon(consume)
        await until(lambda: queue.statistics().delayed)
        assert (await node.drain_and_close(timeout_s=2)).left == 1
        nursery.cancel_scope.cancel()


# the reason


def test_a_dead_letter_has_the_last_error_and_the_times_of_all() -> None:
    time = Time()
    dead = Queue("dead")
    queue = time.queue(dead_letters=dead, attempts=Attempts(max_deliveries=3))
    fill(queue, Message("a", annotations={DESCRIPTION: "of another queue", FROM: "elsewhere"}))
    buried = consumer(dead, 1)
    for text in ("first", "second", ""):
        annotations = {CONDITION: "shop:closed", DESCRIPTION: text, "x-opt-mine": text} if text else {"x-opt-mine": 5}
        probe = consumer(queue, 1)
        probe.holds[0].fail(DeliveryFailed("modified", annotations=annotations))
        assert probe.subscription is not None
        probe.cancel()
        time.now += 1
    letter = decode_message(buried.items[0])
    assert letter.annotations == {
        "x-opt-mine": 5,
        FAILURE: "exhausted: 3 attempts to deliver it have failed; the last error: modified, delivery-failed",
        "x-opt-rstreams-failed-at": "q",
        "x-opt-rstreams-delivery-count": 3,
        DESCRIPTION: "modified, delivery-failed",
        TIMES: [TODAY, TODAY + timedelta(seconds=1), TODAY + timedelta(seconds=2)],
    }


def test_of_many_attempts_the_first_and_the_last_times_are_kept() -> None:
    time = Time()
    dead = Queue("dead")
    queue = time.queue(dead_letters=dead, attempts=Attempts(max_deliveries=1000))
    fill(queue, "a")
    buried, probe = consumer(dead, 1), consumer(queue, 1)
    for attempt in range(1000):
        probe.holds[-1].fail(DeliveryFailed("modified", annotations={DESCRIPTION: "x" * 5000}))
        time.now += 1
        if attempt < 999:
            probe.request(1)
    letter = decode_message(buried.items[0])
    seconds = [round((when - TODAY).total_seconds()) for when in letter.annotations[TIMES]]
    assert seconds == [0, *range(1000 - MAX_TIMES + 1, 1000)]
    assert len(letter.annotations[DESCRIPTION]) == 1024


@pytest.mark.parametrize("expose", [False, True])
def test_the_text_of_an_exception_of_this_process_is_told_if_it_may_be(expose: bool) -> None:  # noqa: FBT001
    dead = Queue("dead")
    queue = Queue("q", dead_letters=dead, attempts=Attempts(max_deliveries=1, expose_errors=expose))
    fill(queue, "a")
    buried = consumer(dead, 1)
    consumer(queue, 1).holds[0].fail(ValueError("the secret"))
    told = decode_message(buried.items[0]).annotations[DESCRIPTION]
    assert told == ("ValueError: the secret" if expose else "ValueError")


@pytest.mark.parametrize("pack_items", [1, 4])
@pytest.mark.parametrize("expose", [False, True])
@over_both_loops
async def test_over_tcp_the_consumers_error_reaches_the_dead_letter(on: Loop, expose: bool, pack_items: int) -> None:  # noqa: FBT001
    async with on.Node() as node, on.open_nursery() as nursery:
        node.queue("dead")
        node.queue("work", dead_letters="dead", max_deliveries=2)
        listener = await node.listen("127.0.0.1:0")
        async with on.connect(listener.url, container_id="the-worker") as connection:

            async def consume() -> None:
                options = {"expose_errors": expose, "pack_items": pack_items}
                await connection.consume("work", _refuse, on_failure="modify", **options)

            nursery.start_soon(consume)
            await connection.publish("work", on.Stream.of("poison"))
            [letter] = await connection.messages("dead").take(1).to_list()
            nursery.cancel_scope.cancel()
    told = "ValueError: poison" if expose else "ValueError"
    assert letter.annotations[FAILURE] == f"exhausted: 2 attempts to deliver it have failed; the last error: {told}"
    assert letter.annotations[DESCRIPTION] == told
    assert letter.annotations[CONDITION] == "amqp:internal-error"
    assert letter.annotations[FROM].startswith("container 'the-worker', link 'the-worker/")
    assert len(letter.annotations[TIMES]) == 2


@pytest.mark.parametrize("on_failure", ["fail", "reject"])
async def test_over_tcp_the_other_strategies_tell_it_too(on_failure: str) -> None:
    async with connected() as (node, connection):
        node.queue("dead")
        node.queue("work", dead_letters="dead", max_deliveries=1)
        await connection.publish("work", Stream.of("poison"))
        await _consume_one(connection, on_failure)
        [letter] = await connection.messages("dead").take(1).to_list()
    assert letter.annotations[DESCRIPTION] == "ValueError: poison"


async def test_a_consumer_whose_connection_is_lost_is_named() -> None:
    async with Node() as node:
        node.queue("dead")
        queue = node.queue("work", dead_letters="dead", max_deliveries=1)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("work", Stream.of("item"))
            with pytest.raises(EOFError):
                async with foreign(listener) as client:
                    await client.attach("eater", "receiver", address="work")
                    await client.grant(1)
                    await client.due("transfer")
                    await client.hang_up()
                    await until(lambda: queue.statistics().dead_lettered)
                    raise EOFError
            [letter] = await connection.messages("dead").take(1).to_list()
    assert letter.annotations[FROM] == "container 'scripted', link 'eater'"
    assert letter.annotations[DESCRIPTION] == "ConnectionLost"


async def test_a_foreign_consumers_modified_says_who_it_was() -> None:
    async with Node() as node:
        node.queue("dead")
        node.queue("work", dead_letters="dead", max_deliveries=1)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, foreign(listener) as client:
            await connection.publish("work", Stream.of("item"))
            await client.attach("picky", "receiver", address="work")
            await client.grant(1)
            await client.due("transfer")
            await client.send(disposition_frame(0, 0, described(0x27, b"\x41")))
            [letter] = await connection.messages("dead").take(1).to_list()
    assert letter.annotations[FROM] == "container 'scripted', link 'picky'"
    assert letter.annotations[DESCRIPTION] == "modified, delivery-failed"
    assert CONDITION not in letter.annotations


def _refuse(item: str) -> None:
    raise ValueError(item)


async def _consume_one(connection: Connection, on_failure: str) -> None:
    with trio.move_on_after(10) as waiting:
        if on_failure == "fail":
            with pytest.raises(ValueError, match="poison"):
                await connection.consume("work", _refuse)
            return
        async with trio.open_nursery() as nursery:

            async def consume() -> None:
                await connection.consume("work", _refuse, on_failure="reject")

            nursery.start_soon(consume)
            [peeked] = await connection.messages("dead", browse=True).take(1).to_list()
            assert peeked.body == "poison"
            nursery.cancel_scope.cancel()
    assert not waiting.cancelled_caught
