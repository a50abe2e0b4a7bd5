"""Stages with several tasks or streams signal one after the other: random schedules over trio and over asyncio."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from rstreams.abc import Publisher
from rstreams.testing import ManualPublisher
from tests.loops import Loop, over_both_loops
from tests.operators.strict import Strict


class Asking(Strict):
    """A subscriber that asks for more in nearly each `on_next`, and seldom leaves there."""

    def act(self) -> None:
        what = self._random.random()
        if what < 0.9:
            self.request(self._random.choice([1, 1, 1, 2]))
        elif what < 0.91:
            self.leave()


class Schedule:
    """A pipeline, what its functions and sources do, and when: all at random, from a seed."""

    def __init__(self, on: Loop, seed: int) -> None:
        self.on = on
        self.random = Random(seed)  # noqa: S311 - a schedule
        self.errors = self.random.random() < 0.8

    def fails(self) -> bool:
        return self.errors and self.random.random() < 0.12

    async def work(self, item: Any) -> Any:  # noqa: ANN401
        for _ in range(self.random.choice([0, 0, 0, 0, 1, 2, 5])):
            await self.on.checkpoint()
        if self.random.random() < 0.2:
            await self.on.sleep(self.random.choice([0.001, 0.002]))
        if self.fails():
            raise LookupError
        return item

    def plain(self, item: Any) -> Any:  # noqa: ANN401
        if self.fails():
            raise KeyError
        return item

    def source(self, size: int = 12) -> Any:  # noqa: ANN401
        kind = self.random.choice([0, 1, 2, 2, 2, 2, 2, 2, 3, 4, 5])
        stream = self.on.Stream
        if kind == 0:
            return stream.range(size).map(self.plain)
        if kind == 1:
            return stream.range(size).concat(stream.fail(ValueError()))
        if kind == 2:
            return stream(self.answering(size))
        if kind == 3:
            return stream.range(size).map(self.plain).flat_map(stream.of, concurrency=2)
        if kind == 4:
            return stream.range(size).map_async(self.work, concurrency=3)
        return stream.merge(stream.range(size // 2), stream.range(size // 2).map(self.plain))

    def answering(self, size: int) -> Publisher[int]:
        """A publisher that answers a request inside of it, with some of the items, and its end."""
        left = list(range(size))
        asked, answering = 0, False

        def answer(n: int) -> None:
            nonlocal asked, answering
            asked += n
            if answering:
                return  # 3.3
            answering = True
            while asked and left and not publisher.cancelled:
                asked -= 1
                publisher.next(left.pop(0))
                if self.fails():
                    left.clear()
                    publisher.error(OSError())
                    return
            answering = False
            if not left:
                publisher.complete()

        publisher = ManualPublisher[int](answer)
        return publisher

    def inner(self, item: Any) -> Any:  # noqa: ANN401
        kind = self.random.randrange(5)
        stream = self.on.Stream
        if kind == 0:
            return stream.from_callable(lambda: self.work(item))
        if kind == 1:
            return stream.of(item, item)
        if kind == 2:
            return stream.empty()
        if kind == 3:
            return stream.of(item).map(self.plain)
        return stream.range(3).map_async(self.work, concurrency=2)

    def stage(self, stream: Any) -> Any:  # noqa: ANN401
        random, concurrency = self.random, self.random.randint(2, 4)
        kinds: list[Callable[[], Any]] = [
            lambda: stream.map_async(self.work, concurrency=concurrency),
            lambda: stream.map_async(self.work, concurrency=concurrency, ordered=False),
            lambda: stream.flat_map(self.inner, concurrency=concurrency),
            lambda: stream.flat_map(self.inner, concurrency=concurrency, delay_errors=True),
            lambda: stream.concat_map(self.inner),
            lambda: stream.switch_map(self.inner),
            lambda: stream.merge(self.source()),
            lambda: stream.map(self.plain),
            lambda: stream.buffer_count(2).flatten(),
            stream.share,
            lambda: stream.publish().auto_connect(),
            lambda: stream.replay(2).auto_connect(),
            lambda: stream.take(random.randint(1, 8)),
            lambda: stream.parallel(2, lambda part: part.map_async(self.work)),
        ]
        return random.choice(kinds)()

    async def run(self) -> Strict:
        stream = self.source()
        for _ in range(self.random.choice([1, 1, 1, 1, 2, 3])):
            stream = self.stage(stream)
        strict = Asking(self.random, requests=(0, 1, 1, 2, 5))
        async with self.on.Scope():
            stream.subscribe(strict)
            for _ in range(300):
                if strict.end is not None or strict.left:
                    break
                if self.random.random() < 0.5:
                    strict.request(self.random.randint(1, 3))
                if self.random.random() < 0.02:
                    strict.leave()
                if self.random.random() < 0.1:
                    await self.on.sleep(0.001)
                await self.on.checkpoint()
            for _ in range(3):
                await self.on.sleep(0.01)
        return strict


@pytest.mark.slow
@over_both_loops
async def test_signals_come_one_after_the_other(on: Loop) -> None:
    for seed in range(270, 330):  # these find a map_async that passes on an error of its source at once
        strict = await Schedule(on, seed).run()
        assert not strict.wrong, seed
        assert strict.end is not None or strict.left, seed
