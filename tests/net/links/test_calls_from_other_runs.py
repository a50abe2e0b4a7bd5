"""Calls from another trio run: refused before they do harm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from rstreams import Node, Stream, connect
from rstreams.errors import ConfigError, RStreamsError
from tests.net.over_tcp import connected


async def test_a_sender_a_connection_and_a_node_are_used_where_they_live() -> None:
    async with connected() as (node, connection):
        queue = node.queue("work")
        async with connection.sender("work") as sender:
            calls: list[Callable[[], Awaitable[object]]] = [
                lambda: sender.send(1),
                lambda: sender.submit(1),
                connection.drain_and_close,
                node.drain_and_close,
            ]
            told = r"another thread or trio run than its own.*: call it there by trio\.from_thread\.run or run_sync, "
            for call in calls:
                with pytest.raises(ConfigError, match=told):
                    await trio.to_thread.run_sync(trio.run, call)
            await trio.to_thread.run_sync(trio.from_thread.run, sender.send, 2)
        await connection.publish("work", Stream.of(3))
        assert queue.statistics().enqueued == 2


async def test_a_node_is_drained_inside_its_block() -> None:
    with pytest.raises(RuntimeError, match="inside its block"):
        await Node().drain_and_close()


async def test_a_handler_that_is_none_is_named_at_the_call() -> None:
    async with connected() as (node, connection):
        node.queue("work")
        with pytest.raises(TypeError, match=r"consume\(handler\): handler must be a function, not None"):
            await connection.consume("work", None)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=r"consume\(concurrency=0\)"):
            await connection.consume("work", print, concurrency=0)


def test_after_the_end_of_their_loop_they_say_that_they_were_closed() -> None:
    """The only loop of a program of asyncio ends with its last connection; the next one is another."""
    kept: list[tuple[str, Callable[[], Awaitable[object]]]] = []

    async def use() -> None:
        async with Node() as node:
            node.queue("work")
            listener = await node.listen("127.0.0.1:0")
            async with connect(listener.url, container_id="me") as connection, connection.sender("work") as sender:
                requester = connection.requester
                kept.extend(
                    [
                        ("stream", connection.stream("work").to_list),
                        ("acknowledged", connection.stream("work", settlement="manual").to_list),
                        ("publish", lambda: connection.publish("work", Stream.of(2))),
                        ("consume", lambda: connection.consume("work", print)),
                        ("sender", lambda: connection.sender("work").__aenter__()),
                        ("requester", lambda: requester("work").__aenter__()),
                        ("unsubscribe", lambda: connection.unsubscribe("work", "mine")),
                        ("send", lambda: sender.send(3)),
                        ("drain_and_close", connection.drain_and_close),
                        ("node.drain_and_close", node.drain_and_close),
                    ]
                )

    async def ask_again() -> dict[str, str]:
        answers = {}
        for name, call in kept:
            try:
                await call()
            except RStreamsError as error:
                answers[name] = str(error)
        return answers

    trio.run(use)
    answers = trio.run(ask_again)
    assert set(answers) == {name for name, _ in kept}
    assert {name: text for name, text in answers.items() if "closed" not in text or "another thread" in text} == {}
