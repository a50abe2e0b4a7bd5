"""A model of a system of messages, which does only what it promises, and writes the history of that."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

PRODUCERS = ("p", "q")
CONSUMERS = ("c", "d", "e")


class Model:
    """One address "a", kept by the part "node"; what has failed twice goes to "dead", which "f" reads.

    Args:
        seed: Decides everything.
        rough: Whether there are faults and kills.
        copies: Whether each consumer gets each item.
    """

    def __init__(self, seed: int, *, rough: bool, copies: bool) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - a test
        self._rough = rough
        self.events: list[dict[str, Any]] = []
        self._copies = copies
        self._waiting: list[tuple[str, int]] = []  # sent, and not told
        self._queues: dict[str, deque[int]] = {name: deque() for name in (CONSUMERS if copies else [""])}
        self._held: list[tuple[str, int]] = []
        self._unsafe: list[tuple[str, int, str]] = []  # told, and not confirmed
        self._failed: dict[tuple[str, int], int] = {}
        self._stored: set[int] = set()
        self._sent = 0

    def run(self, steps: int) -> list[dict[str, Any]]:
        """Return a history in which so many things happen before all comes to rest."""
        self._note("address", address="a", part="node", dead_letters="dead", attempts=2, copies=self._copies)
        self._note("address", address="dead", part="node", order="none")
        for name in CONSUMERS:
            self._note("subscribed", by=name, address="a")
        calm = [
            self._send,
            self._send,
            self._accept,
            self._accept,
            *[self._deliver] * 4,
            *[self._settle] * 4,
            self._prove,
        ]
        rough = [self._doubt, self._kill_consumer, self._kill_node, self._fail_link]
        for _ in range(steps):
            self._chance.choice(calm + rough if self._rough and self._chance.random() < 0.3 else calm)()
        while self._waiting:
            self._accept()
        while any(self._queues.values()) or self._held:
            self._deliver()
            self._settle()
        self._note("left", address="a", ready=0, unsettled=0)
        self._note("end")
        return self.events

    def _note(self, event: str, **fields: object) -> None:
        self.events.append({"at": len(self.events), "event": event, **fields})

    # producers

    def _send(self) -> None:
        self._sent += 1
        self._begin(self._chance.choice(PRODUCERS), self._sent)

    def _begin(self, by: str, item: int) -> None:
        self._note("sent", by=by, address="a", item=item)
        self._waiting.append((by, item))

    def _accept(self) -> None:
        if self._waiting:
            by, item = self._waiting.pop(0)
            if self._chance.random() < 0.1:
                self._note("refused", by=by, address="a", item=item, condition="full")
                return
            self._store(item)
            self._note("accepted", by=by, address="a", item=item)

    def _doubt(self) -> None:
        """A producer loses its connection: the first item that waits is there or not, and sent again or not."""
        if self._waiting:
            by, item = self._waiting.pop(0)
            if self._chance.random() < 0.5:
                self._store(item)
            self._note("unknown", by=by, address="a", item=item)
            if self._chance.random() < 0.5:
                self._begin(by, item)

    def _store(self, item: int) -> None:
        for queue in self._queues.values():
            queue.append(item)

    # consumers

    def _deliver(self) -> None:
        by = self._chance.choice(CONSUMERS)
        queue = self._queues[by if self._copies else ""]
        if queue and not any(item == queue[0] for _, item in self._held):
            item = queue.popleft()
            self._note("got", by=by, address="a", item=item)
            self._held.append((by, item))

    def _settle(self) -> None:
        if not self._held:
            return
        by, item = self._held.pop(self._chance.randrange(len(self._held)))
        key = (by if self._copies else "", item)
        what = self._chance.choices(["done", "failed", "released"], [8, 1, 1])[0]
        self._note(what, by=by, address="a", item=item)
        if what == "released":
            self._queues[key[0]].appendleft(item)
            return
        self._unsafe.append((by, item, what))
        if what == "failed":
            self._failed[key] = self._failed.get(key, 0) + 1
            if self._failed[key] < 2:
                self._queues[key[0]].appendleft(item)
            else:
                self._note("got", by="f", address="dead", item=item)
                self._note("done", by="f", address="dead", item=item)

    def _prove(self) -> None:
        while self._unsafe:
            by, item, what = self._unsafe.pop(0)
            if what == "done" and (by, item) not in self._held:
                self._note("confirmed", by=by, address="a", item=item)

    # what may happen at any time

    def _kill_consumer(self) -> None:
        by = self._chance.choice(CONSUMERS)
        self._note("killed", part=by)
        self._give_back([each for each in self._held if each[0] == by])
        self._unsafe = [each for each in self._unsafe if each[0] != by]
        self._note("started", part=by)

    def _kill_node(self) -> None:
        self._note("killed", part="node")
        self._forget()
        self._note("started", part="node")

    def _fail_link(self) -> None:
        self._note("fault", name="cut")
        self._forget()
        self._note("healed", name="cut")

    def _forget(self) -> None:
        """What consumers have is there again, and some of what they have told, too."""
        self._give_back(self._held)
        again = [each for each in self._unsafe if each[2] == "done" and self._chance.random() < 0.5]
        self._unsafe = []
        self._give_back([(by, item) for by, item, _ in again])

    def _give_back(self, which: list[tuple[str, int]]) -> None:
        gone = set(which)
        self._held = [each for each in self._held if each not in gone]
        for by, item in sorted(gone, key=lambda each: each[1], reverse=True):
            self._queues[by if self._copies else ""].appendleft(item)
