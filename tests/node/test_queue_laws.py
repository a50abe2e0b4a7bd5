"""The laws of the queue, against a model, for whatever producers, consumers and holds do in whatever order."""

from __future__ import annotations

import bisect
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rstreams.abc import Hold, Subscription, Suspendable
from rstreams.errors import ConnectionLost, DeliveryFailed
from rstreams.message import decode_message, encode_item
from rstreams.node.lifetime import QueueClock
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.queue import Queue
from rstreams.node.redelivery import Attempts, RedeliveryDelay
from rstreams.testing import ManualPublisher, ProbeSubscriber

OUTCOMES = ("done", "release", "fail", "reject")


class Consumer:
    """A consumer link of the model: it checks each message against what may come now."""

    def __init__(self, model: QueueLaws, *, keeps: bool) -> None:
        self.model = model
        self.keeps = keeps
        self.demand = 0
        self.held: dict[int, Hold] = {}
        self.subscription: Subscription | None = None
        self.cancelled = False
        self.suspended = False
        self.settle_at_once: str | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def on_next(self, item: bytes) -> None:
        model = self.model
        message = decode_message(item)
        number: int = message.body
        assert not self.cancelled, "nothing comes after cancel"
        assert not self.suspended, "nor while it is suspended"
        assert self.demand > 0, "1.1: nothing comes without demand"
        self.demand -= 1
        assert model.ready, "what is not in the queue cannot be delivered"
        assert model.ready[0] == number, "the oldest that is there comes first"
        assert message.delivery_count == model.failures.get(number, 0)
        model.ready.pop(0)
        assert self.subscription is not None
        if not self.keeps:
            model.gone[number] = "accepted"
        elif self.settle_at_once is not None:
            model.settle(self.subscription.hold(), number, self.settle_at_once)
        else:
            self.held[number] = self.subscription.hold()

    def on_error(self, error: BaseException) -> None:
        raise AssertionError(error)

    def on_complete(self) -> None:
        raise AssertionError


