"""Prometheus reads a node, and understands each rule and panel of examples/monitoring."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen
from uuid import uuid4

import pytest
import trio
import yaml

import rstreams
from benchmarks._processes import free_port
from rstreams import Node, Stream
from tests.interop.processes import Server, chrooted, installed, took_part

pytestmark = pytest.mark.broker

EXAMPLES: Final = Path(__file__).parents[2] / "examples" / "monitoring"
STAGED: Final = Path(__file__).with_name("alerts.yml")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder inside of the root of Prometheus, with the examples."""
    place = installed("prometheus", "bookworm") / "tmp" / f"rstreams-{uuid4().hex}"
    shutil.copytree(EXAMPLES, place)
    shutil.copy(STAGED, place / "staged.yml")
    yield place
    shutil.rmtree(place)


def promtool(folder: Path, *arguments: str) -> str:
    root = folder.parents[1]
    command = chrooted(root, "sh", "-c", 'cd "$0" && exec promtool "$@"', f"/tmp/{folder.name}", *arguments)  # noqa: S108
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_finds_nothing_wrong(folder: Path) -> None:
    took_part(f"Prometheus {promtool(folder, '--version').split()[2]}")
    assert "25 rules found" in promtool(folder, "check", "rules", "alerts.yml")
    promtool(folder, "check", "config", "prometheus.yml")


def test_each_rule_fires_in_its_trouble_and_none_without(folder: Path) -> None:
    assert "SUCCESS" in promtool(folder, "test", "rules", "staged.yml")


def expressions() -> list[str]:
    rules = yaml.safe_load((EXAMPLES / "alerts.yml").read_text())["groups"][0]["rules"]
    panels = json.loads((EXAMPLES / "dashboard.json").read_text())["panels"]
    shown = [target["expr"].replace("$instance", ".*") for panel in panels for target in panel["targets"]]
    return [*(rule["expr"] for rule in rules), *shown]


async def test_prometheus_runs_each_expression_over_what_a_node_tells(folder: Path, tmp_path: Path) -> None:
    async with Node() as node:
        node.queue("orders")
        node.multicast("prices")
        listener, http = await node.listen("127.0.0.1:0"), await node.listen_http("127.0.0.1:0")
        config = yaml.safe_load((folder / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["scrape_configs"][0]["static_configs"] = [{"targets": [f"127.0.0.1:{http.port}"]}]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        inside, port = f"/tmp/{folder.name}", free_port()  # noqa: S108
        options = [f"--config.file={inside}/prometheus.yml", f"--storage.tsdb.path={inside}/data"]
        options.append(f"--web.listen-address=127.0.0.1:{port}")
        server = Server(chrooted(folder.parents[1], "prometheus", *options), port=port, log=tmp_path / "output")
        await trio.to_thread.run_sync(server.start)
        try:
            async with rstreams.connect(listener.url) as connection:
                await connection.publish("orders", Stream.of("tea", "milk"))
            with trio.fail_after(60):
                await until_ready(port)
                while await value(port, "rstreams_queue_messages_ready") != "2":  # noqa: ASYNC110 - it is seen by asking
                    await trio.sleep(0.2)
            assert await value(port, 'up{job="rstreams"}') == "1"
            for expression in expressions():
                await ask(port, expression)
        finally:
            server.kill()


async def until_ready(port: int) -> None:
    """Wait until Prometheus answers questions: its port is open before that."""

    def is_ready() -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=10):
                return True
        except HTTPError:
            return False

    while not await trio.to_thread.run_sync(is_ready):  # noqa: ASYNC110 - as above
        await trio.sleep(0.2)


async def ask(port: int, expression: str) -> list[Any]:
    """Return the result of an expression."""

    def fetch() -> dict[str, Any]:
        with urlopen(f"http://127.0.0.1:{port}/api/v1/query?{urlencode({'query': expression})}", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    answer = await trio.to_thread.run_sync(fetch)
    assert answer["status"] == "success", answer
    result: list[Any] = answer["data"]["result"]
    return result


async def value(port: int, expression: str) -> str | None:
    """Return the one value of an expression; None if there is none yet."""
    result = await ask(port, expression)
    return str(result[0]["value"][1]) if result else None
