"""What is said late, in the wrong thread, or in words that cannot be sent: it harms nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio

from rstreams import DeadLetters, Delivery, Stream
from rstreams._codec import encode_value
from rstreams._core.claims import Claims, Ending, Settles
from rstreams.errors import ConfigError, ConnectionLost, DeliveryFailed, SpecViolation
from rstreams.net.links.failures import DeadLetterQueue
from rstreams.protocol.delivery import FAILED, RELEASED, Forwarded, Outcome, outcome_of
from rstreams.protocol.life import ReceiverPhase
from rstreams.protocol.packing import _TOLD_BYTES, OUTCOMES, Pack, without_texts
from rstreams.testing import ProbeSubscriber
from tests.net.over_tcp import connected, pump_of, until


async def test_a_loss_after_the_peers_last_word_is_no_completion_while_items_are_missing() -> None:
    async with connected() as (node, connection):
        node.serve("numbers", Stream.range(5))
        probe = ProbeSubscriber[int](1)
        connection.stream("numbers", pack_items=5).subscribe(probe)
        (end,) = connection._links._received
        await until(lambda: end._life.phase is ReceiverPhase.ENDING)  # the pack of five has come, and the detach
        await trio.aclose_forcefully(pump_of(connection)._stream)
        await until(lambda: probe.ended)
        assert probe.items == [0]
        assert isinstance(probe.error, ConnectionLost)


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError


UNSENDABLE = [ValueError("\ud800"), Silent(), ValueError("a\0b")]


@pytest.mark.parametrize("failure", UNSENDABLE, ids=["surrogate", "none", "nul"])
async def test_a_failure_whose_text_cannot_be_sent_is_a_dead_letter_all_the_same(failure: Exception) -> None:
    def handle(_item: object) -> None:
        raise failure

    async with connected() as (node, connection):
        queue, dead = node.queue("work"), node.queue("dead")
        await connection.publish("work", Stream.of(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: connection.consume("work", handle, on_failure=DeadLetters("dead")))
            await until(lambda: dead.statistics().ready == 1 and queue.statistics().accepted == 1)
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("failure", UNSENDABLE, ids=["surrogate", "none", "nul"])
async def test_an_exposed_failure_whose_text_cannot_be_sent_ends_its_link_alone(failure: Exception) -> None:
    async with connected() as (node, connection):
        node.queue("work")
        with pytest.raises(type(failure)) as raised:
            await connection.publish("work", Stream.fail(failure), expose_errors=True)
        assert raised.value is failure
        assert connection.status.state == "connected"


@pytest.mark.parametrize("pack_items", [1, 4])
@pytest.mark.parametrize(
    "failure",
    [
        DeliveryFailed("rejected", "app:bad", "\ud800"),
        DeliveryFailed("rejected", "ü" * 300, "text"),
        DeliveryFailed("modified", annotations={"ü": 1}),
        DeliveryFailed("modified", annotations={"x-opt-object": object()}),
        DeliveryFailed("modified", annotations={"x-opt-text": "\ud800"}),
        DeliveryFailed("modified", annotations={"x-opt-large": "x" * 100_000}),
    ],
    ids=["text", "types", "name", "value", "surrogate", "large"],
)
async def test_an_outcome_that_cannot_be_sent_as_it_is_settles_the_item(failure: Exception, pack_items: int) -> None:
    async with connected() as (node, connection):
        queue = node.queue("work", capacity=10)
        await connection.publish("work", Stream.range(4))
        failed: list[int] = []

        def handle(item: int) -> None:
            if item == 1 and not failed:
                failed.append(item)
                raise failure

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: connection.consume("work", handle, on_failure="modify", pack_items=pack_items))
            await until(lambda: queue.statistics().rejected + queue.statistics().modified == 1)
            await until(lambda: queue.statistics().unsettled == queue.statistics().ready == 0)
            nursery.cancel_scope.cancel()
        assert connection.status.state == "connected"


async def test_outcomes_of_a_pack_that_are_too_large_for_a_frame_go_without_their_texts() -> None:
    rejected = DeliveryFailed("rejected", "app:" + "b" * 200, "x" * 80)

    def handle(item: int) -> None:
        if item % 2:
            raise rejected

    async with connected(max_frame_bytes=4096) as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(100))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: connection.consume("work", handle, on_failure="modify", pack_items=100))
            await until(lambda: queue.statistics().rejected == 50 and queue.statistics().accepted == 50)
            nursery.cancel_scope.cancel()
        assert connection.status.state == "connected"


@pytest.mark.parametrize("max_frame_bytes", [512, 1024])
async def test_a_pack_has_no_more_items_than_a_frame_can_tell_of(max_frame_bytes: int) -> None:
    kinds = [
        DeliveryFailed("rejected", "app:bad", "text"),
        DeliveryFailed("modified", delivery_failed=False, undeliverable_here=True),
    ]

    def handle(item: int) -> None:
        raise kinds[item % 2]

    async with connected(max_frame_bytes=max_frame_bytes) as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.range(200))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: connection.consume("work", handle, on_failure="modify", pack_items=128))
            await until(lambda: queue.statistics().rejected == 100 and queue.statistics().unsettled == 0)
            assert queue.statistics().modified == 100
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("index", [0, 127, 128, 2**15, 2**31 - 1])
def test_what_is_told_of_an_item_is_no_larger_than_is_counted_on(index: int) -> None:
    pack = Pack(None, 2**31)
    for outcome in (RELEASED, FAILED, Outcome("rejected", "app:bad", "text")):
        pack.outcomes = {index: outcome}
        [told] = without_texts(pack.outcome().annotations)[OUTCOMES]
        assert len(encode_value(told)) <= _TOLD_BYTES


async def test_a_description_that_is_no_text_is_named() -> None:
    delivery = Delivery("item", Claims(Settled(), 0, (0,)))
    with pytest.raises(ConfigError, match=r"reject\(description=5\)"):
        delivery.reject("app:bad", 5)  # type: ignore[arg-type]
    assert not delivery.settled


def raises(error: BaseException) -> None:
    raise error


class Settled(Settles):
    """Notes how claims end."""

    def __init__(self) -> None:
        self.told: list[Ending] = []

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:
        assert epoch == 0
        self.told += [how] * len(places)


async def test_a_dead_letter_after_the_drain_is_given_back() -> None:
    def refuse(_letters: DeadLetterQueue) -> None:
        msg = "drained"
        raise ConnectionLost(msg)

    settled = Settled()
    letters = DeadLetterQueue("dead", refuse)
    letters.put(b"", Claims(Forwarded(settled, raises), 0, (1,)))
    letters.put(b"", Claims(Forwarded(settled, raises), 0, (2,)))
    assert [isinstance(how, DeliveryFailed) and outcome_of(how) for how in settled.told] == [FAILED, FAILED]


@pytest.mark.parametrize("word", ["accept", "reject", "release", "modify"])
async def test_a_delivery_is_not_settled_in_another_thread(word: str) -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        await connection.publish("work", Stream.of("job"))
        async with connection.stream("work", settlement="manual").take(1).open() as deliveries:
            async for delivery in deliveries:
                with pytest.raises(SpecViolation, match="belongs to thread"):
                    await trio.to_thread.run_sync(getattr(delivery, word))
                assert not delivery.settled
                delivery.accept()
        await until(lambda: queue.statistics().accepted == 1)


async def test_a_delivery_may_be_settled_again_after_its_connection() -> None:
    kept: list[Delivery[Any]] = []
    async with connected() as (node, connection):
        node.queue("work")
        await connection.publish("work", Stream.of("job", "other"))
        await connection.stream("work", settlement="manual").take(1).for_each(kept.append)
    kept[0].accept()
    kept[0].reject()
    assert kept[0].settled
