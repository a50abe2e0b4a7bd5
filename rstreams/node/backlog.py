"""The messages of a queue that wait for a consumer, in their order."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Collection
from itertools import accumulate, chain, islice
from typing import Final

from rstreams import _machine
from rstreams.node.arrivals import Arrivals
from rstreams.node.browser import Browser
from rstreams.node.consumer import Consumer
from rstreams.node.redelivery import Delayed
from rstreams.node.stored_message import Lasting, Stored, is_gone

_MOST_LOOKED_AT: Final = 256
"""How many of the messages that have failed are looked at for the most failures."""


class Backlog:
    """Fresh messages, and messages that consumers have given back. All of the latter come first.

    Attributes:
        fresh: Messages that no consumer has had, the oldest first: bytes, or a `Lasting` if it can be too old.
        returned: A heap of messages that were given back.
        delayed: Messages that wait for their next attempt; they are not ready.
        taken: How many messages have been taken from the fresh ones. It is the sequence number of the last of them.
        gone: How many of the waiting messages have left the queue already; they are passed over.
        arrivals: When fresh messages came, by their numbers, and by the clock of the machine.
        failing: The messages of the queue of which an attempt has failed, wherever they are.
    """

    __slots__ = ("arrivals", "delayed", "failing", "fresh", "gone", "returned", "taken")

    def __init__(self) -> None:
        self.fresh: deque[bytes | Lasting] = deque()
        self.returned: list[Stored] = []
        self.delayed = Delayed()
        self.taken = 0
        self.gone = 0
        self.arrivals = Arrivals()
        self.failing: dict[Stored, None] = {}

    def __len__(self) -> int:
        """Return how many messages are in it, with those that are gone."""
        return len(self.fresh) + len(self.returned)

    @property
    def ready(self) -> int:
        """How many messages wait."""
        return len(self) - self.gone

    @property
    def oldest_s(self) -> float:
        """The age of the oldest message that waits, about, in seconds; 0 if none does."""
        now, times = _machine.monotonic(), []
        returned = [each for each in self.returned if not is_gone(each)] if self.gone else self.returned
        if returned:
            times.append(min(returned).came_at if self.gone else returned[0].came_at)
        if self.fresh:
            gone = next((at for at, each in enumerate(self.fresh) if not is_gone(each)), None) if self.gone else 0
            if gone is not None:
                times.append(self.arrivals.time_of(self.taken + 1 + gone, now))
        return max(0.0, now - min(times, default=now))

    @property
    def most_failures(self) -> int:
        """The most failed attempts of a message; of very many that have failed only the first ones are looked at."""
        return max((each.failures for each in islice(self.failing, _MOST_LOOKED_AT)), default=0)

    def note_arrival(self) -> None:
        """Note that messages came just now, and some wait."""
        now, arrivals, end = _machine.monotonic(), self.arrivals, self.taken + len(self.fresh) + 1
        if now < arrivals.due and end > arrivals.end:
            arrivals.end = end  # as `note` does; a further call costs more
        else:
            arrivals.note(end, now)

    def came_at(self, message: Stored) -> float:
        """Return when a message came that has been handed out; if it has never waited, now."""
        if message.came_at < math.inf:
            return message.came_at
        return self.arrivals.time_of(message.sequence, _machine.monotonic())

    def put_back(self, message: Stored) -> None:
        """Have a message wait in its old place."""
        heapq.heappush(self.returned, message)
        if isinstance(message, Lasting):
            message.ready = True

    def take_for(self, consumer: Consumer, lives: Callable[[Lasting], bool]) -> Stored | None:
        """Take out the first message that may be handed to `consumer`.

        Args:
            consumer: The consumer.
            lives: Tells whether a message with a deadline is not too old; if it is too old, it leaves the queue.
        """
        returned, fresh = self.returned, self.fresh
        others: list[Stored] = []
        found: Stored | None = None
        while found is None and returned:
            message = heapq.heappop(returned)
            if consumer in message.undeliverable_to:
                others.append(message)
            elif not isinstance(message, Lasting) or lives(message):
                found = message
        for message in others:
            heapq.heappush(returned, message)
        while found is None and fresh:
            entry = fresh.popleft()
            self.taken += 1
            if not isinstance(entry, Lasting):
                return Stored(self.taken, entry)
            entry.sequence = self.taken
            if lives(entry):
                found = entry
        return found

    def take_first(self) -> Stored:
        """Take out the first message, whoever may have it; there must be one."""
        if self.returned:
            return heapq.heappop(self.returned)
        entry = self.fresh.popleft()
        self.taken += 1
        return entry if isinstance(entry, Lasting) else Stored(self.taken, entry)

    def count_alive(self, most: int, now: float) -> int:
        """Return how many of the first `most` fresh messages come before one that is too old."""
        entries = enumerate(islice(self.fresh, most))
        too_old = (at for at, entry in entries if isinstance(entry, Lasting) and not entry.lives(now))
        return next(too_old, most)

    def take_fresh(self, count: int) -> list[bytes | Lasting]:
        """Take out the first `count` fresh messages; none of them is too old."""
        take = self.fresh.popleft
        self.taken += count
        return [take() for _ in range(count)]

    def after(self, position: int, most: int, now: float) -> list[tuple[int, bytes]]:
        """Return the first messages behind a position, each with its own position, for a browser.

        Args:
            position: The position.
            most: How many messages at most.
            now: The time; messages that are too old by then are left out.
        """
        found: list[tuple[int, bytes]] = []
        if position < self.taken:
            old = (each for each in chain(self.returned, self.delayed) if each.sequence > position)
            alive = (each for each in old if not isinstance(each, Lasting) or each.lives(now))
            found = [(each.sequence, each.as_sent()) for each in heapq.nsmallest(most, alive)]
        start = max(position - self.taken, 0)
        for at, entry in enumerate(islice(self.fresh, start, None), self.taken + start + 1):
            if len(found) >= most:
                break
            if not isinstance(entry, Lasting):
                found.append((at, entry))
            elif entry.lives(now):
                found.append((at, entry.encoded))
        return found

    def has_after(self, position: int, now: float) -> bool:
        """Tell whether `after` would find a message; it does not walk through those before the position."""
        if position < self.taken:
            return bool(self.after(position, 1, now))
        for at in range(position - self.taken, len(self.fresh)):
            entry = self.fresh[at]
            if not isinstance(entry, Lasting) or entry.lives(now):
                return True
        return False

    def forget_gone(self, browsers: Collection[Browser]) -> None:
        """Drop the messages that have left the queue, if they are many; browsers behind them move up with the rest."""
        if self.gone <= 64 + len(self) // 2:
            return
        for browser in browsers:
            passed = islice(self.fresh, max(browser.position - self.taken, 0))
            browser.position -= sum(map(is_gone, passed))
        gone = [*accumulate(map(is_gone, self.fresh), initial=0)]  # how many are so before each place
        first, last = self.taken + 1, len(self.fresh)
        self.arrivals.renumber(lambda number: number - gone[min(max(number - first, 0), last)])
        alive = [each for each in self.fresh if not is_gone(each)]
        self.fresh.clear()
        self.fresh.extend(alive)
        self.returned[:] = [each for each in self.returned if not is_gone(each)]
        heapq.heapify(self.returned)
        self.gone = 0
