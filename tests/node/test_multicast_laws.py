"""The laws of the multicast address, against a model, for both ways of overflow."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Subscription
from rstreams.node.multicast import MulticastAddress
from rstreams.testing import ManualPublisher


class Subscriber:
    """A subscriber of the model: it knows what waits for it, and checks each item against that."""

    def __init__(self, *, asks_again: bool) -> None:
        self.asks_again = asks_again
        self.subscription: Subscription | None = None
        self.demand = 0
        self.waiting: list[bytes] = []
        self.arrived = 0
        self.delivered = 0
        self.dropped = 0
        self.highest = 0

    def request(self, n: int) -> None:
        assert self.subscription is not None
        self.demand = min(self.demand + n, UNBOUNDED)
        self.subscription.request(n)

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def on_next(self, item: bytes) -> None:
        assert self.demand, "1.1: nothing comes without demand"
        if self.demand != UNBOUNDED:
            self.demand -= 1
        self.delivered += 1
        self.highest = int(item)
        assert self.waiting.pop(0) == item, "each gets all that came since it joined, in one order"
        if self.asks_again and self.delivered % 3:
            self.request(1)

    def on_error(self, error: BaseException) -> None:
        raise AssertionError(error)

    def on_complete(self) -> None:
        raise AssertionError


class MulticastLaws(RuleBasedStateMachine):
    """Random producers and subscribers; after every step, and at every grant, the laws hold."""

    def __init__(self) -> None:
        super().__init__()
        self.producers: list[ManualPublisher[bytes]] = []
        self.subscribers: list[Subscriber] = []
        self.sent = 0
        self.unrouted = 0
        self.kept: list[bytes] = []  # nobody was there
        self.highest = 0  # the number of the last item that some subscriber got
        self.abandoned = 0
        self.left_with: list[Subscriber] = []
        self.was_full = False

    @initialize(overflow=st.sampled_from(["block", "drop_oldest"]), capacity=st.integers(1, 12))
    def start(self, overflow: Literal["block", "drop_oldest"], capacity: int) -> None:
        self.capacity = capacity
        self.blocks = overflow == "block"
        self.address = MulticastAddress("m", overflow, capacity)

    @property
    def limit(self) -> int:
        """What producers may have outstanding: as much as the slowest subscriber asks for."""
        if not self.subscribers:
            return 0
        return min(self.capacity, *(each.demand - len(each.waiting) for each in self.subscribers))

    @property
    def credit(self) -> int:
        return sum(link.outstanding for link in self.producers)

    # producers

    @rule(eager=st.integers(0, 5))
    def join(self, eager: int) -> None:
        """Attach a producer; it answers that many grants with an item at once."""
        link = ManualPublisher[bytes]()
        self.producers.append(link)

        def granted(n: int) -> None:
            if self.blocks:
                assert self.limit > 0, "no credit that no subscriber asked for"
                alone = n == link.outstanding == 1
                assert self.credit <= self.limit or (alone and len(self.producers) > 1)
                assert link.outstanding <= self.limit
            nonlocal eager
            if eager:
                eager -= 1
                self.send_one(link)

        link.on_request = granted
        link.subscribe(self.address.producer())

    @precondition(lambda self: self.producers)
    @rule(data=st.data(), most=st.integers(1, 12))
    def send(self, data: st.DataObject, most: int) -> None:
        link = data.draw(st.sampled_from(self.producers))
        for _ in range(min(most, link.outstanding)):
            self.send_one(link)

    def send_one(self, link: ManualPublisher[bytes]) -> None:
        self.sent += 1
        item = b"%d" % self.sent
        nobody = not self.subscribers
        if nobody and self.blocks:
            self.kept.append(item)
        else:
            self.unrouted += nobody
        for each in self.subscribers:
            each.arrived += 1
            each.waiting.append(item)
            if not each.demand and len(each.waiting) > self.capacity:
                assert not self.blocks, "nothing is dropped"
                del each.waiting[0]
                each.dropped += 1
        link.next(item)
        assert link.outcomes[-1] == (None if nobody and self.blocks else "done")

    @precondition(lambda self: self.producers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        link = data.draw(st.sampled_from(self.producers))
        self.producers.remove(link)
        link.complete()

    # subscribers

    @rule(kind=st.sampled_from(["asks again", "waits"]))
    def subscribe(self, kind: str) -> None:
        each = Subscriber(asks_again=kind == "asks again")
        self.subscribers.append(each)
        each.waiting, self.kept = self.kept, []
        each.arrived = len(each.waiting)
        self.address.subscribe(each)
        assert all(outcome == "done" for link in self.producers for outcome in link.outcomes), (
            "they have been passed on"
        )

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data(), n=st.one_of(st.integers(1, 20), st.just(UNBOUNDED)))
    def request(self, data: st.DataObject, n: int) -> None:
        data.draw(st.sampled_from(self.subscribers)).request(n)

    @rule(n=st.integers(1, 5))
    def all_request(self, n: int) -> None:
        for each in self.subscribers:
            each.request(n)

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        each = data.draw(st.sampled_from(self.subscribers))
        self.subscribers.remove(each)
        self.left_with.append(each)
        self.abandoned += len(each.waiting)
        self.highest = max(self.highest, each.highest)
        if self.blocks and not self.subscribers:
            self.kept = [item for item in each.waiting if int(item) > self.highest]
        assert each.subscription is not None
        each.subscription.cancel()

    # the laws

    @invariant()
    def nothing_waits_while_there_is_demand(self) -> None:
        assert not any(each.demand and each.waiting for each in self.subscribers)
        assert all(len(each.waiting) <= self.capacity for each in self.subscribers)

    @invariant()
    def the_counters_are_exact(self) -> None:
        now = self.address.statistics()
        everyone = self.subscribers + self.left_with
        assert (now.enqueued, now.unrouted, now.held) == (self.sent, self.unrouted, len(self.kept))
        assert (now.producers, now.credit) == (len(self.producers), self.credit)
        assert self.address._copying.credit._without == [link.outstanding for link in self.producers].count(0)
        assert now.copies == sum(each.arrived for each in everyone)
        assert now.delivered == sum(each.delivered for each in everyone)
        assert now.dropped == sum(each.dropped for each in everyone)
        assert now.abandoned == self.abandoned
        assert now.copies == now.delivered + now.dropped + now.abandoned + now.pending
        assert self.address.tally() == (now.enqueued, now.delivered, now.delivered, 0)
        for model, its in zip(self.subscribers, now.subscribers, strict=True):
            assert its.arrived == model.arrived == its.delivered + its.pending + its.dropped
            assert (its.delivered, its.dropped) == (model.delivered, model.dropped)
            assert (its.pending, its.demand) == (len(model.waiting), model.demand)

    @invariant()
    def credit_reaches_every_producer(self) -> None:
        if not self.producers:
            return
        if self.blocks and self.limit <= 0:
            return
        limit = self.limit if self.blocks else self.capacity
        share = max(1, limit // len(self.producers))
        least = min(link.outstanding for link in self.producers)
        assert least > 0 or (self.blocks and self.credit >= self.capacity), "nobody waits for those who send nothing"
        room = limit - self.credit if self.blocks else share - least
        if room <= 0:
            self.was_full = limit == self.capacity
        elif limit == self.capacity or self.was_full:
            half_used = len(self.producers) == 1 and 2 * least <= share and least < share
            assert not half_used, "what the capacity holds back comes when half is used"
            self.was_full = True
        else:
            assert least >= share, "what subscribers ask for comes at once"
            assert len(self.producers) > 1, "and all of it, if there is only one to give it to"


TestMulticastLaws: Any = pytest.mark.slow(MulticastLaws.TestCase)
TestMulticastLaws.settings = settings(max_examples=100, stateful_step_count=40)
