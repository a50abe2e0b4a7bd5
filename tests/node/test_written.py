"""Management answers when the store has written it: a node that is killed behind an answer has not forgotten it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import rstreams
from rstreams import Connection, Node, Stream
from rstreams.errors import LinkDetached
from rstreams.net.management import Management, ManagementRefused
from rstreams.node import emptying, written
from tests.crash.shop import fill, letter, shop
from tests.node.held_commits import HELD_S, held_up, killed_behind_the_answer, store_of

Call: TypeAlias = Callable[[Connection, Management], Awaitable[object]]


@asynccontextmanager
async def filled(folder: Path) -> AsyncIterator[tuple[Node, Connection, Management]]:
    """A node with messages, a named subscription at each multicast, and a consumer that holds two orders."""
    async with shop(folder) as node:
        listener = await node.listen("127.0.0.1:0")
        async with (
            rstreams.connect(listener.url, container_id="shop") as connection,
            connection.management() as management,
        ):
            await fill(connection, 5)
            yield node, connection, management


def names(node: Node) -> list[str]:
    return [named.name for each in node.statistics().multicasts.values() for named in each.named]


async def end_consumer(connection: Connection, management: Management) -> None:
    [subscription] = await management.subscriptions("orders")
    await management.end_subscription(subscription.number)


CALLS: dict[str, tuple[Call, Callable[[Node], object], object]] = {
    "purge": (lambda _, to: to.purge("bills"), lambda node: node.statistics().queues["bills"].ready, 0),
    "delete a queue": (lambda _, to: to.delete("bills"), lambda node: node.statistics().queues["bills"].ready, 0),
    "delete a multicast": (lambda _, to: to.delete("news", "multicasts"), names, ["of prices"]),
    "delete a log": (
        lambda _, to: to.delete("events", "logs"),
        lambda node: node.statistics().logs["events"].partitions[0].messages,
        0,
    ),
    "unsubscribe": (lambda _, to: to.unsubscribe("prices", "of prices", container="shop"), names, ["of news"]),
    "unsubscribe by the link": (
        lambda connection, _: connection.unsubscribe("prices", "of prices"),
        names,
        ["of news"],
    ),
    "move dead letters": (
        lambda _, to: to.move_dead_letters("dead"),
        lambda node: tuple(node.statistics().queues[name].ready for name in ("dead", "bills")),
        (0, 10),
    ),
}


@pytest.mark.parametrize("call", CALLS)
async def test_what_was_answered_outlives_a_kill(tmp_path: Path, call: str) -> None:
    make, look, expected = CALLS[call]
    async with filled(tmp_path / "store") as (node, connection, management):
        again = await killed_behind_the_answer(tmp_path / "store", node, lambda: make(connection, management))
    async with again:
        assert look(again) == expected


async def test_the_failed_attempts_of_an_ended_subscription_outlive_a_kill(tmp_path: Path) -> None:
    async with (
        filled(tmp_path / "store") as (node, connection, management),
        connection.stream("orders", settlement="manual").open() as orders,
    ):
        await anext(orders)  # the others wait at the same consumer
        again = await killed_behind_the_answer(tmp_path / "store", node, lambda: end_consumer(connection, management))
    async with again:
        listener = await again.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            messages = await connection.messages("orders").take(5).to_list()
    assert [(message.body, message.delivery_count) for message in messages] == [(number, 1) for number in range(5)]


async def test_what_cannot_be_written_is_not_answered_as_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "ANSWER_WITHIN_S", 0.05)
    monkeypatch.setattr(emptying, "NEXT_WITHIN_S", 0.05)
    async with filled(tmp_path / "store") as (node, _, management):
        store = store_of(node)

        def fail(*_: object, **__: object) -> Any:  # noqa: ANN401
            raise OSError(5, "Input/output error")

        store.flush()
        store._tables.commit = fail  # type: ignore[method-assign]
        for call in (
            management.purge("bills"),
            management.delete("events", "logs"),
            management.delete("news", "multicasts"),
        ):
            with pytest.raises(ManagementRefused, match="not safe in the store") as refused:
                await call
            assert refused.value.status == 500
            assert str(tmp_path) not in str(refused.value)


async def test_an_end_by_the_link_is_answered_with_an_error_if_the_store_does_not_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rstreams.node.stealable.ANSWER_WITHIN_S", HELD_S)
    async with filled(tmp_path / "store") as (node, connection, _):
        with held_up(store_of(node)):
            with pytest.raises(LinkDetached, match="the store has not written it") as told:
                await connection.unsubscribe("prices", "of prices")
            assert told.value.condition == "amqp:internal-error"
            assert names(node) == ["of news"]


@pytest.mark.parametrize("target", ["bills", "orders", "prices", "events"])
async def test_at_each_commit_a_dead_letter_is_in_one_place(tmp_path: Path, target: str) -> None:
    async with filled(tmp_path / "store") as (node, connection, management):
        await connection.publish("dead", Stream.from_iterable(map(letter, range(5, 40))))
        store, found = store_of(node), list[tuple[int, int]]()
        commit = store._tables.commit
        names_of_target = [name for name in store.names if f"/{target}" in name or f'"{target}"' in name]

        def count(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            answer = commit(*arguments, **options)
            ledgers = store._tables.ledgers
            found.append((ledgers["queue/dead"].live, sum(ledgers[name].live for name in names_of_target)))
            return answer

        store.flush()
        store._tables.commit = count  # type: ignore[method-assign]
        moved = await management.move_dead_letters("dead", to=target)
        assert moved.moved == 40
        assert found[-1] == (0, 45)
        assert {sum(each) for each in found} == {45}, "a kill behind any of the commits neither loses nor doubles"
