"""Subscribers of a multicast that take runs: they get the same items as subscribers that take one at a time."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Literal

import pytest

from rstreams._core.run import Run
from rstreams.abc import Subscription
from rstreams.message import decode_body, encode_item
from rstreams.node.multicast import MulticastAddress
from rstreams.testing import ProbeSubscriber
from tests.node.test_takers import Link


class Single:
    """A subscriber that takes one item at a time."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.runs: list[int] = []
        self.subscription: Any = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def on_next(self, item: bytes) -> None:
        self.got.append(decode_body(item))

    def on_error(self, error: BaseException) -> None:
        raise AssertionError(error)

    def on_complete(self) -> None:
        raise AssertionError


class Taking(Single):
    """A subscriber that takes runs."""

    def on_run(self, run: Run[bytes]) -> None:
        self.runs.append(run.size)
        self.got += map(decode_body, run.items())


class World:
    """A multicast with its producers and subscribers, to which a script is done."""

    def __init__(self, kind: type[Single], overflow: Literal["block", "drop_oldest"]) -> None:
        self.kind = kind
        self.address: Any = MulticastAddress("m", overflow, capacity=20)
        self.link = Link(self.address)
        self.subscribers = [self.subscriber() for _ in range(3)]
        self.sent = 0

    def subscriber(self) -> Single:
        subscriber = self.kind()
        self.address.subscribe(subscriber)
        return subscriber

    def do(self, what: str, which: int, n: int) -> None:
        subscriber = self.subscribers[which % 3]
        if what == "send":
            self.link.send(*map(encode_item, range(self.sent, self.sent + n)), run=self.kind is Taking)
            self.sent += n
        elif what == "request":
            subscriber.subscription.request(n)
        else:
            subscriber.subscription.cancel()
            self.subscribers[which % 3] = self.subscriber()

    def state(self) -> Any:  # noqa: ANN401 - compared
        now = self.address.statistics()
        assert now.credit == self.link.outstanding <= 20
        return [each.got for each in self.subscribers], replace(now, credit=0)


@pytest.mark.slow
@pytest.mark.parametrize("overflow", ["block", "drop_oldest"])
@pytest.mark.parametrize("seed", range(30))
def test_runs_show_in_nothing_but_speed(seed: int, overflow: Literal["block", "drop_oldest"]) -> None:
    random = Random(seed)  # noqa: S311 - to come again, not to be secret
    worlds = [World(kind, overflow) for kind in (Single, Taking)]
    for _ in range(150):
        (what,) = random.choices(["send", "request", "leave"], [4, 6, 0.3])
        which, n = random.randrange(6), random.randint(1, 25)
        if what == "send":  # a run is topped up once, behind it
            n = min(n, *(world.link.outstanding for world in worlds))
        for world in worlds:
            world.do(what, which, n)
        single, taking = (world.state() for world in worlds)
        assert single == taking
    assert any(runs > 1 for world in worlds for each in world.subscribers for runs in each.runs)


def test_all_get_the_same_run() -> None:
    address: Any = MulticastAddress("m")
    subscribers = [Taking() for _ in range(3)]
    for subscriber in subscribers:
        address.subscribe(subscriber)
        subscriber.subscription.request(10)
    link = Link(address)
    assert link.outstanding == 10
    link.send(*map(encode_item, range(6)), run=True)
    assert [each.runs for each in subscribers] == [[6], [6], [6]]
    assert (address.statistics().delivered, address.statistics().copies) == (18, 18)


def test_a_subscriber_that_raises_in_a_run_loses_its_subscription_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(ProbeSubscriber[bytes]):
        def on_run(self, run: Run[bytes]) -> None:
            raise KeyError(run.size)

    address: Any = MulticastAddress("m")
    broken, after = Broken(9), Taking()
    address.subscribe(broken)
    address.subscribe(after)
    after.subscription.request(9)
    Link(address).send(*map(encode_item, range(4)), run=True)
    assert isinstance(broken.error, KeyError)
    assert "a subscriber raised in on_next" in caplog.text
    assert after.got == [0, 1, 2, 3]
    assert len(address.statistics().subscribers) == 1
