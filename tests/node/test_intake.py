"""Queues that drop or reject, against a model: what they keep is within their limits, whatever comes in what bursts."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest

from rstreams.abc import Hold
from rstreams.errors import DeliveryFailed, LinkDetached
from rstreams.message import decode_message, encode_item
from rstreams.node.address import LinkRequest
from rstreams.node.disk_storage import DiskStorage
from rstreams.node.limits import WhenFull
from rstreams.node.memory_storage import MemoryStorage
from rstreams.node.multicast import MulticastAddress
from rstreams.node.named_subscriptions import BacklogOptions
from rstreams.node.queue import Queue
from rstreams.protocol.frames import Attach, Role
from rstreams.testing import ManualPublisher
from tests.node.durable import KINDS, bench, of_kind
from tests.node.queues import Taker
from tests.seeds import seeds

STEPS = 30


@dataclass
class Model:
    """What a queue has, by the words of the guide: the sizes of messages by their numbers."""

    policy: str
    items: int | None
    size: int | None
    sizes: dict[int, int] = field(default_factory=dict)
    ready: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    demand: int = 0
    dropped: int = 0
    refused: int = 0

    def bytes_here(self) -> int:
        return sum(self.sizes[number] for number in [*self.ready, *self.held])

    def has_room(self, messages: int = 0, size: int = 0) -> bool:
        messages += len(self.ready) + len(self.held)
        return (self.items is None or messages <= self.items) and (
            self.size is None or self.bytes_here() + size <= self.size
        )

    def come(self, burst: list[bytes]) -> None:
        for message in burst:
            number = number_of(message)
            self.sizes[number] = len(message)
            if self.policy == "drop_oldest" or self.has_room(1, len(message)):
                self.ready.append(number)
            elif self.policy == "reject":
                self.refused += 1
            else:
                self.dropped += 1
        self.hand_over()

    def hand_over(self) -> None:
        taken, self.ready = self.ready[: self.demand], self.ready[self.demand :]
        self.demand -= len(taken)
        self.held += taken
        while self.policy == "drop_oldest" and self.ready and not self.has_room():
            del self.ready[0]
            self.dropped += 1

    def settle(self, number: int, *, accept: bool) -> None:
        self.held.remove(number)
        if not accept:
            self.ready = sorted([*self.ready, number])
        self.hand_over()


class Holding(Taker):
    """A consumer that holds what it gets."""

    def __init__(self) -> None:
        self.held: dict[int, Hold] = {}

    def take(self, item: bytes, hold: Hold) -> None:
        self.held[number_of(item)] = hold


def cases() -> Iterator[tuple[str, WhenFull, tuple[int | None, int | None]]]:
    policies: tuple[WhenFull, ...] = ("drop_oldest", "drop_newest", "reject")
    for case in product(KINDS, policies, ((10, None), (None, 900), (8, 700))):
        kind, policy, _ = case
        if not ("backlog" in kind and policy == "reject"):
            yield case


def number_of(item: bytes) -> int:
    number: int = decode_message(item).body[0]
    return number


def subscriber_of(queue: Queue, kind: str) -> Any:  # noqa: ANN401
    return queue.producer(once="backlog" in kind)


@pytest.mark.parametrize("seed", seeds(2, quick=1))
@pytest.mark.parametrize(("kind", "policy", "limits"), list(cases()))
def test_bursts_against_a_model(
    tmp_path: Path, kind: str, policy: WhenFull, limits: tuple[int | None, int | None], seed: int
) -> None:
    chance = random.Random(f"{kind} {policy} {limits} {seed}")  # noqa: S311 - a choice
    with bench(tmp_path) as here:
        queue = of_kind(here, kind, policy, *limits, sync_s=math.inf)
        model, taker, sent = Model(policy, *limits), Holding(), 0
        queue.subscribe(taker)
        links = [ManualPublisher[bytes]() for _ in range(1 if "backlog" in kind else 3)]
        for link in links:
            link.subscribe(subscriber_of(queue, kind))
        assert taker.subscription is not None
        for _ in range(STEPS):
            what = chance.choice(("send", "send", "send", "request", "settle"))
            if what == "send":
                link = chance.choice(links)
                burst = [
                    encode_item([sent + at, bytes(chance.choice((0, 1, 50, 250)))])
                    for at in range(chance.randint(1, 40))
                ]
                del burst[link.outstanding :]
                sent += len(burst)
                link.next(*burst)
                model.come(burst)
            elif what == "request":
                n = chance.randint(1, 6)
                taker.subscription.request(n)
                model.demand += n
                model.hand_over()
            elif taker.held:
                number = chance.choice(list(taker.held))
                hold, accept = taker.held.pop(number), chance.random() < 0.6
                (hold.done if accept else hold.release)()
                model.settle(number, accept=accept)
            here.run()
            check(queue, model, taker)
        outcomes = [outcome for link in links for outcome in link.outcomes]
        assert outcomes.count("done") == sent - model.refused
        assert outcomes.count("failed") == model.refused
        errors = [error for link in links for error in link.errors if error is not None]
        assert all(
            isinstance(each, DeliveryFailed) and each.condition == "amqp:resource-limit-exceeded" for each in errors
        )
        here.run()  # what was dropped last
        again = here.killed(tmp_path / "again")
        if isinstance(queue.storage, DiskStorage):
            kept = again.read(again.store.partition(queue.storage._partition.name))
            found = {number_of(message) for _, message in kept}
            assert found == {*model.ready, *model.held}, "on the disk"
        again.close()


def check(queue: Queue, model: Model, taker: Holding) -> None:
    now = queue.statistics()
    assert sorted(taker.held) == sorted(model.held)
    assert (now.ready, now.unsettled) == (len(model.ready), len(model.held))
    assert (now.dropped, now.refused) == (model.dropped, model.refused)
    assert now.size_bytes == model.bytes_here()


class Link:
    """The link of a named subscription."""

    def take_away(self, error: LinkDetached) -> None:
        raise AssertionError(error)

    def answer(self, error: object) -> None:
        raise AssertionError(error)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("policy", ["drop_oldest", "drop_newest"])
@pytest.mark.parametrize("limits", [(8, None), (None, 900), (8, 700)])
def test_a_multicast_that_blocks_drops_nothing_of_an_attached_subscription(
    limits: tuple[int | None, int | None], policy: Literal["drop_oldest", "drop_newest"], seed: int
) -> None:
    chance = random.Random(f"{policy} {limits} {seed}")  # noqa: S311 - a choice
    options = BacklogOptions(items=limits[0], size=limits[1], when_full=policy)
    multicast = MulticastAddress("m", "block", 64, options)
    request = LinkRequest(Attach("billing", Role.RECEIVER, "m", None, expiry="never"), "shop")
    supply = multicast.supply(request)
    assert supply.named is not None
    link = Link()
    supply.named.taken_by(link)
    taker, sent = Holding(), 0
    supply.publisher.subscribe(taker)
    publishers = [ManualPublisher[bytes]() for _ in range(3)]
    for publisher in publishers:
        publisher.subscribe(multicast.producer())
    assert taker.subscription is not None
    for _ in range(200):
        publisher = chance.choice(publishers)
        for _ in range(min(publisher.outstanding, chance.randint(0, 20))):
            publisher.next(encode_item([sent, bytes(chance.choice((0, 1, 50, 250, 2000)))]))
            sent += 1
        [named] = multicast.statistics().named
        assert (named.dropped, named.arrived) == (0, sent)
        taker.subscription.request(chance.randint(1, 4))
        for number in list(taker.held):
            if chance.random() < 0.8:
                taker.held.pop(number).done()
    assert sent > 100, "and it goes on"
    taker.subscription.cancel()
    supply.named.left_by(link, for_good=False)
    publishers[0].next(*(encode_item([sent + at, b""]) for at in range(publishers[0].outstanding)))
    for hold in list(taker.held.values()):
        hold.release()
    backlog = multicast.named.all[0].backlog
    room = backlog.storage.room
    fits = backlog.storage.limits.hold(room.stored, room.size)
    assert fits or (policy == "drop_newest" and room.stored == 1), "it is away: only what came before may be too large"


@pytest.mark.parametrize("first", [1, 5000])
def test_a_limit_in_bytes_never_stops_a_queue_that_is_empty(tmp_path: Path, first: int) -> None:
    with bench(tmp_path) as here:
        queue = here.queue(capacity=None, capacity_bytes=1000, sync_s=math.inf)
        taker = Holding()
        queue.subscribe(taker)
        assert taker.subscription is not None
        taker.subscription.request(1000)
        links = [ManualPublisher[bytes]() for _ in range(2)]
        for link in links:
            link.subscribe(queue.producer())
        assert [link.outstanding for link in links] == [1, 1], "nobody knows how large the messages are"
        for at in range(8):
            ready = [each for each in links if each.outstanding]
            assert ready, f"message {at} cannot come"
            ready[0].next(encode_item([at, bytes(first if at < 4 else 5000)]))
            here.run()
            for number in list(taker.held):
                taker.held.pop(number).done()
            here.run()
            assert (queue.statistics().size_bytes, queue.statistics().ready) == (0, 0)


@pytest.mark.parametrize("policy", ["reject", "drop_newest", "drop_oldest"])
@pytest.mark.parametrize("durable", [False, True])
def test_a_full_queue_that_holds_nobody_back_says_that_it_is_full(
    policy: Literal["reject", "drop_newest", "drop_oldest"], *, durable: bool, tmp_path: Path
) -> None:
    with bench(tmp_path / "s") as at:
        if durable:
            queue: Queue = at.queue(capacity=3, when_full=policy)
        else:
            queue = Queue("q", MemoryStorage(3), policy)
        link = ManualPublisher[bytes]()
        link.subscribe(queue.producer())
        for count in range(1, 6):
            link.next(encode_item(count))
            at.run()
            assert ("is full" in queue.explain()) is (count >= 3), queue.explain()
        assert "wait" not in queue.explain()
