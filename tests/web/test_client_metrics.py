"""The metrics of a client: they count the links that have ended, for each kind of connection, and are bounded."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Callable
from dataclasses import astuple, fields

import pytest
import trio

import rstreams
import rstreams.aio
import rstreams.blocking
from rstreams import Connection, Node, Stream
from rstreams.net.links import connection_links
from rstreams.net.links.link_totals import LinkTotals
from rstreams.web import client_metrics_text
from rstreams.web.metric_tables import CLIENT
from tests.net.over_tcp import until


def test_each_number_has_one_line() -> None:
    assert {metric.field for metric in CLIENT.metrics} == {each.name for each in fields(LinkTotals)} - {
        "address",
        "does",
    }


def totals(connection: Connection, does: str) -> LinkTotals:
    gc.collect()
    [found] = [each for each in connection.link_totals() if each.does == does and each.address == "orders"]
    return found


async def test_the_totals_count_links_that_have_ended_and_never_fall() -> None:
    async with Node() as node:
        node.queue("orders", max_deliveries=2)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            last: tuple[float, ...] = ()
            for turn in range(1, 4):
                await connection.publish("orders", Stream.of(1, 2, 3))
                sent = totals(connection, "publish")
                assert (sent.items, sent.accepted, sent.links) == (3 * turn, 3 * turn, 0)
                async with connection.stream("orders", settlement="manual", window=3).open() as deliveries:
                    for outcome in ("accept", "reject", "accept"):
                        getattr(await anext(deliveries), outcome)()
                    assert totals(connection, "subscribe").links == 1
                await until(lambda: not totals(connection, "subscribe").links)
                got = totals(connection, "subscribe")
                assert (got.items, got.rejected) == (3 * turn, turn)
                assert astuple(got)[7:] >= last
                last = astuple(got)[7:]
            assert got.accepted > 0


async def test_links_that_are_there_and_links_of_several_connections_count_together() -> None:
    async with Node() as node:
        node.queue("orders", capacity=10)
        listener = await node.listen("127.0.0.1:0")
        async with (
            rstreams.connect(listener.url) as first,
            rstreams.connect(listener.url) as second,
            first.sender("orders") as one,
            second.sender("orders") as other,
        ):
            await one.send(1)
            await other.send(2)
            text = client_metrics_text(first, second)
        assert 'rstreams_client_links{address="orders",direction="publish"} 2\n' in text
        assert 'rstreams_client_items_total{address="orders",direction="publish"} 2\n' in text
        assert text.count("# TYPE rstreams_client_items_total counter\n") == 1
        assert text.startswith("# HELP rstreams_build_info ")
        assert 'rstreams_client_items_total{address="orders",direction="publish"} 2\n' in client_metrics_text(
            first, second
        )


async def test_a_client_that_waits_for_credit_is_blocked() -> None:
    async with Node() as node:
        node.queue("orders", capacity=1)
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection, trio.open_nursery() as nursery:
            nursery.start_soon(connection.publish, "orders", Stream.of(*range(5)))
            await until(lambda: node.statistics().queues["orders"].ready == 1)
            before = totals(connection, "publish").blocked_s
            await trio.sleep(0.05)
            assert totals(connection, "publish").blocked_s >= before + 0.04
            nursery.cancel_scope.cancel()


async def test_addresses_above_the_first_thousand_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_links, "_MOST_COUNTED", 2)
    async with Node() as node:
        for number in range(4):
            node.queue(f"queue-{number}")
        listener = await node.listen("127.0.0.1:0")
        async with rstreams.connect(listener.url) as connection:
            for number in range(4):
                await connection.publish(f"queue-{number}", Stream.of(1))
            gc.collect()
            assert {each.address: each.items for each in connection.link_totals()} == {
                "queue-0": 1,
                "queue-1": 1,
                "": 2,
            }


def text_of_blocking(url: str) -> str:
    with rstreams.blocking.connect(url) as connection:
        connection.publish("orders", Stream.of(1))
        return client_metrics_text(connection)


def text_of_asyncio(url: str) -> str:
    async def text() -> str:
        async with rstreams.aio.connect(url) as connection:
            await connection.publish("orders", rstreams.aio.Stream.of(1))
            return client_metrics_text(connection)

    return asyncio.run(text())


@pytest.mark.parametrize("text_of", [text_of_blocking, text_of_asyncio])
async def test_each_kind_of_connection_has_them(text_of: Callable[[str], str]) -> None:
    async with Node() as node:
        node.queue("orders")
        listener = await node.listen("127.0.0.1:0")
        text = await trio.to_thread.run_sync(text_of, listener.url)
    assert re.search(r'rstreams_client_items_total\{address="orders",direction="publish"\} 1$', text, re.MULTILINE)
