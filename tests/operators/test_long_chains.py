"""Chains of thousands: joined streams are opened out when they are built."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio

from rstreams import Stream, operators
from rstreams.abc import Publisher
from rstreams.errors import ConfigError, RStreamsError
from rstreams.testing import ManualPublisher, ProbeSubscriber

DEEP = 400
"""More joins than Python's recursion limit would allow, one inside the other."""

Join = Callable[..., Any]

ADDED: dict[str, Join] = {
    "concat": operators.concat,
    "merge": operators.merge,
    "merge_priority": operators.merge_priority,
    "merge_sorted": operators.merge_sorted,
    "race": operators.race,
}
"""The operators whose result does not depend on which of the sources have been joined before."""


@pytest.mark.parametrize("join", ADDED.values(), ids=ADDED)
@pytest.mark.parametrize("side", ["behind", "before"])
async def test_streams_may_be_joined_one_by_one(join: Join, side: str) -> None:
    got = await _joined(join, side, DEEP).to_list()

    if join is operators.race:
        assert got == [0 if side == "behind" else DEEP - 1]
    else:
        forwards = side == "behind" or join is operators.merge_sorted
        assert got == list(range(DEEP))[:: 1 if forwards else -1]


@pytest.mark.slow
@pytest.mark.parametrize("join", [operators.concat, operators.merge])
@pytest.mark.parametrize("side", ["behind", "before"])
async def test_ten_thousand_streams(join: Join, side: str) -> None:
    assert sorted(await _joined(join, side, 10_000).to_list()) == list(range(10_000))


def _joined(join: Join, side: str, many: int) -> Stream[int]:
    stream = Stream.of(0)
    for number in range(1, many):
        more = Stream.of(number)
        stream = Stream(join(stream, more) if side == "behind" else join(more, stream))
    return stream


@pytest.mark.parametrize("method", ["start_with", "end_with"])
async def test_items_may_be_added_one_by_one(method: str) -> None:
    stream = Stream.of(0)
    for number in range(1, DEEP):
        stream = getattr(stream, method)(number)

    assert sorted(await stream.to_list()) == list(range(DEEP))


@pytest.mark.parametrize("join", ADDED.values(), ids=ADDED)
def test_a_join_of_joins_has_all_their_sources(join: Join) -> None:
    a, b, c, d = (ManualPublisher[int]() for _ in range(4))
    probe = ProbeSubscriber[int](1)

    joined = join(join(a, b), Stream(join(c, d)))
    joined.subscribe(probe)

    [run] = joined.runs()
    assert not any(type(upstream) is type(run) for upstream in run.upstreams())


@pytest.mark.parametrize(("inner", "outer"), [(True, False), (False, True)])
@pytest.mark.parametrize("join", [operators.concat, operators.merge, operators.merge_priority, operators.merge_sorted])
def test_a_join_with_other_options_keeps_them(join: Join, *, inner: bool, outer: bool) -> None:
    a, b, c = (ManualPublisher[int]() for _ in range(3))
    probe = ProbeSubscriber[int](10)
    join(join(a, b, delay_errors=inner), c, delay_errors=outer).subscribe(probe)

    a.error(RStreamsError("a"))

    assert b.subscriptions == (join is not operators.concat or inner)
    assert b.cancelled == (b.subscriptions and not inner)
    assert c.subscriptions == (join is not operators.concat or (outer and not inner))
    assert probe.ended == (not outer and not inner)


@pytest.mark.parametrize("join", ADDED.values(), ids=ADDED)
async def test_a_join_without_sources_among_others(join: Join) -> None:
    assert await Stream(join(join(), Stream.of(1))).to_list() == ([] if join is operators.race else [1])


@pytest.mark.parametrize("option", ["prefetch", "key"])
def test_a_sorted_merge_with_other_options_keeps_them(option: str) -> None:
    a, b, c = (ManualPublisher[int]() for _ in range(3))
    other: dict[str, Any] = {"prefetch": 2} if option == "prefetch" else {"key": abs}
    joined: Any = operators.merge_sorted(operators.merge_sorted(a, b, **other), c)

    joined.subscribe(ProbeSubscriber[int](10))

    [run] = joined.runs()
    assert len(run.upstreams()) == 2


def test_a_stream_concatenated_with_itself_again_and_again_begins_at_once() -> None:
    stream = Stream.of(1)
    for _ in range(40):
        stream = stream.concat(stream)
    probe = ProbeSubscriber[int](3)
    stream.take(3).subscribe(probe)
    assert probe.items == [1, 1, 1]
    assert probe.completed