class QueueLaws(RuleBasedStateMachine):
    """Random producers and consumers; after every step the laws hold."""

    def __init__(self) -> None:
        super().__init__()
        self.producers: list[ManualPublisher[bytes]] = []
        self.consumers: list[Consumer] = []
        self.leaving: list[Consumer] = []  # cancelled, with holds not ended yet
        self.sent = 0
        self.ready: list[int] = []  # what the queue must have, oldest first
        self.gone: dict[int, str] = {}
        self.failures: dict[int, int] = {}
        self.delayed: dict[int, float] = {}  # when each is due
        self.now = 0.0

    @initialize(capacity=st.one_of(st.integers(1, 12), st.just(600)), delay_s=st.sampled_from([0.0, 0.0, 3.0]))
    def start(self, capacity: int, delay_s: float) -> None:
        self.capacity = capacity
        self.delay_s = delay_s
        self.queue = Queue(
            "q",
            MemoryStorage(capacity),
            attempts=Attempts(redelivery=RedeliveryDelay(delay_s, 2.0, 10.0)),
            clock=QueueClock(lambda: self.now),
        )

    @property
    def holders(self) -> list[Consumer]:
        return [consumer for consumer in [*self.consumers, *self.leaving] if consumer.held]

    def settle(self, hold: Hold, number: int, outcome: str) -> None:
        if outcome == "done":
            self.gone[number] = "accepted"
            hold.done()
        elif outcome == "reject":
            self.gone[number] = "rejected"
            hold.fail(DeliveryFailed("rejected"))
        else:
            if outcome == "fail":
                self.failures[number] = self.failures.get(number, 0) + 1
            if outcome == "fail" and self.delay_s:
                self.delayed[number] = self.now + min(10.0, self.delay_s * 2 ** (self.failures[number] - 1))
            else:
                bisect.insort(self.ready, number)
            if outcome == "fail":
                hold.fail(ValueError("no"))
            else:
                hold.release()

    # producers

    @rule()
    def join(self) -> None:
        link = ManualPublisher[bytes]()
        self.producers.append(link)
        link.subscribe(self.queue.producer())

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), most=st.integers(1, 40))
    def send(self, data: st.DataObject, most: int) -> None:
        link = data.draw(st.sampled_from(self.producers))
        for _ in range(min(most, link.outstanding)):
            self.sent += 1
            self.ready.append(self.sent)
            link.next(encode_item(self.sent))
            assert link.outcomes[-1] == "done"

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), how=st.sampled_from(["complete", "error"]))
    def leave(self, data: st.DataObject, how: str) -> None:
        link = data.draw(st.sampled_from(self.producers))
        self.producers.remove(link)
        if how == "error":
            link.error(ConnectionLost("gone"))
        else:
            link.complete()

    # consumers

    @rule(kind=st.sampled_from(["keeps", "takes no hold"]))
    def subscribe(self, kind: str) -> None:
        consumer = Consumer(self, keeps=kind == "keeps")
        self.consumers.append(consumer)
        self.queue.subscribe(consumer)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), n=st.integers(1, 30), at_once=st.sampled_from([None, *OUTCOMES]))
    def request(self, data: st.DataObject, n: int, at_once: str | None) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        assert consumer.subscription is not None
        consumer.settle_at_once = at_once
        consumer.demand += n
        consumer.subscription.request(n)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), suspended=st.booleans())
    def suspend_or_resume(self, data: st.DataObject, *, suspended: bool) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        assert isinstance(consumer.subscription, Suspendable)
        consumer.suspended = suspended
        if suspended:
            consumer.subscription.suspend()
        else:
            consumer.subscription.resume()

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), outcomes=st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=8))
    def end_holds(self, data: st.DataObject, outcomes: list[str]) -> None:
        consumer = data.draw(st.sampled_from(self.holders))
        for outcome in outcomes:
            if consumer.held:
                number = data.draw(st.sampled_from(sorted(consumer.held)))
                self.settle(consumer.held.pop(number), number, outcome)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        consumer.cancelled = True
        if consumer.held:
            self.leaving.append(consumer)
        assert consumer.subscription is not None
        consumer.subscription.cancel()

    # time, and browsers

    @rule(seconds=st.sampled_from([0.5, 3.0, 20.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for number in [number for number, due in self.delayed.items() if due <= self.now]:
            del self.delayed[number]
            bisect.insort(self.ready, number)
        self.queue.expire()

    @rule(batches=st.lists(st.integers(1, 40), max_size=4))
    def browse(self, batches: list[int]) -> None:
        """A browser sees what is there, in order, and nothing changes."""
        probe = ProbeSubscriber[bytes](0)
        self.queue.browse(probe)
        there = sorted([*self.ready, *self.delayed])
        for count in batches:
            probe.request(count)
        assert [decode_message(item).body for item in probe.items] == there[: sum(batches)]
        assert probe.subscription is not None
        probe.cancel()

    # the laws

    @invariant()
    def every_message_is_in_one_place(self) -> None:
        held = [number for consumer in self.holders for number in consumer.held]
        places = sorted([*self.ready, *self.delayed, *held, *self.gone])
        assert places == list(range(1, self.sent + 1))
        now = self.queue.statistics()
        assert (now.ready, now.delayed, now.unsettled) == (len(self.ready), len(self.delayed), len(held))
        told = list(self.gone.values())
        assert (now.accepted, now.rejected) == (told.count("accepted"), told.count("rejected"))

    @invariant()
    def the_counters_add_up(self) -> None:
        now = self.queue.statistics()
        here = now.ready + now.delayed + now.unsettled
        assert now.enqueued == self.sent == here + now.accepted + now.rejected
        back = now.released + now.modified
        assert now.delivered == now.unsettled + now.accepted + now.rejected + back
        assert self.queue.tally() == (now.enqueued, now.delivered, now.accepted + now.rejected, 0)
        assert (now.consumers, now.producers) == (len(self.consumers), len(self.producers))
        assert now.demand == sum(consumer.demand for consumer in self.consumers)

    @invariant()
    def the_bound_holds(self) -> None:
        now = self.queue.statistics()
        assert now.credit == sum(link.outstanding for link in self.producers)
        assert now.ready + now.delayed + now.unsettled + now.credit <= self.capacity

    @invariant()
    def nobody_waits_while_there_is_room(self) -> None:
        now = self.queue.statistics()
        if now.ready + now.delayed + now.unsettled + now.credit < self.capacity:
            assert all(link.outstanding for link in self.producers)

    @invariant()
    def nothing_waits_while_there_is_demand(self) -> None:
        if self.ready:
            assert not any(consumer.demand for consumer in self.consumers if not consumer.suspended)

    def teardown(self) -> None:
        """Let one last consumer take all that is left: nothing is lost."""
        if not hasattr(self, "queue"):
            return
        for consumer in self.consumers:
            consumer.cancelled = True
            assert consumer.subscription is not None
            consumer.subscription.cancel()
        for consumer in self.holders:
            while consumer.held:
                number, hold = consumer.held.popitem()
                self.settle(hold, number, "fail")
        self.wait(20.0)
        last = Consumer(self, keeps=False)
        self.queue.subscribe(last)
        assert last.subscription is not None
        last.demand = self.sent + 1
        last.subscription.request(self.sent + 1)
        assert sorted(self.gone) == list(range(1, self.sent + 1))


TestQueueLaws: Any = pytest.mark.slow(QueueLaws.TestCase)
TestQueueLaws.settings = settings(max_examples=60, stateful_step_count=40)


def test_a_waiting_producer_is_always_reached() -> None:
    """However many compete for one place, each gets its turn."""
    queue = Queue("q", MemoryStorage(1))
    links = [ManualPublisher[bytes]() for _ in range(5)]
    for link in links:
        link.subscribe(queue.producer())
    turns = []
    subscriptions: list[Subscription] = []

    class Taker:
        def on_subscribe(self, subscription: Subscription) -> None:
            subscriptions.append(subscription)

        def on_next(self, item: bytes) -> None: ...
        def on_error(self, error: BaseException) -> None: ...
        def on_complete(self) -> None: ...

    queue.subscribe(Taker())
    for _ in range(20):
        (ready,) = [index for index, link in enumerate(links) if link.outstanding]
        turns.append(ready)
        links[ready].next(encode_item(ready))
        subscriptions[0].request(1)
    assert turns == [0, 1, 2, 3, 4] * 4
