"""Subscribers of a broadcast that take runs: they get the same items as subscribers that take one at a time."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest

from rstreams import Stream
from rstreams._core.run import Run
from rstreams.abc import Subscription
from rstreams.testing import ProbeSubscriber


class Single:
    """A subscriber that takes one item at a time."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.runs: list[Any] = []
        self.subscription: Any = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def on_next(self, item: object) -> None:
        self.got.append(item)

    def on_error(self, error: BaseException) -> None:
        self.got.append(repr(error))

    def on_complete(self) -> None:
        self.got.append("complete")


class Taking(Single):
    """A subscriber that takes runs."""

    def on_run(self, run: Run[Any]) -> None:
        self.runs.append(run)
        self.got += run.items()


def failing(most: int) -> Any:  # noqa: ANN401 - an iterator
    yield from range(most)
    raise ValueError(most)


@pytest.mark.parametrize("seed", range(60))
def test_runs_show_in_nothing_but_speed(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - to come again, not to be secret
    window, most = random.choice([1, 4, 30, 256]), random.choice([0, 5, 100, 10_000])
    members, fails = random.randint(1, 4), random.random() < 0.3
    script = [
        (random.choices(["request", "leave", "join"], [10, 0.3, 0.3])[0], random.randrange(5), random.randint(1, 60))
        for _ in range(60)
    ]
    worlds = []
    for kind in (Single, Taking):
        source = Stream.from_iterable(failing(most)) if fails else Stream.from_iterable(range(most))
        copies = source.map(lambda item: item + 1).broadcast(subscribers=members, window=window)
        there = [kind() for _ in range(members)]
        for each in there:
            copies.subscribe(each)
        everyone = list(there)
        for what, which, n in script:
            if what == "join":
                there.append(kind() if n % 2 else Single())
                everyone.append(there[-1])
                copies.subscribe(there[-1])
            elif there:
                each = there[which % len(there)]
                if what == "request":
                    each.subscription.request(n)
                else:
                    each.subscription.cancel()
                    there.remove(each)
        worlds.append(everyone)
    single, taking = ([each.got for each in everyone] for everyone in worlds)
    assert single == taking


def test_all_get_the_same_run() -> None:
    copies = Stream.from_iterable(count()).broadcast(subscribers=3)
    members = [Taking() for _ in range(3)]
    for member in members:
        copies.subscribe(member)
        member.subscription.request(100)
    first, second, third = (member.runs for member in members)
    assert [run.size for run in first] == [100]
    assert first[0].made is second[0].made is third[0].made is not None, "what one makes of the items, all have"


def test_a_subscriber_that_takes_single_items_has_the_source_read_no_further_than_it_takes() -> None:
    drawn: list[int] = []
    copies = Stream.from_iterable(count()).do_on_next(drawn.append).broadcast(subscribers=2, window=8)
    single, taking = ProbeSubscriber[int](0, on_item=lambda item: single.cancel() if item == 2 else None), Taking()
    copies.subscribe(single)
    copies.subscribe(taking)
    single.request(6)
    taking.subscription.request(3)
    assert single.items == taking.got == drawn == [0, 1, 2]
    taking.subscription.cancel()
    assert drawn == [0, 1, 2]
