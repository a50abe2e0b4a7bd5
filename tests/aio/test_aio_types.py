"""What type checkers make of the names of `rstreams.aio`: mypy reads this file in `make check`."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import AbstractAsyncContextManager
from typing import Any, assert_type

import pytest

import rstreams
import rstreams.aio
from rstreams.aio import (
    ConnectableStream,
    Connection,
    Delivery,
    GroupedStream,
    Message,
    Node,
    PublishResult,
    Requester,
    Sender,
    Stream,
    connect,
)
from rstreams.net.request_reply.requester import Requester as TrioRequester


def test_types_of_streams() -> None:
    numbers, words = Stream.of(1, 2, 3), Stream.of("tea", "milk")
    assert_type(numbers, Stream[int])
    assert_type(numbers.map(str).filter(bool), Stream[str])
    assert_type(numbers.buffer_count(2), Stream[list[int]])
    assert_type(numbers.window_count(2), Stream[Stream[int]])
    assert_type(numbers.flat_map(lambda x: Stream.of(str(x))), Stream[str])
    assert_type(numbers.group_by(str), Stream[GroupedStream[str, int]])
    assert_type(words.publish(), ConnectableStream[str])
    assert_type(numbers.partition(lambda x: x, 2), tuple[Stream[int], ...])
    assert_type(numbers.zip(words), Stream[tuple[int, str]])
    assert_type(numbers.merge(words), Stream[int | str])
    assert_type(asyncio.run(numbers.to_list()), list[int])
    assert_type(asyncio.run(numbers.first_or_none()), int | None)


async def types_of_connections(connection: Connection) -> None:
    """Never run: type checkers read it."""
    assert_type(connect("amqp://127.0.0.1"), AbstractAsyncContextManager[Connection])
    assert_type(connection.stream("a"), Stream[Any])
    assert_type(connection.stream("a", decode=len), Stream[int])
    assert_type(connection.stream("a", decode=len, settlement="manual"), Stream[Delivery[int]])
    assert_type(connection.messages("a"), Stream[Message])
    assert_type(connection.streamed_messages("a"), Stream[Message])
    assert_type(await connection.publish("a", Stream.of(1), linger_s=0.1), PublishResult)
    assert_type(connection.sender("a"), AbstractAsyncContextManager[Sender])
    assert_type(connection.requester("a", decode=len), AbstractAsyncContextManager[Requester[int]])


@pytest.mark.parametrize(
    ("ours", "model"),
    [
        (connect, rstreams.connect),
        (Connection.stream, rstreams.Connection.stream),
        (Connection.publish, rstreams.Connection.publish),
        (Connection.consume, rstreams.Connection.consume),
        (Connection.respond, rstreams.Connection.respond),
        (Connection.requester, rstreams.Connection.requester),
        (Connection.sender, rstreams.Connection.sender),
        (Connection.drain_and_close, rstreams.Connection.drain_and_close),
        (Node.listen, rstreams.Node.listen),
        (Node.respond, rstreams.Node.respond),
        (Node, rstreams.Node),
    ],
    ids=lambda function: function.__qualname__,
)
def test_help_shows_the_same_parameters(ours: Any, model: Any) -> None:  # noqa: ANN401 - functions and a class
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(model).parameters)


def test_a_connection_and_a_stream_have_all_that_those_of_trio_have() -> None:
    for ours, model in [(Connection, rstreams.Connection), (Stream, rstreams.Stream), (Node, rstreams.Node)]:
        assert {name for name in dir(model) if not name.startswith("_")} <= set(dir(ours))
    assert {"in_flight", "request", "stream"} <= set(dir(TrioRequester)) & set(dir(Requester))
    assert {name for name in dir(rstreams.Sender) if not name.startswith("_")} <= set(dir(Sender))
    assert {name for name in dir(rstreams.Receipt) if not name.startswith("_")} <= set(dir(rstreams.aio.Receipt))
