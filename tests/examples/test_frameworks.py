"""The examples in frameworks of asyncio, each with the framework itself and a node beside it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import rstreams.aio as rstreams
from rstreams.aio import Node, Stream
from rstreams.errors import RequestFailed
from tests.loops import OnAsyncio, in_thread

until = OnAsyncio().until
FOLDER = Path(__file__).parents[2] / "examples" / "frameworks"


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Node, str]]:
    async with Node(expose_errors=True) as node:
        listener = await node.listen("127.0.0.1:0")
        yield node, listener.url


def run(main: Any) -> None:  # noqa: ANN401 - an async function
    in_thread(lambda: asyncio.run(main()))


def test_each_example_is_short() -> None:
    for file in FOLDER.glob("*.py"):
        assert len(file.read_text(encoding="utf-8").splitlines()) < 90, file


@pytest.mark.slow
def test_fastapi_publishes_and_streams_by_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi")
    import httpx
    import uvicorn

    from examples.frameworks.fastapi_app import app

    async def main() -> None:
        async with listening() as (node, url):
            queue = node.queue("orders")
            drawn: list[int] = []
            node.serve("prices", Stream.range(100_000).do_on_next(drawn.append).map(lambda price: {"price": price}))
            monkeypatch.setenv("AMQP_URL", url)
            server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
            serving = asyncio.create_task(server.serve())
            await until(lambda: server.started)
            port = server.servers[0].sockets[0].getsockname()[1]
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                answer = await client.post("/orders", json={"article": "a lamp"})
                assert (answer.status_code, answer.json()) == (202, {"order": "accepted"})
                assert queue.statistics().ready == 1
                async with client.stream("GET", "/prices") as events:
                    lines = [line async for line in take(events.aiter_lines(), 5)]
                assert [json.loads(line.removeprefix("data: ")) for line in lines if line] == [
                    {"price": 0},
                    {"price": 1},
                    {"price": 2},
                ]
            await until(lambda: not node.statistics().served["prices"].subscribers)
            assert len(drawn) < 100_000
            server.should_exit = True
            await serving

    run(main)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_fastapi_ends_at_a_signal_while_browsers_listen(number: signal.Signals) -> None:
    """One browser listens to a stream without end, one to a stream that is silent; both get the end of their answer."""
    pytest.importorskip("fastapi")
    import httpx

    async def listen(client: httpx.AsyncClient, listening: asyncio.Event) -> int:
        events = 0
        async with client.stream("GET", "/prices") as answer:
            async for line in answer.aiter_lines():
                events += line.startswith("data: ")
                listening.set()
        return events

    async def main() -> None:
        async with listening() as (node, url):
            node.queue("orders")
            streams = iter([Stream.from_iterable(count()), Stream.of(1).concat(Stream.never())])
            node.serve("prices", Stream.defer(lambda: next(streams)))
            command = [sys.executable, "-m", "uvicorn", "--port", "0", "examples.frameworks.fastapi_app:app"]
            server = await asyncio.create_subprocess_exec(
                *command, env={**os.environ, "AMQP_URL": url}, stderr=asyncio.subprocess.PIPE, cwd=FOLDER.parents[1]
            )
            assert server.stderr is not None
            log: list[str] = []
            while not log or "running on" not in log[-1]:
                log.append((await server.stderr.readline()).decode())
                assert log[-1], log
            async with httpx.AsyncClient(base_url=log[-1].split()[4]) as client:
                browsers, told = [], [asyncio.Event(), asyncio.Event()]
                for event in told:
                    browsers.append(asyncio.create_task(listen(client, event)))
                    await event.wait()
                server.send_signal(number)
                try:
                    _, rest = await asyncio.wait_for(server.communicate(), 30)
                finally:
                    if server.returncode is None:
                        server.kill()
                    events = await asyncio.gather(*browsers, return_exceptions=True)
            assert events[1] == 1
            assert isinstance(events[0], int), events
            assert "ERROR" not in rest.decode(), rest.decode()
            assert "Application shutdown complete" in rest.decode()
            await until(lambda: not node.statistics().served["prices"].subscribers)

    run(main)


async def take(lines: AsyncIterator[str], count: int) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        count -= 1
        if not count:
            return


@pytest.mark.slow
def test_aiohttp_asks_a_responder(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiohttp")
    from aiohttp import ClientSession
    from aiohttp.web import AppRunner, TCPSite

    from examples.frameworks.aiohttp_app import make_app

    async def price(article: str) -> float:
        await asyncio.sleep(0)
        if article != "lamp":
            condition, text = "example:unknown-article", f"no article {article}"
            raise RequestFailed(condition, text)
        return 19.5

    async def main() -> None:
        async with listening() as (node, url):
            node.respond("price", price)
            monkeypatch.setenv("AMQP_URL", url)
            runner = AppRunner(make_app())
            await runner.setup()
            site = TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port = runner.addresses[0][1]
            async with ClientSession(f"http://127.0.0.1:{port}") as client:
                async with client.get("/price/lamp") as answer:
                    assert await answer.json() == {"article": "lamp", "price": 19.5}
                async with client.get("/price/chair") as answer:
                    assert (answer.status, await answer.text()) == (404, "no article chair")
            await runner.cleanup()

    run(main)


@pytest.mark.slow
def test_batches_are_accepted_when_they_are_committed(tmp_path: Path) -> None:
    pytest.importorskip("aiosqlite")
    from examples.frameworks.into_sqlite import store_readings

    path = tmp_path / "readings.db"

    async def main() -> None:
        async with listening() as (node, url), rstreams.connect(url) as connection:
            queue = node.queue("readings", capacity=2000)
            readings = Stream.range(1000).map(lambda number: {"station": "EWR", "celsius": float(number)})
            await connection.publish("readings", readings)
            storing = asyncio.create_task(store_readings(url, str(path), most=100, wait_s=0.05))
            await until(lambda: queue.statistics().accepted == 1000 or storing.done())
            storing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await storing

    run(main)
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*), sum(celsius) FROM readings").fetchone() == (1000, 499_500.0)
    database.close()


@pytest.mark.slow
def test_the_notebook_runs_from_cell_to_cell() -> None:
    """In IPython's shell, which runs the cells of Jupyter in one loop."""
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    notebook = json.loads((FOLDER / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    results: list[Any] = []

    async def main() -> None:
        shell: Any = InteractiveShell(history_length=0)  # type: ignore[no-untyped-call]
        for cell in cells:
            result = await asyncio.create_task(shell.run_cell_async(cell, transformed_cell=cell))
            result.raise_error()
            results.append(result.result)

    run(main)
    assert results[0] == [number * number for number in range(10)]
    assert 20 <= results[3][0] < 25
