"""The pages of a node: probes say whether clients may come, and a page is made once for all who ask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream, _machine
from rstreams.net.transport.accounts import Client
from rstreams.web.conversation import Request
from rstreams.web.pages import KEPT_S, Pages
from tests.web.http_client import get


async def test_a_node_is_ready_while_it_takes_clients() -> None:
    async with Node() as node:
        http = await node.listen_http("127.0.0.1:0")
        assert (await get(http, "/readyz")).body == "starting\n"
        listener = await node.listen("127.0.0.1:0")
        assert (await get(http, "/readyz")).status == 200
        node.queue("jobs")
        async with rstreams.connect(listener.url) as connection:
            await connection.publish("jobs", Stream.of(1))
            receiving = connection.stream("jobs", settlement="manual").open()
            async with receiving as deliveries:
                delivery = await anext(aiter(deliveries))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(node.drain_and_close)
                    with trio.fail_after(5):
                        while (told := await get(http, "/readyz")).status == 200:  # noqa: ASYNC110 - it is seen by asking
                            await trio.sleep(0.01)
                    assert (told.status, told.body) == (503, "draining\n")
                    assert (await get(http, "/livez")).body == "ok\n"
                    delivery.accept()


async def test_the_state_is_what_the_statistics_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_machine, "monotonic_clock", lambda: 5.0)  # times go on otherwise
    async with Node() as node:
        node.queue("jobs")
        told = await get(await node.listen_http("127.0.0.1:0"), "/state.json")
        assert told.headers["content-type"] == "application/json"
        assert json.loads(told.body) == node.statistics().as_dict()


async def test_other_paths_name_those_that_there_are() -> None:
    async with Node() as node:
        told = await get(await node.listen_http("127.0.0.1:0"), "/")
        assert told.status == 404
        assert "/metrics" in told.body


@pytest.mark.usefixtures("autojump_clock")
async def test_a_thousand_who_ask_together_get_the_same_page() -> None:
    made = 0

    class Told:
        def as_dict(self) -> Mapping[str, Any]:
            nonlocal made
            made += 1
            return {"made": made}

    pages = Pages(Told, lambda: iter(()), str, lambda _client: True)
    bodies: set[bytes] = set()

    async def ask() -> None:
        bodies.add((await pages.answer(Request("GET", "/state.json"), Client())).body)

    async with trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(ask)
    assert bodies == {b'{"made":1}'}
    await trio.sleep(KEPT_S)
    await ask()
    assert made == 2
