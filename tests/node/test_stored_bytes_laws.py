"""The bytes that are counted are those that are there, whatever messages a queue has and however they leave it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import pytest

from rstreams.abc import Hold
from rstreams.errors import DeliveryFailed
from rstreams.message import Message, encode_item
from rstreams.node.address import NodeServices
from rstreams.node.consumer import Consumer
from rstreams.node.disk_storage import DiskStorage
from rstreams.node.lifetime import QueueClock
from rstreams.node.limits import WhenFull
from rstreams.node.memory_room import MemoryRoom
from rstreams.node.queue import Queue
from rstreams.node.redelivery import Attempts, RedeliveryDelay
from rstreams.node.stored_bytes import StoredBytes
from rstreams.node.stored_message import Stored
from rstreams.node.temporary import ReplyQueue
from rstreams.testing import ManualPublisher
from tests.node.durable import KINDS, Bench, of_kind
from tests.node.queues import Taker
from tests.seeds import seeds

STEPS: Final = 50
POLICIES: Final[tuple[WhenFull, ...]] = ("block", "reject", "drop_oldest", "drop_newest")


class Holding(Taker):
    """A consumer that holds what it gets."""

    def __init__(self) -> None:
        self.held: list[tuple[Stored, Hold]] = []

    def take(self, item: bytes, hold: Hold) -> None:  # noqa: ARG002 - the queue says more of it
        assert isinstance(self.subscription, Consumer)
        assert self.subscription.message is not None
        self.held.append((self.subscription.message, hold))


class Played:
    """A queue and its dead letters, with producers and consumers, in a node."""

    def __init__(self, chance: random.Random, kind: str, dead_kind: str, path: Path) -> None:
        self.chance, self.kind, self.dead_kind = chance, kind, dead_kind
        self.when_full = chance.choice(POLICIES if "backlog" not in kind else POLICIES[2:])
        self.now = 0.0
        self.here = Bench(path)
        self.lives = 0
        self.about: set[Queue] = (
            set()
        )  # those of which the store has counted some runs whole, and not message by message
        self.open()

    def open(self) -> None:
        """Have the addresses, as they are in the store or anew."""
        self.total = StoredBytes()
        clock = QueueClock(lambda: self.now)
        self.dead = (
            None if self.dead_kind == "none" else of_kind(self.here, self.dead_kind, "block", 6, None, name="dead")
        )
        self.queue: Queue
        if self.kind == "replies":
            self.queue = ReplyQueue("q", self.total)
        else:
            attempts = Attempts(max_deliveries=3, redelivery=RedeliveryDelay(self.chance.choice((0.0, 2.0))))
            options: dict[str, Any] = {"dead_letters": self.dead, "attempts": attempts, "clock": clock}
            self.queue = of_kind(self.here, self.kind, self.when_full, 12, 3000, **options)
        services = NodeServices(lambda: self.now, lambda _: None, lambda *_: None, lambda _: None, stored=self.total)
        for each in self.queues:
            if each is not self.queue or self.kind != "replies":
                each.begin(services)
        self.link = ManualPublisher[bytes]()
        self.link.subscribe(self.queue.producer())
        self.takers = {each: [Holding(), Holding()] for each in self.queues}
        for each, takers in self.takers.items():
            for taker in takers:
                each.subscribe(taker)

    @property
    def queues(self) -> list[Queue]:
        return [self.queue] if self.dead is None else [self.queue, self.dead]

    def step(self) -> None:
        """Do one thing."""
        steps = [self.send, self.send, self.send, self.request, self.request, self.settle, self.settle, self.settle]
        steps += [self.wait, self.leave, self.change, self.start_again]
        self.chance.choice(steps)()

    def send(self) -> None:
        run = []
        for _ in range(min(self.chance.randint(1, 8), self.link.outstanding)):
            body, ttl_s = bytes(self.chance.choice((0, 1, 50, 400))), self.chance.choice((None, None, 5.0))
            run.append(encode_item(Message(body, ttl_s=ttl_s)))
        self.link.next(*run)
        if isinstance(self.queue, ReplyQueue):
            self.queue.store_now(encode_item(Message("reply", ttl_s=self.chance.choice((None, 5.0)))))

    def drawn_taker(self) -> Holding:
        return self.chance.choice([taker for takers in self.takers.values() for taker in takers])

    def request(self) -> None:
        taker = self.drawn_taker()
        assert taker.subscription is not None
        taker.subscription.request(self.chance.randint(1, 6))

    def settle(self) -> None:
        taker = self.drawn_taker()
        for _ in range(self.chance.randint(0, len(taker.held))):
            _, hold = taker.held.pop(self.chance.randrange(len(taker.held)))
            annotations = {"x-why": "x" * self.chance.randint(0, 300)}
            match self.chance.choice(("accept", "accept", "release", "fail", "reject", "annotate", "fail, annotate")):
                case "accept":
                    hold.done()
                case "release":
                    hold.release()
                case "fail":
                    hold.fail(ValueError())
                case "reject":
                    hold.fail(DeliveryFailed("rejected"))
                case how:
                    hold.fail(DeliveryFailed("modified", delivery_failed="fail" in how, annotations=annotations))

    def wait(self) -> None:
        self.now += self.chance.choice((0.5, 2.0, 7.0))
        for each in self.queues:
            each.expire()

    def leave(self) -> None:
        """Have a consumer go; another one comes."""
        each = self.chance.choice(self.queues)
        taker, self.takers[each] = self.takers[each][0], [*self.takers[each][1:], Holding()]
        assert taker.subscription is not None
        taker.subscription.cancel()
        for _, hold in taker.held:
            hold.release()
        each.subscribe(self.takers[each][-1])

    def change(self) -> None:
        """Have the subscriber of a backlog come or go: while it is there nothing is dropped."""
        if "backlog" in self.kind:
            intake = self.queue.intake
            intake.when_full = "block" if intake.when_full != "block" else self.when_full
            self.queue.dispatch()

    def start_again(self) -> None:
        """Kill the node, and start it again, if all it has is on the disk."""
        if all(each.storage.durable for each in self.queues) and self.chance.random() < 0.5:
            self.lives += 1
            before, self.here = self.here, self.here.killed(self.here.path.with_name(f"life-{self.lives}"))
            before.close()
            self.open()
            self.about = set(self.queues)

    def check(self) -> None:
        """Compare what is counted with what is there."""
        self.here.run()
        for each in self.queues:
            told = each.statistics()
            assert each.tally().missing == 0
            if each.storage.durable:
                there = self.on_disk(each)
                if not told.on_disk:
                    self.about.discard(each)
                assert told.size_bytes >= there
                assert told.size_bytes == there or each in self.about
            elif not told.leaving:  # nobody but the queue knows the letters that are on their way
                assert told.size_bytes == self.in_memory(each)
        counted = [each for each in self.queues if isinstance(each.storage.room, MemoryRoom)]
        assert self.total.size == sum(each.statistics().size_bytes for each in counted)

    def in_memory(self, queue: Queue) -> int:
        backlog = queue.storage.backlog
        waiting = [*backlog.fresh, *backlog.returned, *backlog.delayed]
        held = [message for taker in self.takers[queue] for message, _ in taker.held]
        return sum(len(each if isinstance(each, bytes) else each.encoded) for each in [*waiting, *held])

    def on_disk(self, queue: Queue) -> int:
        assert isinstance(queue.storage, DiskStorage)
        chunk, found = self.here.read(queue.storage._partition), 0
        for position, encoded in chunk:
            note = chunk.notes.get(position, bytes(4)) if position in queue.storage._present else bytes(4)
            found += len(note[4 + int.from_bytes(note[:4], "little") :] or encoded)
        return found

    def end(self) -> None:
        """Have everything leave."""
        if self.dead is not None:
            self.dead.storage.limits = type(self.dead.storage.limits)()
        for _ in range(100):
            self.now += 10.0
            for each in self.queues:
                each.expire()
            for taker in [taker for takers in self.takers.values() for taker in takers]:
                assert taker.subscription is not None
                taker.subscription.request(100)
                held, taker.held = taker.held, []
                for _, hold in held:
                    hold.done()
            self.here.run()
            if not any(each.storage.room.stored for each in self.queues):
                break
        assert [each.statistics().size_bytes for each in self.queues] == [0] * len(self.queues)
        assert self.total.size == 0
        self.here.close()


@pytest.mark.parametrize("seed", seeds(8, quick=1))
@pytest.mark.parametrize("dead_kind", ["none", "in memory", "durable"])
@pytest.mark.parametrize("kind", [*KINDS, "replies"])
def test_what_is_counted_is_what_is_there(tmp_path: Path, kind: str, dead_kind: str, seed: int) -> None:
    chance = random.Random(f"{kind} {dead_kind} {seed}")  # noqa: S311 - a choice
    played = Played(chance, kind, dead_kind if kind != "replies" else "none", tmp_path / "life-0")
    for _ in range(STEPS):
        played.step()
        if chance.random() < 0.5:
            played.check()
    played.end()
