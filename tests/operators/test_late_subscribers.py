"""Subscribers that come, ask, and leave at any time of a shared run: random histories against a model.

The model knows what the source has sent, and when each subscriber came: `publish` and `share` promise the items from
then on, `replay(n)` and `cache` the last n or all items before, too. Items that nobody has got wait for the next one.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rstreams import operators
from rstreams.testing import ManualPublisher
from rstreams.testing.virtual_scheduler import virtual_time
from tests.operators.strict import Strict


class Late(Strict):
    """A subscriber that may have come late: it never gets the first `missed` items."""

    def __init__(self, history: History, missed: int) -> None:
        super().__init__(history.random, requests=(0, 0, 1, 2, 5))
        self.history = history
        self.missed = missed

    def act(self) -> None:
        assert not self.left, "an item behind a cancel"
        self.history.note_read()
        what = self.history.random.random()
        if what < 0.4:
            self.request(self.history.random.randint(1, 3))
        elif what < 0.45:
            self.leave()
        elif what < 0.55:
            self.history.step()

    @property
    def next_item(self) -> int:
        return self.missed + len(self.got) + 1

    def leave(self) -> None:
        if self.here and (self.history.kind != "share" or len(self.history.here) > 1):  # the last one ends its run
            self.history.note_read()
            super().leave()


class History:
    """One random history of a source and its subscribers."""

    def __init__(self, kind: str, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - a history
        self.kind = kind
        self.kept = {"publish": 0, "share": 0, "replay": self.random.randint(1, 4), "cache": 10**6}[kind]
        self.source = ManualPublisher[int]()
        window = self.random.randint(1, 4)
        self.begun = False
        self.shared: Any
        if kind == "replay":
            self.shared = operators.replay(self.source, self.kept, window=window)
        elif kind == "cache":
            self.shared = operators.cache(self.source)
        else:
            self.shared = getattr(operators, kind)(self.source, window=window)
        self.sent = 0
        self.ended: object = None
        self.members: list[Late] = []
        self.depth = 0
        self.read = 0  # all who were there have got so many items; others wait for the next one if nobody is there

    def step(self) -> None:
        if self.depth > 3:
            return
        self.depth += 1
        what = self.random.choice(["join", "request", "request", "next", "next", "next", "connect", "leave", "end"])
        getattr(self, what)()
        self.depth -= 1

    @property
    def here(self) -> list[Late]:
        return [member for member in self.members if member.here]

    def note_read(self) -> None:
        if self.here:
            self.read = max(self.read, min(member.next_item for member in self.here) - 1)

    def join(self) -> None:
        if len(self.members) == 6 or (self.kind == "share" and self.ended):
            return
        self.note_read()
        missed = max(0, self.sent - self.kept)
        if not self.here:
            missed = min(missed, self.read)
        member = Late(self, missed)
        self.members.append(member)
        self.shared.subscribe(member)

    def request(self) -> None:
        if self.members:
            self.random.choice(self.members).request(self.random.randint(1, 4))

    def next(self) -> None:
        if self.source.outstanding > 0 and self.ended is None and not self.source.cancelled:
            self.sent += 1
            self.source.next(self.sent)

    def connect(self) -> None:
        if self.kind in ("publish", "replay"):
            self.shared.connect()

    def leave(self) -> None:
        if self.members and self.random.random() < 0.3:
            self.random.choice(self.members).leave()

    def end(self) -> None:
        if (
            self.ended is None
            and self.random.random() < 0.15
            and self.source.subscriptions
            and not self.source.cancelled
        ):
            self.ended = LookupError() if self.random.random() < 0.5 else "complete"
            if isinstance(self.ended, str):
                self.source.complete()
            else:
                self.source.error(self.ended)

    @property
    def may_lose(self) -> bool:
        """Whether a subscriber that has never requested gets an error before the kept items (1.4)."""
        return self.kind in ("publish", "share") and isinstance(self.ended, LookupError)

    def check(self) -> None:
        for member in self.members:
            assert member.got == list(range(member.missed + 1, member.next_item)), "in order, from where it came"
        if self.kind != "share":
            self.connect()
        for _ in range(30):
            for member in self.members:
                member.request(3)
            if self.ended is None and self.source.outstanding > 0 and self.sent < 60:
                self.next()
        if self.ended is None and self.source.subscriptions and not self.source.cancelled:
            self.ended = "complete"
            self.source.complete()
        for member in self.members:
            assert not member.wrong
            if not member.left and self.source.subscriptions:
                assert member.end is self.ended
                assert member.next_item == self.sent + 1 or (self.may_lose and not member.got)


@pytest.mark.parametrize("kind", ["publish", "replay", "cache", "share"])
def test_a_subscriber_gets_what_the_page_says(kind: str) -> None:
    for seed in range(60):
        with virtual_time():
            history = History(kind, seed)
            for _ in range(60):
                history.step()
            history.check()