@pytest.mark.parametrize("between", [lambda stream: stream, lambda stream: Stream(stream).take(9)], ids=["", "take"])
@pytest.mark.parametrize("join", [operators.merge, operators.merge_priority, operators.merge_sorted, operators.race])
def test_a_stream_joined_with_itself_again_and_again_is_refused(join: Join, between: Join) -> None:
    stream: Any = Stream.of(1)
    with pytest.raises(ConfigError, match=r"would subscribe to 1,048,576 streams at once; at most 1,000,000"):
        for _ in range(40):
            stream = between(Stream(join(stream, stream)))


LONG: dict[str, Callable[[Stream[int]], Stream[int]]] = {
    "take": lambda s: s.take(5),
    "buffer_count, flatten": lambda s: s.buffer_count(2).flatten(),
    "flat_map": lambda s: s.flat_map(Stream.of),
    "zip": lambda s: s.zip(Stream.range(9)).map(lambda pair: pair[0]),
    "delay": lambda s: s.delay(1.0),
    "limit_rate": lambda s: s.limit_rate(2),
    "do_finally": lambda s: s.do_finally(lambda _: None),
}


@pytest.mark.parametrize("operator", LONG)
async def test_a_chain_that_is_too_long_says_so(operator: str) -> None:
    stream = Stream.of(1, 2)
    for _ in range(400):
        stream = LONG[operator](stream)

    with pytest.raises(ConfigError, match=r"too many operators stand one behind the other: .* sys.setrecursionlimit"):
        await stream.to_list()
    with pytest.raises(ConfigError, match="one behind the other"):
        async with stream.open():
            pass


SHARED: dict[str, Callable[[Stream[int]], Stream[int]]] = {
    "broadcast": lambda s: s.broadcast(),
    "distribute": lambda s: s.distribute(),
    "partition": lambda s: Stream(s.partition(lambda _: 0, 1)[0]),
    "replay": lambda s: s.replay(9).auto_connect(),
    "share": lambda s: s.share(),
    "share, take": lambda s: s.take(5).share(),
}
"""Operators that keep a run for several subscribers: each of them handles what a subscriber raises."""

PLACES: dict[str, Callable[[Callable[[Any], Stream[int]]], Stream[int]]] = {
    "in a group": lambda chain: Stream.of(1, 2).group_by(lambda _: 0).flat_map(chain),
    "alone": lambda chain: chain(Stream.of(1, 2)),
    "in a stream of its own": lambda chain: Stream.of(0).concat_map(lambda _: chain(Stream.of(1, 2))),
}


@pytest.mark.parametrize(
    ("operator", "place"), [*((each, "in a group") for each in SHARED), *(("share", each) for each in list(PLACES)[1:])]
)
async def test_a_chain_of_shared_runs_works_or_says_that_it_is_too_long(operator: str, place: str) -> None:
    def chain(source: Publisher[int], many: int) -> Stream[int]:
        stream = Stream(source)
        for _ in range(many):
            stream = SHARED[operator](stream)
        return stream

    refused = []
    for many in (20, 60, 90, 120, 150, 240, 400):
        try:
            with trio.fail_after(5):
                assert await PLACES[place](partial(chain, many=many)).to_list() == [1, 2]
        except ConfigError as error:
            assert "operators stand one behind the other" in str(error)  # noqa: PT017 - it may also succeed
            refused.append(many)
    assert refused[-2:] == [240, 400]
    assert refused[0] > 20


@pytest.mark.parametrize("operator", ["map", "filter", "scan"])
async def test_operators_in_one_loop_may_be_many(operator: str) -> None:
    made = {
        "map": lambda s: s.map(int),
        "filter": lambda s: s.filter(bool),
        "scan": lambda s: s.scan(lambda _, x: x, 0),
    }
    stream = Stream.of(1, 2)
    for _ in range(1_000):
        stream = made[operator](stream)

    assert await stream.to_list() == [1, 2]


class _Counted:
    compared = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __lt__(self, other: _Counted) -> bool:
        _Counted.compared += 1
        return self.number < other.number


async def test_a_sorted_merge_of_many_compares_few() -> None:
    many = [Stream.of(number, number + 1000) for number in range(256)]
    _Counted.compared = 0

    got = await Stream(operators.merge_sorted(*many, key=_Counted)).to_list()

    assert got == [*range(256), *range(1000, 1256)]
    assert _Counted.compared < 512 * 8 * 6  # each of them goes down a heap of eight levels
