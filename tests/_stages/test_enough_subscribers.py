"""What a second run of a shared source means: a new run, what is kept, the end alone, or a refusal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rstreams import Stream
from rstreams.errors import RStreamsError

SHARED: dict[str, tuple[Callable[[], Stream[int]], list[int]]] = {
    "share": (Stream.of(0).share, [0, 0]),
    "publish.ref_count": (lambda: Stream.of(0).publish().ref_count(), [0, 0]),
    "replay.ref_count": (lambda: Stream.of(0).replay(1).ref_count(), [0, 0]),
    "cache": (Stream.of(0).cache, [0, 0]),
    "replay": (lambda: Stream.of(0).replay(1).auto_connect(), [0, 0]),
    "publish": (lambda: Stream.of(0).publish().auto_connect(), [0]),
    "broadcast": (lambda: Stream.of(0).broadcast(subscribers=1, window=1), [0]),
    "distribute": (lambda: Stream.of(0).distribute(subscribers=1, window=1), [0]),
}


@pytest.mark.parametrize("kind", SHARED)
async def test_repeat_behind_it_gets_what_the_docs_say(kind: str) -> None:
    make, expected = SHARED[kind]
    assert await make().repeat(2).to_list() == expected


@pytest.mark.parametrize("kind", SHARED)
async def test_a_second_terminal_gets_the_same(kind: str) -> None:
    make, expected = SHARED[kind]
    shared = make()
    assert await shared.to_list() + await shared.to_list() == expected


async def test_repeat_before_it_always_repeats() -> None:
    twice = Stream.of(0).repeat(2)
    for shared in (twice.broadcast(), twice.distribute(), twice.share(), twice.partition(lambda x: x, 1)[0]):
        assert await shared.to_list() == [0, 0]


async def test_an_error_is_the_end_that_comes_again() -> None:
    tries: list[int] = []

    def fail() -> int:
        tries.append(len(tries))
        raise ValueError(len(tries))

    with pytest.raises(ValueError, match="1"):
        await Stream.from_callable(fail).broadcast().retry(3).to_list()
    assert tries == [0]
    with pytest.raises(ValueError, match="3"):
        await Stream.from_callable(fail).share().retry(1).to_list()


async def test_a_part_refuses_who_comes_second() -> None:
    (part,) = Stream.of(0).partition(lambda x: x, 1)
    with pytest.raises(RStreamsError, match=r"partition: stream 0 takes one subscriber, and has had it"):
        await part.repeat(2).to_list()
