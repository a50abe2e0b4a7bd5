"""The fluent face: each method is the function of its name, with exact types."""

from __future__ import annotations

import inspect

import pytest

from rstreams import Stream, operators, sources
from rstreams.testing import ProbeSubscriber

SOURCES = [name for name in sources.__all__ if name != "publisher"]


def test_every_source_and_operator_has_its_method() -> None:
    for name in [*SOURCES, *operators.__all__]:
        assert callable(getattr(Stream, name)), name


@pytest.mark.parametrize("name", operators.__all__)
def test_a_method_takes_what_its_operator_takes(name: str) -> None:
    theirs = list(inspect.signature(getattr(operators, name)).parameters.values())[1:]
    ours = list(inspect.signature(getattr(Stream, name)).parameters.values())[1:]
    told = [(each.name, each.kind, each.default) for each in ours if each.kind is not each.VAR_POSITIONAL]
    assert told == [(each.name, each.kind, each.default) for each in theirs if each.kind is not each.VAR_POSITIONAL]


async def test_a_chain() -> None:
    chain = Stream.range(10).filter(lambda n: n % 2).map(str).skip(1).take(3)
    assert await chain.to_list() == ["3", "5", "7"]
    assert await chain.to_list() == ["3", "5", "7"]


async def test_through_applies_an_operator_of_others() -> None:
    def every(stream: Stream[int], nth: int, *, start: int = 0) -> Stream[int]:
        return stream.filter(lambda n: n % nth == start)

    assert await Stream.range(10).through(every, 3, start=1).to_list() == [1, 4, 7]


def test_any_publisher_makes_a_stream_and_a_stream_is_one() -> None:
    probe = ProbeSubscriber[int](2)
    Stream(Stream(sources.of(1, 2))).subscribe(probe)
    assert probe.items == [1, 2]


def test_what_is_no_publisher_makes_no_stream() -> None:
    with pytest.raises(TypeError, match=r"publisher must be a Publisher, not \[1, 2\]"):
        Stream([1, 2])  # type: ignore[arg-type]


def test_nobody_cannot_subscribe() -> None:
    with pytest.raises(TypeError, match="None"):
        Stream.of(1).subscribe(None)  # type: ignore[arg-type]
