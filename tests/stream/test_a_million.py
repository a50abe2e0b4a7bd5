"""A million items through a chain of ten stages, asked for one by one from inside `on_next`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

import pytest

from rstreams import Stream
from rstreams.abc import Subscription

ITEMS = 1_000_000
LOOKS = (ITEMS // 10, ITEMS // 2, ITEMS - 1)


def _fused() -> Stream[int]:
    stream = Stream.range(2 * ITEMS)
    stream = stream.map(lambda x: x + 1).filter(lambda x: x % 2).scan(lambda a, x: a ^ x, 0).skip(0).map(lambda x: x)
    return stream.do_on_next(lambda _: None).map(abs).filter(lambda _: True).map(lambda x: x).scan(max, 0)


def _staged() -> Stream[int]:
    stream = Stream.range(ITEMS).take(ITEMS).map(lambda x: x + 1).filter(lambda _: True).scan(lambda a, x: a ^ x, 0)
    return stream.take(ITEMS).concat().merge().map(lambda x: x).do_on_error(print).do_on_complete(lambda: None)


class OneByOne:
    """Asks for one more item inside `on_next`, and looks around now and then."""

    def __init__(self) -> None:
        self.received = 0
        self.completed = False
        self.depths: list[int] = []
        self.blocks: list[int] = []
        self._request: Callable[[int], None]

    def on_subscribe(self, subscription: Subscription) -> None:
        self._request = subscription.request
        subscription.request(1)

    def on_next(self, item: int) -> None:
        del item
        self.received += 1
        if self.received in LOOKS:
            self._look()
        self._request(1)

    def on_error(self, error: BaseException) -> None:
        raise error

    def on_complete(self) -> None:
        self.completed = True

    def _look(self) -> None:
        frame, depth = sys._getframe(), 0
        while frame.f_back is not None:
            frame, depth = frame.f_back, depth + 1
        self.depths.append(depth)
        gc.collect()
        self.blocks.append(sys.getallocatedblocks())


@pytest.mark.slow
@pytest.mark.parametrize("make", [_fused, _staged])
def test_the_stack_stays_flat_and_the_memory_level(make: Callable[[], Stream[int]]) -> None:
    subscriber = OneByOne()
    make().subscribe(subscriber)
    assert subscriber.completed
    assert subscriber.received == ITEMS
    assert len(set(subscriber.depths)) == 1
    grown = subscriber.blocks[-1] - subscriber.blocks[0]
    assert grown < ITEMS // 1000  # a block kept for one item in a hundred would be 9,000; the process wavers by 100
