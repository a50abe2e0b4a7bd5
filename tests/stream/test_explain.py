"""What explain shows of running pipelines, and which stage it says the others wait for."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import trio

from rstreams import Stream, Valve
from rstreams._core.claims import NO_HOLD
from rstreams._core.demand import UNBOUNDED
from rstreams.abc import Hold, Subscriber
from rstreams.push import Latest, Multicast, Replay, Unicast
from rstreams.runtime.scope import Scope
from rstreams.testing import ManualPublisher, ProbeSubscriber, VirtualScheduler
from tests.net.over_tcp import connected, until

ALL_SENT = "  -> the subscriber stalls: it has all that it requested"


_probes: list[ProbeSubscriber[Any]] = []  # a run nobody knows of any more is not shown


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    _probes.clear()


def run(stream: Stream[Any], request: int = 0) -> ProbeSubscriber[Any]:
    probe = ProbeSubscriber[Any](request)
    stream.subscribe(probe)
    _probes.append(probe)
    return probe


def lines(stream: Stream[Any]) -> list[str]:
    """Return what explain shows; of the counts only the numbers, which are requested, delivered, still owed, kept."""
    short = []
    for line in str(stream.explain()).splitlines():
        name, counts, numbers = line.partition("  requested ")
        words = [word for word in numbers.split() if word not in {"delivered", "outstanding", "buffered"}]
        short.append(name.rstrip() + " " + " ".join(words) if counts else line)
    return short


class Foreign:
    """A publisher of somebody else, whose subscription tells nothing."""

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        """Send nothing."""

    def cancel(self) -> None:
        """Do nothing."""

    def hold(self) -> Hold:
        return NO_HOLD


def ready() -> ManualPublisher[int]:
    """Return a source that has all that it is asked for."""
    source = ManualPublisher[int]()
    source.on_request = lambda n: source.next(*range(n))
    return source


# the text


def test_a_pipeline_as_text() -> None:
    source = ManualPublisher[int]()
    stream = Stream(source).map(str).buffer_count(3)
    run(stream, 1)
    source.next(1)

    assert str(stream.explain()) == (
        "run 1\n"
        "  buffer_count         requested 1  delivered 0  outstanding 1  buffered 1\n"
        "    map                requested 3  delivered 1  outstanding 2  buffered 0\n"
        "      ManualPublisher  requested 3  delivered 1  outstanding 2  buffered 0\n"
        "  -> ManualPublisher stalls: it owes 2 items"
    )


def test_nothing_runs() -> None:
    assert str(Stream.range(3).map(str).explain()) == "no live run of this stream is known"
    assert str(Stream(Foreign()).explain()) == "no live run of this stream is known"


def test_unbounded_demand() -> None:
    stream = Stream.never().take_while(bool)
    run(stream, UNBOUNDED)

    assert lines(stream) == [
        "run 1",
        "  take_while unbounded 0 unbounded 0",
        "    never unbounded 0 unbounded 0",
        "  -> never stalls: it owes all its items",
    ]


@pytest.mark.parametrize(
    ("stream", "label"),
    [
        (Stream.range(9), "range"),
        (Stream.from_iterable([1, 2, 3, 4]), "list"),
        (Stream.of(1, 2, 3, 4), "tuple"),
        (Stream.from_iterable({1: 1, 2: 2, 3: 3}), "dict_keyiterator"),
        (Stream.from_iterable(x for x in range(5)), "generator"),
        (Stream.range(9).map(str).filter(bool), "range | map | filter"),
        (Stream.range(9).name("numbers"), "numbers"),
        (Stream.range(9).concat(Stream.range(9)), "concat"),
        (Stream.range(9).merge(Stream.never()), "merge"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_stage_is_called_what_the_user_calls_it(stream: Stream[Any], label: str) -> None:
    run(stream, 2)

    assert lines(stream)[1] == f"  {label} 2 2 0 0"


# who stalls


def test_the_subscriber_stalls() -> None:
    stream = Stream.range(10).map(str)
    run(stream, 2)

    assert lines(stream) == ["run 1", "  range | map 2 2 0 0", ALL_SENT]


def test_a_merge_of_a_slow_and_a_fast_source() -> None:
    slow = ManualPublisher[int]()
    stream = Stream(slow).name("slow").merge(Stream(ready()).take(40).name("fast"), Stream.range(3))
    probe = run(stream, 6)

    assert lines(stream) == [
        "run 1",
        "  merge 6 6 0 29",
        "    slow 32 0 32 0",
        "      ManualPublisher 32 0 32 0",
        "    fast 32 32 0 0",
        "      take 32 32 0 0",
        "        ManualPublisher 32 32 0 0",
        ALL_SENT,
    ]

    probe.request(100)
    assert lines(stream) == [
        "run 1",
        "  merge 106 43 63 0",
        "    slow 32 0 32 0",
        "      ManualPublisher 32 0 32 0",
        "  -> ManualPublisher (slow) stalls: it owes 32 items",
    ]


def test_an_iterator_that_is_merged_counts_what_was_drawn_of_it() -> None:
    stream = Stream.range(10).merge(Stream.from_iterable(iter("abcdef")))
    run(stream, 5)

    assert lines(stream) == [
        "run 1",
        "  merge 5 5 0 0",
        "    range 3 3 0 0",
        "    str_ascii_iterator 2 2 0 0",
        ALL_SENT,
    ]


def test_a_zip_waits_for_one_of_its_sources() -> None:
    source = ManualPublisher[int]()
    stream = Stream(ready()).zip(Stream(source).name("late"))
    run(stream, 2)

    assert lines(stream) == [
        "run 1",
        "  zip 2 0 2 32",
        "    ManualPublisher 32 32 0 0",
        "    late 32 0 32 0",
        "      ManualPublisher 32 0 32 0",
        "  -> ManualPublisher (late) stalls: it owes 32 items",
    ]


def test_a_stage_that_asks_for_nothing_stalls() -> None:
    source = ManualPublisher[int]()
    groups = Stream(source).group_by(lambda x: x % 3, prefetch=4)
    stream = groups.flat_map(lambda group: Stream(group).buffer_count(3), concurrency=1)
    run(stream, 1)
    source.next(0, 1, 2, 1)

    assert lines(stream) == [
        "run 1",
        "  flat_map 1 0 1 0",
        "    map 1 1 0 0",
        "      group_by 1 1 0 3",
        "        ManualPublisher 5 4 1 0",
        "    buffer_count 32 0 32 1",
        "      group 0 96 1 95 0",
        "        ManualPublisher 5 4 1 0",
        "  -> ManualPublisher stalls: it owes 1 item",
    ]

    source.next(1)
    assert lines(stream)[-1] == ("  -> group 0 stalls: it owes 95 items, and asks ManualPublisher for none")


def test_concat_counts_what_all_its_sources_have_sent() -> None:
    source = ManualPublisher[int]()
    stream = Stream.of(1, 2).concat(Stream(source))
    run(stream, UNBOUNDED)
    source.next(3)

    assert lines(stream)[1:3] == ["  concat unbounded 3 unbounded 0", "    ManualPublisher unbounded 1 unbounded 0"]


def test_flat_map_and_concat_map_show_the_outer_and_the_inner_streams() -> None:
    for operator, ahead in (("flat_map", 32), ("concat_map", 2)):
        outer, inner = ManualPublisher[int](), ManualPublisher[int]()
        stream = getattr(Stream(outer), operator)(lambda _, inner=inner: Stream(inner).name("inner"))
        run(stream, 2)
        outer.next(0)

        assert [line.split()[0] for line in lines(stream)[1:4]] == [operator, "ManualPublisher", "inner"]
        assert f"    inner {ahead} 0 {ahead} 0" in lines(stream)


def test_what_a_buffer_waits_for() -> None:
    source, boundary = ManualPublisher[int](), ManualPublisher[int]()
    stream = Stream(source).buffer_boundary(Stream(boundary).name("boundary"), max_items=8)
    run(stream, 1)
    source.next(1, 2)

    assert lines(stream) == [
        "run 1",
        "  buffer_boundary 1 0 1 2",
        "    ManualPublisher 8 2 6 0",
        "    boundary unbounded 0 unbounded 0",
        "      ManualPublisher unbounded 0 unbounded 0",
        "  -> ManualPublisher stalls: it owes 6 items",
        "  -> ManualPublisher (boundary) stalls: it owes all its items",
    ]


def test_a_subscription_of_somebody_else_tells_nothing() -> None:
    stream = Stream(Foreign()).map(str).buffer_count(2)
    run(stream, 1)

    assert lines(stream) == [
        "run 1",
        "  buffer_count 1 0 1 0",
        "    map ? ? ? ?",
        "      Foreign ? ? ? ?",
        "  -> Foreign does not tell how many items it has sent",
    ]


# runs


def test_every_run_is_shown_until_it_ends() -> None:
    stream = Stream.range(3).take_last(1).merge(Stream.never())
    first, second = run(stream, 1), run(stream)
    assert [line for line in lines(stream) if not line.startswith("    ")] == [
        "run 1",
        "  merge 1 1 0 0",
        ALL_SENT,
        "",
        "run 2",
        "  merge 0 0 0 0",
        ALL_SENT,
    ]

    first.cancel()
    assert len(stream.explain().runs) == 1
    second.cancel()
    assert not stream.explain().runs


@pytest.mark.slow
def test_a_run_that_everybody_has_forgotten_is_not_kept_alive() -> None:
    stream = Stream.range(3).map(str).take(2)
    stream.subscribe(ProbeSubscriber(1))
    gc.collect()

    assert not stream.explain().runs


def test_looking_from_inside_an_item_is_allowed() -> None:
    stream = Stream(ready()).map(str).limit_rate(4)
    seen: list[str] = []
    probe = ProbeSubscriber[str](1, on_item=lambda _item: seen.append(lines(stream)[1]))
    stream.subscribe(probe)

    assert seen == ["  limit_rate 1 1 0 0"]


# sources


def test_a_group_is_a_stream_to_look_at() -> None:
    source, groups = ManualPublisher[int](), list[Stream[int]]()
    split = Stream(source).group_by(lambda x: x % 2)
    split.subscribe(ProbeSubscriber(UNBOUNDED, on_item=groups.append))
    source.next(1, 3)
    assert lines(groups[0]) == ["no live run of this stream is known"]

    probe = run(groups[0], 3)
    source.next(5, 7)

    assert probe.items == [1, 3, 5]
    assert lines(groups[0])[:2] == ["run 1", "  group 1 3 3 0 1"]
    probe.request(UNBOUNDED)
    source.next(9)
    assert lines(groups[0])[1] == "  group 1 unbounded 5 unbounded 0"


def test_a_window_is_a_stream_to_look_at() -> None:
    source, windows = ManualPublisher[int](), list[Stream[int]]()
    Stream(source).window_count(5).subscribe(ProbeSubscriber(UNBOUNDED, on_item=windows.append))
    source.next(1, 3)

    run(windows[0], 1)

    assert lines(windows[0])[:2] == ["run 1", "  window 1 1 0 1"]


@pytest.mark.parametrize("make", [Unicast[int], Multicast[int], lambda: Replay[int](2)], ids=["one", "many", "replay"])
def test_a_push_source(make: Callable[[], Unicast[int] | Multicast[int] | Replay[int]]) -> None:
    source = make()
    stream = Stream(source)
    run(stream, 1)
    source.emit(1)
    source.emit(2)

    name = type(source).__name__
    assert lines(stream) == ["run 1", f"  {name} 1 1 0 1", ALL_SENT]


def test_a_value_that_changes() -> None:
    source = Latest(1)
    stream = Stream(source)
    run(stream, 2)
    assert lines(stream)[1] == "  Latest 2 1 1 0"

    for value in (2, 3, 4):
        source.emit(value)

    assert lines(stream)[1] == "  Latest 2 2 0 1"


def test_a_shared_run_has_a_line_for_each_subscriber_that_looks() -> None:
    source = ManualPublisher[int]()
    shared = Stream(source).distribute(subscribers=2)
    run(shared, 1)
    run(shared, UNBOUNDED)
    source.next(1, 2, 3)

    assert lines(shared)[0:2] == ["run 1", "  distribute 1 0 1 0"]
    assert "  distribute unbounded 3 unbounded 0" in lines(shared)


def test_a_deferred_stream() -> None:
    stream = Stream.defer(lambda: Stream.range(5)._source)
    run(stream, 2)

    assert lines(stream)[1] == "  range 2 2 0 0"


async def test_an_async_source() -> None:
    async def two() -> AsyncIterator[int]:
        yield 1
        yield 2
        await trio.sleep_forever()

    stream = Stream.from_async_iterable(two())
    async with Scope():
        probe = run(stream, 3)
        await until(lambda: len(probe.items) == 2)

        assert lines(stream) == [
            "run 1",
            "  from_async_iterable 3 2 1 0",
            "  -> from_async_iterable stalls: it owes 1 item",
        ]
        probe.cancel()
        assert not stream.explain().runs


async def test_a_link() -> None:
    source = ManualPublisher[int]()
    async with connected() as (node, connection):
        node.serve("orders", source)
        stream = connection.stream("orders", window=16).map(lambda x: x)
        probe = run(stream, 10)
        await until(lambda: source.requested == 10)
        source.next(1, 2, 3)
        await until(lambda: len(probe.items) == 3)

        assert lines(stream) == [
            "run 1",
            "  map 10 3 7 0",
            "    link 'orders' 10 3 7 0",
            f"  -> link 'orders' stalls: it owes 7 items; {connection.status.peer} has credit for 7 deliveries",
        ]
        probe.cancel()
        assert not stream.explain().runs


# what a stage waits for besides its sources


def test_a_shared_stream_waits_for_its_slowest_subscriber() -> None:
    stream = Stream.range(9).broadcast(subscribers=2, window=2)
    run(stream, 8)
    run(stream, 1)

    told = [line for line in lines(stream) if "->" in line]
    assert told == [
        "  -> broadcast stalls: it owes 7 items; it waits for subscriber 2 of 2, which asked for no more",
        ALL_SENT,
    ]


def test_a_broadcast_waits_for_its_subscribers() -> None:
    stream = Stream.range(9).broadcast(subscribers=2)
    run(stream, 1)

    assert lines(stream)[-1] == "  -> broadcast stalls: it owes 1 item; it waits for subscriber 2 of 2"


def test_a_partition_waits_for_its_parts() -> None:
    even, odd = Stream.range(9).partition(lambda n: n % 2, 2)
    run(odd, 1)
    waits = "it waits for a subscriber to stream 0 of 0 to 1"
    assert lines(odd)[-1] == f"  -> partition stalls: it owes 1 item; {waits}"
    run(even, 1)
    assert waits not in "".join(lines(odd))


def test_a_paused_valve() -> None:
    valve = Valve()
    valve.pause()
    stream = Stream.range(9).pausable(valve).name("orders")
    run(stream, 3)
    assert lines(stream)[-1] == "  -> pausable (orders) stalls: it owes 3 items; its valve is paused"


def test_when_the_next_try_is() -> None:
    with VirtualScheduler() as scheduler:
        stream = Stream.fail(LookupError()).retry_backoff(9, first_s=10.0, jitter=0.0)
        run(stream, 3)
        scheduler.advance(2.5)
        assert lines(stream)[-1] == "  -> retry_backoff stalls: it owes 3 items; its next try is in 7.5 s"
        _probes[-1].cancel()


def test_a_publish_that_nobody_has_connected_says_so() -> None:
    probe = ProbeSubscriber[int](2)
    published = Stream.range(5).publish()
    stream = published.map(lambda x: x)
    stream.subscribe(probe)
    assert "publish stalls: it owes 2 items; it waits for connect()" in str(stream.explain())
    published.connect()
    assert "connect()" not in str(stream.explain())


def test_a_push_source_waits_for_nothing_but_its_items() -> None:
    stream = Stream(Multicast[int]()).map(lambda x: x)
    stream.subscribe(ProbeSubscriber[int](2))
    assert str(stream.explain()).endswith("Multicast stalls: it owes 2 items")
