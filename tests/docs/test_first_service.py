"""The page about the first service: its files run as a reader starts them, and print what the page says."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks._processes import wait_until
from tests.docs.examples import ROOT

pytestmark = pytest.mark.slow  # each test starts other programs
PAGE = (ROOT / "docs" / "first-service.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^`(\w+\.\w+)`:\n\n```\w+\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL))
RUN = dict(re.findall(r"^```sh\n([^\n]*)\n```\n```text\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert sorted(FILES) == ["app.py", "letters.py", "node.toml", "test_shop.py", "worker.py"]
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


@contextmanager
def started(
    folder: Path, *arguments: str, url: str = "", end_by: signal.Signals = signal.SIGTERM
) -> Iterator[subprocess.Popen[str]]:
    """Run a program of the page, and end it by a signal."""
    environment = {**os.environ, "AMQP_URL": url, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as program:
        try:
            yield program
        finally:
            program.send_signal(end_by)


def line_of(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline()


def node_of(folder: Path, port: int) -> tuple[str, ...]:
    """Return the command of the node, which listens at a port of the test."""
    (folder / "test.toml").write_text(f'{FILES["node.toml"]}\n[[listen]]\nplace = "127.0.0.1:{port}"\n')
    command = next(command for command in RUN if command.startswith("rstreams node"))
    return ("-m", "rstreams.cli", *command.replace("node.toml", "test.toml").split()[1:])


def test_the_test_of_the_page_passes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("fastapi")
    monkeypatch.syspath_prepend(folder)
    for name in ("app", "worker", "test_shop"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import_module("test_shop").test_orders_are_billed_or_dead_letters(monkeypatch, capsys)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_the_application_waits_for_a_node_that_starts_later(folder: Path) -> None:
    pytest.importorskip("fastapi")
    http_port, port = free_port(), free_port()
    [serve] = re.findall(r"^uvicorn .*$", PAGE, re.MULTILINE)
    command = (sys.executable, "-m", *serve.split(), "--port", str(http_port), "--log-level", "error")
    environment = {**os.environ, "AMQP_URL": f"amqp://127.0.0.1:{port}", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as application:
        assert application.stderr is not None
        assert "connecting again" in application.stderr.readline()
        assert not answers(http_port)
        with started(folder, *node_of(folder, port)):
            wait_until(lambda: answers(http_port), "the application to listen", 60)
            application.terminate()
            application.wait()


def test_the_shop_works_and_loses_no_order(folder: Path) -> None:
    pytest.importorskip("fastapi")
    import httpx

    http_port = free_port()
    [serve] = re.findall(r"^uvicorn .*$", PAGE, re.MULTILINE)
    with started(folder, *node_of(folder, 0), end_by=signal.SIGKILL) as node:
        told = line_of(node)
        assert re.sub(r":\d+$", ":5672", told) == RUN["rstreams node --config node.toml"]
        url = told.split()[-1]
        with started(folder, "-m", *serve.split(), "--port", str(http_port), "--log-level", "error", url=url):

            def order(number: str, article: str, count: int) -> str:
                place = f"http://127.0.0.1:{http_port}/orders"
                return httpx.post(place, json={"id": number, "article": article, "count": count}, timeout=30).text

            wait_until(lambda: answers(http_port), "the application to listen", 30)
            assert order("A-1", "lamp", 2) + "\n" == next(
                said for command, said in RUN.items() if command.startswith("curl")
            )
            with started(folder, "worker.py", url=url) as worker:
                assert line_of(worker) == RUN["python worker.py"]
            assert worker.returncode == 0
            assert order("A-2", "chair", 1) == '{"order":"accepted"}'
            node.kill()
            node.wait()
            with started(folder, *node_of(folder, int(url.rpartition(":")[2])), end_by=signal.SIGKILL) as again:
                assert line_of(again) == told
                with started(folder, "worker.py", url=url) as worker:
                    assert line_of(worker) == "billed A-2, 1 x chair: 49.0\n"
                    assert order("A-3", "sofa", 1) == '{"order":"accepted"}'
                    said = ""
                    while not said:  # the letter comes after the third attempt
                        with started(folder, "letters.py", url=url) as letters:
                            said = letters.communicate()[0]
                    assert said == RUN["python letters.py"]
