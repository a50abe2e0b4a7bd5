"""Sharing and the push sources for the verification kit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rstreams._stages.stage import Joined
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.operators.broadcast import broadcast
from rstreams.operators.cache import cache
from rstreams.operators.distribute import distribute
from rstreams.operators.map import map as map_
from rstreams.operators.parallel import parallel
from rstreams.operators.partition import partition
from rstreams.operators.publish import publish
from rstreams.operators.replay import replay
from rstreams.operators.share import share
from rstreams.push import EmitResult, Latest, Multicast, Replay, Unicast
from rstreams.sources.fail import fail
from rstreams.sources.from_iterable import from_iterable

T = TypeVar("T")


def _numbers(n: int) -> Publisher[int]:
    return from_iterable(range(n))


def _one_more(items: Publisher[int]) -> Publisher[int]:
    return map_(items, lambda x: x + 1)


def _pushed(pushing: Unicast[int] | Multicast[int] | Replay[int], n: int) -> Publisher[int]:
    """Push `n` numbers, each as soon as a subscriber has room for it, and then the end."""
    sent = 0

    def go_on(_demand: int) -> None:
        nonlocal sent
        while pushing.subscribers and pushing.demand and sent < n:
            sent += 1
            assert pushing.emit(sent) is EmitResult.OK
        if sent == n:
            pushing.complete()

    pushing.on_demand = go_on
    if not n:
        pushing.complete()
    return pushing


def _each_its_own(make: Callable[[], Any]) -> Publisher[Any]:
    """Make anew for every subscriber, where several would not get the same: the kit takes that for a fault."""

    def start(subscriber: Subscriber[Any]) -> Subscription | None:
        publisher = make()
        publisher.subscribe(subscriber)
        return next(iter(publisher.runs()), None)

    return Joined(start)


def _latest(n: int) -> Publisher[int]:
    """Replace the value out of each item's `on_next`, so that none is skipped."""
    value = Latest[int](*range(min(n, 1)))
    if n < 2:
        value.complete()
        return value

    def push(item: int) -> None:
        if item + 1 < n:
            value.emit(item + 1)
        if item + 2 >= n:
            value.complete()

    def start(subscriber: Subscriber[int]) -> Subscription | None:
        value.subscribe(_AfterEach(subscriber, push))
        return next(iter(value.runs()[-1:]), None)

    return Joined(start)


class _AfterEach:
    def __init__(self, subscriber: Subscriber[int], push: Callable[[int], object]) -> None:
        self._push = push
        self._subscriber = subscriber
        self.on_subscribe = subscriber.on_subscribe
        self.on_error = subscriber.on_error
        self.on_complete = subscriber.on_complete

    def on_next(self, item: int) -> None:
        self._subscriber.on_next(item)
        self._push(item)


PROCESSORS: dict[str, Callable[[Publisher[Any]], Publisher[Any]]] = {
    "share": share,
    "share (window=1)": lambda source: _each_its_own(lambda: share(source, window=1)),
    "broadcast": lambda source: _each_its_own(lambda: broadcast(source)),
    "broadcast (window=1)": lambda source: _each_its_own(lambda: broadcast(source, window=1)),
    "publish": lambda source: publish(source).ref_count(),
    "replay": lambda source: _each_its_own(lambda: replay(source, 2).ref_count()),
    "distribute": lambda source: _each_its_own(lambda: distribute(source)),
    "distribute (window=1)": lambda source: _each_its_own(lambda: distribute(source, window=1)),
    "partition": lambda source: _each_its_own(lambda: partition(source, lambda _item: 0, 1)[0]),
    "partition (window=1)": lambda source: _each_its_own(lambda: partition(source, lambda _item: 0, 1, window=1)[0]),
}

PUBLISHERS: dict[str, Callable[[int], Publisher[Any]]] = {
    "publish (auto_connect)": lambda n: publish(_numbers(n)).auto_connect(),
    "replay (auto_connect)": lambda n: replay(_numbers(n), 2**31).auto_connect(),
    "cache": lambda n: cache(_numbers(n)),
    "cache (ack=on_emit)": lambda n: cache(_numbers(n), ack="on_emit"),
    "parallel": lambda n: parallel(_numbers(n), 2, _one_more),
    "parallel (one worker)": lambda n: parallel(_numbers(n), 1, _one_more),
    "Unicast": lambda n: _each_its_own(lambda: _pushed(Unicast(0), n)),
    "Unicast (with capacity)": lambda n: _each_its_own(lambda: _pushed(Unicast(4), n)),
    "Multicast": lambda n: _each_its_own(lambda: _pushed(Multicast(0), n)),
    "Multicast (with capacity)": lambda n: _each_its_own(lambda: _pushed(Multicast(4), n)),
    "Replay": lambda n: _each_its_own(lambda: _pushed(Replay(1, capacity=0), n)),
    "Latest": lambda n: _each_its_own(lambda: _latest(n)),
}

BROKEN = fail(LookupError("failed"))


def _failed(pushing: Unicast[int] | Multicast[int] | Replay[int] | Latest[int]) -> Publisher[int]:
    pushing.fail(LookupError("failed"))
    return pushing


FAILING: dict[str, Callable[[], Publisher[Any]]] = {
    "publish (auto_connect)": lambda: publish(BROKEN).auto_connect(),
    "replay (auto_connect)": lambda: replay(BROKEN, 2).auto_connect(),
    "cache": lambda: cache(BROKEN),
    "cache (ack=on_emit)": lambda: cache(BROKEN, ack="on_emit"),
    "parallel": lambda: parallel(BROKEN, 2, _one_more),
    "parallel (one worker)": lambda: parallel(BROKEN, 1, _one_more),
    "Unicast": lambda: _failed(Unicast(0)),
    "Unicast (with capacity)": lambda: _failed(Unicast(4)),
    "Multicast": lambda: _failed(Multicast(0)),
    "Multicast (with capacity)": lambda: _failed(Multicast(4)),
    "Replay": lambda: _failed(Replay(1)),
    "Latest": lambda: _failed(Latest()),
}
