"""`rstreams node`: a node as a process, from its one line to its end."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

import rstreams
from rstreams import Stream
from rstreams.cli.__main__ import main
from rstreams.errors import AuthenticationFailed
from rstreams.node import STATISTICS
from rstreams.tls import client_context
from tests.net.certificates import Files


class Running:
    """A node that runs as a process."""

    def __init__(self, process: trio.Process, line: str) -> None:
        self.process = process
        self.line = line
        self.url = line.removeprefix("listening on ").strip()


@asynccontextmanager
async def running(*arguments: str, variables: dict[str, str] | None = None) -> AsyncIterator[Running]:
    """Run a node in a process until the block ends; its end is part of the test."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "rstreams.cli", "node", "--listen", "127.0.0.1:0", *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, **(variables or {})},
    )
    try:
        assert process.stdout is not None
        line = b""
        while line.count(b"\n") < 1 + ("--http" in arguments):
            piece = await process.stdout.receive_some()
            assert piece, "the node ended before it listened"
            line += piece
        yield Running(process, line.decode())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if process.stdout is not None:
            await process.stdout.aclose()


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def said(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the exit code and the one line on stderr of a node that cannot start."""
    code = main(["node", "--listen", "127.0.0.1:0", *arguments])
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    return code, line


def test_a_store_that_cannot_be_used_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    code, line = said(["--store", f"{tmp_path}/file"], capsys)
    assert (code, line) == (2, f"rstreams node: store '{tmp_path}/file': it must be a directory, or a new name")


# a life


@pytest.mark.slow
async def test_it_says_where_it_listens_serves_its_addresses_and_ends_in_order(tmp_path: Path) -> None:
    file = tmp_path / "node.url"
    async with running("--queue", "work:7", "--multicast", "news:drop_oldest", "--url-file", str(file)) as node:
        assert node.line == f"listening on {node.url}\n"
        assert file.read_text() == f"{node.url}\n"
        assert names_in(tmp_path) == ["node.url"]
        async with rstreams.connect(node.url) as connection:
            assert (await connection.publish("work", Stream.of(b"a", b"b"))).accepted == 2
            assert await connection.stream("work").take(2).to_list() == [b"a", b"b"]
            assert (await connection.publish("news", Stream.of(b"unheard"))).accepted == 1
            (snapshot,) = await connection.stream(STATISTICS).take(1).to_list()
            assert snapshot["queues"]["work"]["capacity"] == 7
            assert snapshot["multicasts"]["news"]["overflow"] == "drop_oldest"
            assert snapshot["multicasts"]["news"]["unrouted"] == 1
        node.process.send_signal(signal.SIGTERM)
        assert await node.process.wait() == 0
        assert names_in(tmp_path) == []


@pytest.mark.slow
async def test_it_answers_http_where_it_is_told_to() -> None:
    async with running("--queue", "work", "--http", "127.0.0.1:0") as node:
        amqp, http = node.line.splitlines()
        assert amqp.startswith("listening on amqp://127.0.0.1:")
        async with httpx.AsyncClient(base_url=http.removeprefix("listening on ")) as client:
            assert (await client.get("/readyz")).text == "ok\n"
            assert 'rstreams_queue_capacity_messages{address="work"} 1024\n' in (await client.get("/metrics")).text


@pytest.mark.slow
async def test_one_signal_ends_it_in_order_and_another_changes_nothing() -> None:
    async with running("--queue", "work") as node:
        async with rstreams.connect(node.url) as connection, connection.stream("work").open() as items:
            node.process.send_signal(signal.SIGINT)
            node.process.send_signal(signal.SIGTERM)
            with pytest.raises(rstreams.RStreamsError, match="the node is closing"):
                await anext(items)
        assert await node.process.wait() == 0


@pytest.mark.slow
async def test_only_users_with_the_right_password_are_let_in(tmp_path: Path) -> None:
    file = tmp_path / "alice"
    file.write_text("open sesame\r\nsecond line\n")
    users = ["--user", f"alice:{file}", "--user", "bob:env:BOBS_PASSWORD"]
    async with running("--queue", "work", *users, variables={"BOBS_PASSWORD": "hunter2"}) as node:
        place = node.url.removeprefix("amqp://")
        for who in ("alice:open%20sesame", "bob:hunter2"):
            async with rstreams.connect(f"amqp://{who}@{place}") as connection:
                assert (await connection.publish("work", Stream.of(b"a"))).accepted == 1
        for who in ("alice:wrong@", "eve:hunter2@", ""):
            with pytest.raises(AuthenticationFailed):
                async with rstreams.connect(f"amqp://{who}{place}"):
                    pass


@pytest.mark.slow
async def test_mutual_tls_and_who_has_which_certificate(tmp_path: Path) -> None:
    files = Files(tmp_path)
    mine = ["--tls-cert", str(files.node), "--tls-key", str(files.node_key), "--tls-client-ca", str(files.ca)]
    async with running("--queue", "work", *mine) as node:
        assert node.url.startswith("amqps://127.0.0.1:")
        async with rstreams.connect(node.url, tls=files.client, sasl="EXTERNAL") as connection:
            assert (await connection.publish("work", Stream.of(b"a"))).accepted == 1
        with pytest.raises(AuthenticationFailed):
            async with rstreams.connect(node.url, tls=client_context(ca_file=files.ca)):
                pass
    async with running(*mine, "--certificate-user", "bob:CN=bob,O=Example") as node:
        with pytest.raises(AuthenticationFailed, match="it belongs to no user there"):
            async with rstreams.connect(node.url, tls=files.client):
                pass


# a life that does not begin


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        code, line = said(["--listen", place], capsys)
    assert code == 1
    assert line.startswith(f"rstreams node: cannot listen on {place}: ")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--listen", "nowhere"], "listen='nowhere': give host:port"),
        (["--listen", ""], "listen='': give host:port"),
        (["--queue", "work:many"], "--queue 'work:many': the capacity must be a number of messages, not 'many'"),
        (["--queue", "work:-1"], "--queue 'work:-1': the capacity must be a number"),
        (
            ["--queue", "orders:dead:5"],
            "--queue 'orders:dead:5': give NAME or NAME:CAPACITY; NAME must have no colon; dead",
        ),
        (["--queue", "::5"], "--queue '::5': give NAME or NAME:CAPACITY"),
        (["--multicast", "a:b:block"], "--multicast 'a:b:block': give NAME or NAME:OVERFLOW"),
        (["--queue", "work:0"], "queue 'work'(capacity=0)"),
        (["--queue", "work:"], "not ''"),
        (["--queue", ""], "queue(name='')"),
        (["--queue", ":10"], "queue(name='')"),
        (["--queue", "$statistics"], "queue(name='$statistics')"),
        (["--queue", "work", "--queue", "work:2"], "'work'"),
        (["--queue", "work", "--multicast", "work"], "'work'"),
        (["--multicast", "news:drop"], "--multicast 'news:drop': the overflow must be block or drop_oldest"),
        (["--user", "alice"], "--user 'alice': give NAME:FILE or NAME:env:VARIABLE"),
        (["--user", ":file"], "--user ''"),
        (["--user", "alice:env:NOT_SET_ANYWHERE"], "--user 'alice': the environment variable is empty or missing"),
        (["--user", "alice:/"], "--user 'alice': the password file cannot be read: Is a directory"),
    ],
)
def test_an_option_that_cannot_be(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = said(arguments, capsys)
    assert code == 2
    assert line.startswith("rstreams node: ")
    assert told in line


def test_a_password_given_by_mistake_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    code, line = said(["--user", "alice:hunter2"], capsys)
    assert code == 2
    assert "No such file" in line
    assert "hunter2" not in line


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the password file's first line is empty or missing"),
        (b"\nsecond", "the password file's first line is empty or missing"),
        (b"\xff\xfe", "it is not UTF-8 text"),
    ],
)
def test_a_password_file_that_cannot_be(
    content: bytes, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    code, line = said(["--user", f"alice:{file}"], capsys)
    assert code == 2
    assert told in line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tls-cert", "{}/none.pem"], "--tls-cert '{}/none.pem': the file cannot be read: No such file"),
        (["--tls-cert", "{}/node.pem", "--tls-key", "{}"], "--tls-key '{}': the file cannot be read: Is a directory"),
        (["--tls-cert", "{}/node.pem"], "--tls-cert '{}/node.pem': it does not hold a private key"),
        (["--tls-cert", "{}/node.key", "--tls-key", "{}/node.key"], "or '{}/node.key' no certificate, in PEM form"),
        (["--tls-cert", "{}/node.pem", "--tls-key", "{}/alice.pem"], "this is not the private key of the certificate"),
        (["--tls-cert", "{}/alice.pem", "--tls-client-ca", "{}/node.key"], "it holds no certificates"),
        (["--tls-key", "{}/node.key"], "TLS also needs a certificate of the node; give --tls-cert"),
        (["--tls-client-ca", "{}/ca.pem"], "--tls-client-ca '{}/ca.pem': TLS also needs"),
        (["--certificate-user", "alice"], "--certificate-user 'alice': give NAME:SUBJECT"),
        (["--certificate-user", "alice:CN=alice"], "by certificate alone, and no tls= is given"),
        (["--max-connections", "0"], "max_connections=0"),
        (["--max-message-bytes", "-5"], "max_message_bytes=-5"),
    ],
)
def test_security_that_cannot_be(
    arguments: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Files(tmp_path)
    code, line = said([each.format(tmp_path) for each in arguments], capsys)
    assert code == 2
    assert told.format(tmp_path) in line


def test_a_user_given_twice(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BOBS_PASSWORD", "hunter2")
    code, line = said(["--user", "bob:env:BOBS_PASSWORD", "--user", "bob:env:BOBS_PASSWORD"], capsys)
    assert (code, line) == (2, "rstreams node: --user 'bob' is given twice")


def test_a_url_file_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, line = said(["--url-file", str(tmp_path)], capsys)
    assert code == 1
    assert line.startswith(f"rstreams node: --url-file '{tmp_path}' cannot be written: ")
    code, line = said(["--url-file", str(tmp_path / "no" / "node.url")], capsys)
    assert code == 1
    assert line.endswith("cannot be written: No such file or directory")
    assert names_in(tmp_path) == []
