"""What is said to who forgets to enter a connection, a sender, a requester or a loop, or enters it in a wrong way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rstreams
import rstreams.blocking
from rstreams import Stream
from rstreams.errors import ConfigError
from tests.net.over_tcp import connected


async def test_async_ones() -> None:
    async with connected() as (_, connection):
        ways: list[tuple[Callable[[], Any], str]] = [
            (lambda: rstreams.connect("amqp://127.0.0.1:1"), "`async with rstreams.connect(...) as connection:`"),
            (lambda: connection.sender("a"), "`async with connection.sender(...) as sender:`"),
            (lambda: connection.requester("a"), "`async with connection.requester(...) as requester:`"),
        ]
        for make, shown in ways:
            forgotten = make()
            with pytest.raises(AttributeError) as told:
                forgotten.send(1)
            assert str(told.value) == f"there is no 'send' before it is entered: {shown}"
            with pytest.raises(TypeError) as awaited:
                await forgotten
            assert str(awaited.value) == f"this is entered, not awaited: {shown}"
            with pytest.raises(TypeError) as entered, forgotten:
                pass
            assert str(entered.value) == f"this is entered by `async with`: {shown}"


def test_blocking_ones() -> None:
    forgotten: Any = rstreams.blocking.connect("amqp://127.0.0.1:1")
    with pytest.raises(AttributeError, match=r"no 'stream' before it is entered: `with rstreams\.blocking\.connect"):
        forgotten.stream("a")


async def test_publish_says_how_what_is_no_stream_becomes_one() -> None:
    async def numbers() -> Any:  # noqa: ANN401 - an async generator
        yield 1

    async with connected() as (_, connection):
        publish: Any = connection.publish
        for items, hint in (
            ([1, 2], "not list; use Stream.from_iterable(...)"),
            (iter([1]), "not list_iterator; use Stream.from_iterable(...)"),
            (numbers(), "not async_generator; use Stream.from_async_iterable(...)"),
            ("text", "not str"),
            (Stream.of, "not function"),
        ):
            with pytest.raises(ValueError, match="must be a Stream or another Publisher") as told:
                await publish("a", items)
            assert str(told.value).endswith(hint)


async def test_what_is_no_stream_is_shown_in_part_and_how_it_becomes_one() -> None:
    items: Any = list(range(1000))
    one: Stream[int] = Stream.of(1)
    node = rstreams.Node()
    calls: list[Callable[[], Any]] = [
        lambda: one.parallel(2, lambda _: items).to_list(),
        lambda: one.concat(items),
        lambda: Stream(items),
        lambda: node.serve("a", items),
    ]
    for call in calls:
        with pytest.raises((TypeError, ConfigError), match=r"Publisher, not \[0, 1, 2, ") as told:
            await call()
        assert str(told.value).endswith("; use Stream.from_iterable(...)")
        assert len(str(told.value)) < 320
