"""Deliveries that a loop gets directly from its link: each message has the outcome that was said, in any order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from rstreams import Delivery, Stream
from rstreams._core.claims_in_order import ClaimsInOrder, gather
from rstreams._core.run import Run
from rstreams.abc import Subscription
from rstreams.message import decode_message
from rstreams.net.links.manual_loop import ManualLoopStage
from rstreams.testing import ManualPublisher, ProbeSubscriber
from tests.net.over_tcp import connected, until

WORDS: dict[str, Callable[[Delivery[Any]], None]] = {
    "accept": Delivery.accept,
    "reject": Delivery.reject,
    "release": Delivery.release,
    "modify": Delivery.modify,
}


def decode_small(encoded: bytes) -> int:
    number = encoded[-1]
    if number % 7 == 6:
        raise ValueError(number)
    return number


@pytest.mark.parametrize("seed", range(40))
async def test_each_message_has_the_outcome_that_was_said(seed: int) -> None:
    rnd = random.Random(seed)  # noqa: S311
    size = rnd.choice([3, 20, 90])
    options: dict[str, Any] = rnd.choice(
        [{}, {"window": 5}, {"window": 200}, {"window_bytes": 300}, {"dedup_window": 300}, {"pack_items": 8}]
    )
    words = rnd.choice([["accept"], ["accept"] * 9 + ["reject"], list(WORDS)])
    most_kept = rnd.choice([0, 0, 1, 4])
    leaves_at = rnd.choice([None, rnd.randrange(1, size + 1)])
    raises = rnd.random() < 0.5
    kept: list[Delivery[int]] = []
    said: dict[int, str] = {}

    def decide(delivery: Delivery[int]) -> None:
        word = rnd.choice(words)
        WORDS[word](delivery)
        WORDS[rnd.choice(list(WORDS))](delivery)  # only the first call counts
        said[delivery.item] = word

    async with connected(pack_items=8) as (node, connection):
        queue = node.queue("work", capacity=100)
        await connection.publish("work", Stream.of(*(bytes([number]) for number in range(size))))
        decodable = size - len(range(6, size, 7))
        through = 0
        stream = connection.stream("work", settlement="manual", decode=decode_small, on_failure="reject", **options)
        try:
            async with stream.open() as deliveries:
                async for delivery in deliveries:
                    kept.append(delivery)
                    through += 1
                    while len(kept) > most_kept:
                        decide(kept.pop(rnd.randrange(len(kept))))
                    if through == leaves_at and raises:
                        raise LookupError(delivery.item)  # noqa: TRY301 - in a loop, as users do
                    if through >= min(leaves_at or decodable, decodable):
                        break
        except LookupError as error:
            if kept and kept[-1].item == error.args[0]:
                failed = kept.pop()
                assert failed.settled, "the loop failed at it"
                failed.accept()
                said[failed.item] = "reject"  # as `on_failure` says
        while kept:
            decide(kept.pop(rnd.randrange(len(kept))))

        await until(lambda: queue.statistics().unsettled == 0)
        accepted = {number for number, word in said.items() if word == "accept"}
        rejected = {number for number, word in said.items() if word == "reject"}
        now = queue.statistics()
        assert now.accepted == len(accepted)
        undecodable = now.rejected - len(rejected)
        assert 0 <= undecodable <= size - decodable
        assert now.ready == size - len(accepted) - now.rejected
        left = await connection.stream("work", decode=bytes).take(now.ready).to_list() if now.ready else []
        numbers = [encoded[-1] for encoded in left]
        assert {number for number in numbers if number % 7 != 6} == {
            number for number in range(size) if number % 7 != 6
        } - accepted - rejected
        assert len(set(numbers)) == len(numbers)


LARGE = b"x" * 2_000_000


def waiting_for(loop: Any) -> int:  # noqa: ANN401 - the open items of a stream
    """Return how many items have come for a loop, and wait for it."""
    waiting: int = loop._sink._waiting
    return waiting


@pytest.mark.parametrize("decode", [None, decode_message])
@pytest.mark.parametrize(
    ("items", "pack_items"),
    [(["a", "b", "c", LARGE, "d", "e"], None), ([b"a", *[bytes([x]) for x in range(20)], LARGE, b"b"], 8)],
)
async def test_items_that_come_in_different_ways_keep_their_outcomes(
    items: list[Any], pack_items: int | None, decode: Callable[[bytes], Any] | None
) -> None:
    options: dict[str, Any] = {} if decode is None else {"decode": decode}
    if pack_items is not None:
        options["pack_items"] = pack_items
    async with connected(pack_items=8) as (node, connection):
        queue = node.queue("work", capacity=100)
        await connection.publish("work", Stream.of(*items), pack_items=1)
        async with connection.stream("work", settlement="manual", **options).open() as deliveries:
            await until(lambda: waiting_for(deliveries) == len(items))
            kept = []
            for number in range(len(items)):
                delivery = await anext(deliveries)
                if number % 3:
                    delivery.accept()
                else:
                    kept.append(delivery)
        for delivery in kept:
            delivery.release()
        await until(lambda: queue.statistics().unsettled == 0)
        assert await connection.stream("work").take(len(kept)).to_list() == items[::3]
        await until(lambda: queue.statistics().accepted == len(items))


async def test_what_a_loop_has_not_come_to_is_given_back_in_its_place() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        await connection.publish("work", Stream.of("a", "b", "c", LARGE, "d"))
        async with connection.stream("work", settlement="manual").open() as deliveries:
            await until(lambda: waiting_for(deliveries) == 5)
            (await anext(deliveries)).accept()
        assert await connection.stream("work").take(4).to_list() == ["b", "c", LARGE, "d"]


# the claims alone

Source = ManualPublisher[str]


class Loop(ProbeSubscriber[Delivery[str]]):
    """Takes deliveries like a loop, and is through with them when the test says so."""

    claims: ClaimsInOrder

    def on_subscribe(self, subscription: Subscription) -> None:
        claims = gather(subscription, loose=False)
        assert claims is not None
        self.claims = claims
        super().on_subscribe(subscription)

    def on_run(self, run: Run[Delivery[str]]) -> None:
        self.claims.put(run.keep(run.size))
        for item in run.items():
            self.on_next(item)


def claimed(source: Source, items: str) -> tuple[ClaimsInOrder, list[Delivery[str]], ManualLoopStage[str]]:
    """Send some items to a loop; return its claims on them, and their deliveries, with which it is not through."""
    loop = Loop(len(items))
    stage = ManualLoopStage(loop)
    source.subscribe(stage)
    source.next(*items)
    return loop.claims, loop.items, stage


async def test_outcomes_in_any_order() -> None:
    source = Source()
    _, (a, b, c, d), _ = claimed(source, "abcd")
    c.accept()
    a.reject()
    d.accept()
    b.release()
    assert source.outcomes == ["failed", "released", "done", "done"]


async def test_what_the_loop_is_through_with_stays_with_the_user() -> None:
    source = Source()
    claims, (a, b, c), stage = claimed(source, "abc")
    claims.done(2)
    claims.release()
    assert [each.settled for each in (a, b, c)] == [False, False, True]
    b.accept()
    a.accept()
    c.accept()  # too late
    assert source.outcomes == ["done", "done", "released"]
    assert not stage.undecided


async def test_a_loop_that_fails_fails_at_its_item_unless_that_is_decided() -> None:
    source = Source()
    error = LookupError("b")
    claims, (a, b), _ = claimed(source, "ab")
    a.accept()
    claims.take().fail(error)
    claims.take().fail(error)
    assert (source.outcomes, source.errors) == (["done", "failed"], [None, error])
    assert b.settled


async def test_a_claim_that_is_taken_leaves_all_but_a_failure_to_the_user() -> None:
    source = Source()
    claims, (a, b, c), _ = claimed(source, "abc")
    first, second, third = (claims.take() for _ in range(3))
    first.loosen()
    first.done()
    assert not a.settled
    a.accept()
    second.release()
    third.fail(LookupError())
    b.accept()  # too late
    c.accept()
    assert source.outcomes == ["done", "released", "failed"]
