"""explain over connections: what others than the two sides of a wait know, and what is only a moment."""

from __future__ import annotations

import pytest
import trio

from rstreams.abc import Subscription
from rstreams.culprits import Culprit, Tells
from rstreams.errors import DeliveryFailed
from tests.net.test_explain_across import culprit, scene


class Query:
    """A subscriber that has its reasons."""

    def __init__(self, told: Culprit | None) -> None:
        self._told = told

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(1)

    def on_next(self, item: object) -> None:
        pass

    def on_error(self, error: BaseException) -> None:
        pass

    def on_complete(self) -> None:
        pass

    def culprit(self) -> Culprit | None:
        return self._told


async def never(_: object) -> None:
    await trio.sleep_forever()


async def test_a_subscriber_of_the_user_tells_its_reason() -> None:
    told = Query(Culprit("slow_trigger", "worker has not taken its next batch"))
    assert isinstance(told, Tells)
    async with scene() as s:
        queue = s.node.queue("q")
        worker = await s.client("worker")
        worker.stream("q", window=1).subscribe(told)
        async with worker.sender("q") as sender:
            for _ in range(3):
                await sender.send("item")
        assert queue.statistics().ready == 2
        found = await culprit(s.node.explain_across, "slow_trigger", "worker")
        assert found.where == "worker"


async def test_a_subscriber_that_has_no_reason_is_a_slow_consumer() -> None:
    async with scene() as s:
        s.node.queue("q")
        worker = await s.client("worker")
        worker.stream("q", window=1).subscribe(Query(None))
        async with worker.sender("q") as sender:
            for _ in range(3):
                await sender.send("item")
        await culprit(s.node.explain_across, "slow_consumer", "worker")


@pytest.mark.parametrize("consumers", [0, 1])
async def test_a_publisher_whose_last_item_was_refused_asks_why(consumers: int) -> None:
    async with scene() as s:
        s.node.queue("q", capacity=2, when_full="reject")
        shop, worker = await s.client("shop"), await s.client("worker")
        if consumers:
            s.start(worker.consume, "q", never, window=1)
        async with shop.sender("q") as sender:
            with pytest.raises(DeliveryFailed):
                for _ in range(10):
                    await sender.send("item")
            kind, name = ("slow_handler", "worker") if consumers else ("queue_full", "q")
            await culprit(shop.explain_across, kind, name)
            worker.stream("q").subscribe(Query(None))
            if not consumers:
                await trio.testing.wait_all_tasks_blocked(0.05)
                await sender.send("item")
                await culprit(shop.explain_across, "publisher_idle", "shop")


async def test_what_waits_only_for_a_moment_is_no_trouble_of_a_node() -> None:
    async with scene() as s:
        s.node.queue("q")
        worker = await s.client("worker")
        async with worker.sender("q") as sender, worker.stream("q", window=1).open(window=1) as items:
            for _ in range(2):
                await sender.send("item")
            await anext(items)
            assert (await s.node.explain_across()).culprit is None
            async with worker.management() as management:
                assert (await management.explain("q")).culprit is not None, "who asks for the address sees it"
