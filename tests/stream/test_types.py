"""What type checkers make of the methods of `Stream`: mypy reads this file in `make check`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from decimal import Decimal
from io import TextIOWrapper
from pathlib import Path
from typing import assert_type

from rstreams import Stream
from rstreams.blocking import BlockingStream
from rstreams.notifications import Notification
from rstreams.stream import ConnectableStream, GroupedStream


async def awaited(number: int) -> AsyncIterator[str]:
    yield str(number)


def test_types_of_operators() -> None:
    numbers = Stream.of(1, 2, 3)
    words = Stream.of("tea", "milk")
    assert_type(numbers, Stream[int])
    assert_type(numbers.map(str), Stream[str])
    assert_type(numbers.map(str).map(len).filter(bool), Stream[int])
    assert_type(numbers.scan(lambda total, x: total + x, 0.5), Stream[float])
    assert_type(numbers.scan(lambda total, x: total + x), Stream[int])
    assert_type(words.scan(max), Stream[str])
    assert_type(numbers.reduce(lambda total, x: total + x), Stream[int])
    assert_type(numbers.reduce(lambda text, x: f"{text}{x}", ""), Stream[str])
    assert_type(numbers.buffer_count(2), Stream[list[int]])
    assert_type(numbers.window_count(2), Stream[Stream[int]])
    assert_type(numbers.pairwise(), Stream[tuple[int, int]])
    assert_type(numbers.enumerate(), Stream[tuple[int, int]])
    assert_type(numbers.flat_map(lambda x: Stream.of(str(x))), Stream[str])
    assert_type(numbers.concat_map(lambda x: Stream.of(str(x))), Stream[str])
    assert_type(numbers.flat_map(lambda x: [str(x)]), Stream[str])
    assert_type(numbers.concat_map(range), Stream[int])
    assert_type(numbers.switch_map(awaited), Stream[str])
    assert_type(numbers.expand(lambda x: [x]), Stream[int])
    assert_type(numbers.on_error_resume(lambda error: [str(error)]), Stream[int | str])
    assert_type(Stream.defer(lambda: [1]), Stream[int])
    assert_type(Stream.of([1], [2]).flatten(), Stream[int])
    assert_type(numbers.materialize(), Stream[Notification[int]])
    assert_type(numbers.materialize().dematerialize(), Stream[int])
    assert_type(numbers.default_if_empty("none"), Stream[int | str])
    assert_type(numbers.group_by(str), Stream[GroupedStream[str, int]])
    assert_type(numbers.group_by(str).map(lambda group: group.key), Stream[str])
    assert_type(words.publish(), ConnectableStream[str])
    assert_type(numbers.partition(lambda x: x, 2), tuple[Stream[int], ...])


def types_of_blocking_streams(numbers: BlockingStream[int]) -> None:
    assert_type(numbers.flat_map(lambda x: [str(x)]), BlockingStream[str])
    assert_type(numbers.switch_map(awaited), BlockingStream[str])
    assert_type(numbers.reduce(lambda total, x: total + x), BlockingStream[int])
    assert_type(numbers.scan(lambda text, x: f"{text}{x}", ""), BlockingStream[str])


def opened(name: str) -> TextIOWrapper:
    return Path(name).open()


def test_types_of_sums_and_open_files() -> None:
    assert_type(Stream.of(1, 2).sum(), Stream[int])
    assert_type(Stream.of(0.5).sum(), Stream[float | int])
    assert_type(Stream.of(Decimal(1)).sum(), Stream[Decimal | int])
    Stream.of("a").sum()  # type: ignore[misc]  # words cannot be added to 0
    Stream.of("a").average()  # type: ignore[misc]
    assert_type(Stream.using(lambda: opened("a"), Stream.from_iterable), Stream[str])
    read = Stream.using(lambda: opened("a"), lambda lines: Stream.from_iterable(lines))  # noqa: PLW0108 - written so first
    assert_type(read.map(len), Stream[int])
    assert_type(Stream.using(lambda: suppress(OSError), lambda _: Stream.of(1)), Stream[int])


def test_types_of_joins() -> None:
    numbers, words, flags = Stream.of(1), Stream.of("tea"), Stream.of(*[True])
    assert_type(numbers.zip(words), Stream[tuple[int, str]])
    assert_type(numbers.zip(words, flags), Stream[tuple[int, str, bool]])
    assert_type(numbers.combine_latest(words), Stream[tuple[int, str]])
    assert_type(numbers.with_latest_from(words), Stream[tuple[int, str]])
    assert_type(numbers.merge(words), Stream[int | str])
    assert_type(numbers.concat(words), Stream[int | str])
    assert_type(numbers.start_with("tea"), Stream[int | str])


def test_types_of_aggregates() -> None:
    numbers, words = Stream.of(1, 2), Stream.of("tea")
    assert_type(numbers.count(), Stream[int])
    assert_type(numbers.sum(), Stream[int])
    assert_type(numbers.average(), Stream[float])
    assert_type(words.min(), Stream[str])
    assert_type(words.max(len), Stream[str])
    assert_type(words.all(str.isalpha), Stream[bool])
    assert_type(words.to_set(), Stream[set[str]])
    assert_type(words.to_dict(len), Stream[dict[int, str]])
    assert_type(words.to_dict(len, str.upper), Stream[dict[int, str]])


def test_types_of_sources() -> None:
    async def fetch(page: int) -> tuple[str, int] | None:
        return (f"page {page}", page + 1) if page < 3 else None

    assert_type(Stream.range(3), Stream[int])
    assert_type(Stream.unfold(0, fetch), Stream[str])
    assert_type(Stream.from_callable(lambda: 7), Stream[int])
