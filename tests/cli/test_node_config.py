"""`rstreams node --config`: a node of a file as a process, what signals do to it, and the commands around it."""

from __future__ import annotations

import base64
import hashlib
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from cryptography.x509 import load_pem_x509_certificate
from proton import Message as ProtonMessage
from proton.utils import BlockingConnection

import rstreams
from rstreams import Node, Stream
from rstreams.cli.__main__ import main
from rstreams.cli.serving import serve
from rstreams.errors import AuthenticationFailed, ConfigError, ConnectionClosed, LinkDetached, RStreamsError
from rstreams.net.transport.listening_place import ListeningPlace
from rstreams.node.config import NodeConfig, read_config
from tests.net.certificates import Files, alice, certificate
from tests.net.dated_certificates import Dated, dates


def hash_of(password: str) -> str:
    """Return a hash of a password that is quick to make and to check."""
    salt, digest = (
        base64.b64encode(each).decode().rstrip("=")
        for each in (b"a salt for tests", hashlib.scrypt(password.encode(), salt=b"a salt for tests", n=16, r=8, p=1))
    )
    return f"$scrypt$ln=4,r=8,p=1${salt}${digest}"


class Running:
    """A node that runs as a process, with what it writes."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self.told = ""
        self._news = trio.Event()

    @property
    def urls(self) -> list[str]:
        return [line.removeprefix("listening on ") for line in self.lines]

    def url_for(self, user: str, password: str) -> str:
        return self.urls[0].replace("//", f"//{user}:{password}@")

    async def listens(self, listeners: int) -> None:
        """Wait until the node has said where it listens."""
        assert self.process.stdout is not None
        text = ""
        while text.count("\n") < listeners:
            piece = await self.process.stdout.receive_some()
            assert piece, f"the node ended before it listened: {self.told}"
            text += piece.decode()
        self.lines = text.splitlines()

    async def read_err(self) -> None:
        assert self.process.stderr is not None
        async for piece in self.process.stderr:
            self.told += piece.decode()
            self._news.set()

    async def tells(self, text: str) -> None:
        """Wait until the node has written a text to its log."""
        with trio.fail_after(60):
            while text not in self.told:
                self._news = trio.Event()
                await self._news.wait()


@asynccontextmanager
async def running(file: Path, *, listeners: int = 1) -> AsyncIterator[Running]:
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "rstreams.cli", "node", "--config", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    node = Running(process)
    async with trio.open_nursery() as nursery:
        try:
            nursery.start_soon(node.read_err)
            await node.listens(listeners)
            yield node
        finally:
            if process.returncode is None:
                process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
            nursery.cancel_scope.cancel()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        await stream.aclose()


def config(folder: Path, text: str) -> Path:
    file = folder / "node.toml"
    file.write_text(text, encoding="utf-8")
    return file


def shop(*, permission: str = "orders", users: str = "", queue: str = "capacity = 5") -> str:
    return f"""
[[listen]]
place = "127.0.0.1:0"
[queues.orders]
{queue}
[queues.bills]
[users.alice]
password = "{hash_of("sesame")}"
{users}
[[permissions]]
users = "*"
addresses = "{permission}"
allow = ["publish", "subscribe"]
"""


# a life


@pytest.mark.slow
async def test_a_node_of_a_file(tmp_path: Path) -> None:
    async with running(config(tmp_path, shop())) as node:
        async with rstreams.connect(node.url_for("alice", "sesame")) as connection:
            assert (await connection.publish("orders", Stream.of(1, 2))).accepted == 2
            assert await connection.stream("orders").take(2).to_list() == [1, 2]
            with pytest.raises(LinkDetached, match="user 'alice' may not publish to 'bills'"):
                await connection.publish("bills", Stream.of(1))
        for url in (node.url_for("alice", "wrong"), node.url_for("eve", "sesame"), node.urls[0]):
            with pytest.raises(AuthenticationFailed):
                async with rstreams.connect(url):
                    pass
        node.process.send_signal(signal.SIGTERM)
        assert await node.process.wait() == 0
        assert "sesame" not in node.told
        assert hash_of("sesame") not in node.told


@pytest.mark.slow
async def test_protons_own_client_as_a_user_of_the_file(tmp_path: Path) -> None:
    def work(url: str) -> str:
        place = url.removeprefix("amqp://")
        connection = BlockingConnection(
            f"amqp://alice:sesame@{place}", timeout=30, allowed_mechs="PLAIN", allow_insecure_mechs=True
        )
        try:
            connection.create_sender("orders").send(ProtonMessage(body="from proton"))
            receiver = connection.create_receiver("orders")
            body = receiver.receive(timeout=30).body
            receiver.accept()
            with pytest.raises(Exception, match="amqp:unauthorized-access"):
                connection.create_sender("bills").send(ProtonMessage(body="no"))
            return str(body)
        finally:
            connection.close()

    async with running(config(tmp_path, shop())) as node:
        assert await trio.to_thread.run_sync(work, node.urls[0]) == "from proton"


@pytest.mark.slow
async def test_two_listeners_and_a_certificate(tmp_path: Path) -> None:
    files = Files(tmp_path)
    subject = load_pem_x509_certificate(alice().cert_chain_pems[0].bytes()).subject.rfc4514_string()
    text = """
[[listen]]
place = "127.0.0.1:0"
tls = { certificate = "node.pem", key = "node.key", client_ca = "ca.pem" }
[[listen]]
place = "127.0.0.1:0"
tls = { certificate = "both.pem", client_ca = "ca.pem" }
[queues.orders]
[users.Alice]
certificates = "SUBJECT"
[[permissions]]
users = "Alice"
addresses = "orders"
allow = "publish"
"""
    async with running(config(tmp_path, text.replace("SUBJECT", subject)), listeners=2) as node:
        for url in node.urls:
            async with rstreams.connect(url, tls=files.client, sasl="EXTERNAL") as connection:
                await connection.publish("orders", Stream.of(1))
                with pytest.raises(LinkDetached, match="user 'Alice' may not subscribe to 'orders'"):
                    await connection.stream("orders").to_list()


# signals


@pytest.mark.slow
async def test_the_first_sigterm_drains(tmp_path: Path) -> None:
    async with running(config(tmp_path, shop())) as node:
        url = node.url_for("alice", "sesame")
        opened = rstreams.connect(url)
        async with opened as connection, connection.stream("orders", settlement="manual").open() as orders:
            await connection.publish("orders", Stream.of("a", "b"))
            first = await anext(orders)
            node.process.send_signal(signal.SIGTERM)
            await node.tells("the node finishes the work under way")
            first.accept()
            second = await anext(orders)
            assert (first.item, second.item) == ("a", "b")
            second.accept()
            with pytest.raises(RStreamsError, match="the node is closing"):
                await anext(orders)
        assert await node.process.wait() == 0
        assert "the node ends: no messages are left" in node.told


@pytest.mark.slow
async def test_draining_ends_at_its_time_limit_and_the_log_tells_what_is_left(tmp_path: Path) -> None:
    file = config(tmp_path, "[node]\ndrain_s = 0.2\n" + shop())
    async with running(file) as node, rstreams.connect(node.url_for("alice", "sesame")) as connection:
        await connection.publish("orders", Stream.of("a", "b"))
        async with connection.stream("orders", settlement="manual").open() as orders:
            await anext(orders)
            node.process.send_signal(signal.SIGTERM)
            assert await node.process.wait() == 0
    assert "WARNING the node ends: 2 messages are lost with the process (2 at queue 'orders')" in node.told


@pytest.mark.slow
@pytest.mark.parametrize("drain_s", [0, 3600])
async def test_the_log_tells_what_is_left_also_without_the_time_for_a_drain(tmp_path: Path, drain_s: int) -> None:
    file = config(tmp_path, f'[node]\ndrain_s = {drain_s}\nstore = "store"\n' + shop(queue="durable = true"))
    async with running(file) as node, rstreams.connect(node.url_for("alice", "sesame")) as connection:
        await node.tells(" s: 0 messages are in it [")
        assert re.search(r"\d INFO store '.*' was opened in \d+\.\d\d s: 0 messages", node.told)
        await connection.publish("orders", Stream.of("a", "b"))
        async with connection.stream("orders", settlement="manual").open() as orders:
            await anext(orders)
            node.process.send_signal(signal.SIGTERM)
            if drain_s:
                await node.tells("the node finishes the work under way")
                node.process.send_signal(signal.SIGTERM)
            assert await node.process.wait() == 0
    assert "WARNING the node ends: 2 messages are kept in the store (2 at durable queue 'orders')" in node.told
    async with running(file) as node:
        await node.tells("2 messages are in it (2 at durable queue 'orders')")


@pytest.mark.slow
async def test_a_second_sigterm_ends_it_at_once(tmp_path: Path) -> None:
    file = config(tmp_path, "[node]\ndrain_s = 3600\n" + shop())
    async with running(file) as node, rstreams.connect(node.url_for("alice", "sesame")) as connection:
        await connection.publish("orders", Stream.of("a"))
        async with connection.stream("orders", settlement="manual").open() as orders:
            await anext(orders)
            node.process.send_signal(signal.SIGTERM)
            await node.tells("the node finishes the work under way")
            node.process.send_signal(signal.SIGTERM)
            with pytest.raises(RStreamsError, match="the node is closing"):
                await anext(orders)
            assert await node.process.wait() == 0


@pytest.mark.slow
async def test_sighup_reads_users_and_permissions_again(tmp_path: Path) -> None:
    file = config(tmp_path, shop())
    async with running(file) as node, rstreams.connect(node.url_for("alice", "sesame")) as connection:
        config(tmp_path, shop(permission="bills", users=f'[users.bob]\npassword = "{hash_of("b")}"'))
        node.process.send_signal(signal.SIGHUP)
        await node.tells(f"{file} has been read again")
        assert "restart" not in node.told
        await connection.publish("bills", Stream.of(1))
        with pytest.raises(LinkDetached, match="may not publish to 'orders'"):
            await connection.publish("orders", Stream.of(1))
        async with rstreams.connect(node.url_for("bob", "b")) as bob:
            assert await bob.stream("bills").take(1).to_list() == [1]


@pytest.mark.slow
async def test_sighup_closes_the_connections_of_users_that_are_gone(tmp_path: Path) -> None:
    file = config(tmp_path, shop(users=f'[users.bob]\npassword = "{hash_of("b")}"'))
    async with (
        running(file) as node,
        rstreams.connect(node.url_for("bob", "b")) as bob,
        bob.stream("orders").open() as orders,
    ):
        config(tmp_path, shop())
        node.process.send_signal(signal.SIGHUP)
        with pytest.raises(ConnectionClosed, match="the node does not let in this user any more"):
            await anext(orders)


@pytest.mark.slow
async def test_sighup_with_a_broken_file_keeps_what_was_and_says_so(tmp_path: Path) -> None:
    file = config(tmp_path, shop())
    async with running(file) as node:
        config(tmp_path, shop() + "\n[users.bob]\npassword = 'without-a-hash'\n[queues.x]\ncapacity = 0\n")
        node.process.send_signal(signal.SIGHUP)
        await node.tells(f"{file} is not used: the old users, permissions, limits and certificates stay")
        assert ":16: the hash of a password must look like" in node.told
        assert ":18: queue 'x'(capacity=0)" in node.told
        assert "without-a-hash" not in node.told
        file.unlink()
        node.process.send_signal(signal.SIGHUP)
        await node.tells("it cannot be read: No such file or directory")
        async with rstreams.connect(node.url_for("alice", "sesame")) as connection:
            await connection.publish("orders", Stream.of(1))


async def test_sighup_before_the_node_listens_takes_effect_behind_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = config(tmp_path, shop())
    listen, told = NodeConfig.listen, trio.Event()

    async def listen_late(self: NodeConfig, node: Node) -> list[ListeningPlace]:
        signal.raise_signal(signal.SIGHUP)
        await trio.testing.wait_all_tasks_blocked(0.1)  # if it were acted on now, the node would fail
        return await listen(self, node)

    async def renew(_self: NodeConfig, _node: Node, _before: NodeConfig, listeners: Sequence[ListeningPlace]) -> None:
        assert len(listeners) == 1
        told.set()

    monkeypatch.setattr(NodeConfig, "listen", listen_late)
    monkeypatch.setattr(NodeConfig, "renew", renew)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve, read_config(file), file=file))
        await told.wait()
        signal.raise_signal(signal.SIGTERM)


async def test_a_file_that_is_not_used_at_sighup_may_need_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """For instance one that has no users any more, and `anonymous = true`, which the open listener does not have."""
    file = config(tmp_path, shop())
    described, told = read_config(file), trio.Event()

    async def renew(_self: NodeConfig, _node: Node, _before: NodeConfig, _listeners: Sequence[ListeningPlace]) -> None:
        told.set()
        msg = "everyone would be let in"
        raise ConfigError(msg)

    monkeypatch.setattr(NodeConfig, "renew", renew)
    config(tmp_path, shop() + "[queues.more]\n")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve, described, file=file))
        await trio.testing.wait_all_tasks_blocked(0.1)
        signal.raise_signal(signal.SIGHUP)
        await told.wait()
        signal.raise_signal(signal.SIGTERM)
    assert f"{file} has changes that need a restart" in caplog.text


@pytest.mark.slow
async def test_sighup_says_what_needs_a_restart(tmp_path: Path) -> None:
    file = config(tmp_path, shop())
    async with running(file) as node:
        config(tmp_path, shop() + "[queues.more]\n")
        node.process.send_signal(signal.SIGHUP)
        await node.tells("has changes that need a restart: queue 'more' is new")
        await node.tells("has been read again")


def described(folder: Path, text: str) -> NodeConfig:
    return read_config(config(folder, text))


SMALL = """
[node]
total_links = 100
drain_s = 5
[[listen]]
place = "127.0.0.1:5672"
[queues.orders]
capacity = 5
when_full = "reject"
[multicasts.prices]
"""


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ("", "", []),
        ("capacity = 5", "capacity = 6", ["capacity of queue 'orders'"]),
        ("capacity = 5", "", ["capacity of queue 'orders'"]),
        ('capacity = 5\nwhen_full = "reject"', "capacity = 6", ["capacity, when_full of queue 'orders'"]),
        ("[multicasts.prices]", "[multicasts.costs]", ["multicast 'prices' is gone", "multicast 'costs' is new"]),
        ("[multicasts.prices]", "[queues.prices]", ["multicast 'prices' is gone", "queue 'prices' is new"]),
        ("total_links = 100", "total_links = 200", ["total_links of the node"]),
        ("drain_s = 5", "", ["drain_s of the node"]),
        (":5672", ":5673", ["listener 127.0.0.1:5672 is gone", "listener 127.0.0.1:5673 is new"]),
        (':5672"', ':5672"\nmax_connections = 7', ["max_connections of listener 127.0.0.1:5672"]),
        (':5672"', ':5672"\ntls = { certificate = "both.pem" }', ["tls of listener 127.0.0.1:5672"]),
        (
            "[multicasts.prices]",
            '[[listen]]\nplace = "127.0.0.1:0"\n' * 2 + "[multicasts.prices]",
            ["listener 127.0.0.1:0 is new", "listener 127.0.0.1:0 again is new"],
        ),
    ],
)
def test_each_change_that_needs_a_restart_is_named(tmp_path: Path, before: str, now: str, told: list[str]) -> None:
    Files(tmp_path)
    was, is_now = described(tmp_path, SMALL), described(tmp_path, SMALL.replace(before, now))
    changes = is_now.fixed_changes(was)
    assert len(changes) == len(told)
    assert all(change.endswith(each) for change, each in zip(changes, told, strict=True)), changes


def test_another_order_of_addresses_needs_a_restart(tmp_path: Path) -> None:
    one, two = (described(tmp_path, f"[queues.{a}]\n[queues.{b}]\n") for a, b in ("xy", "yx"))
    assert two.fixed_changes(one) == ["the order of addresses or listeners"]


@pytest.mark.slow
async def test_sighup_reads_certificates_again(tmp_path: Path) -> None:
    files = Files(tmp_path)
    text = """
[[listen]]
place = "127.0.0.1:0"
tls = { certificate = "both.pem" }
[queues.orders]
"""
    file = config(tmp_path, text)
    trusting = rstreams.tls.client_context(ca_file=files.ca)
    async with running(file) as node:
        async with rstreams.connect(node.urls[0], tls=trusting) as before:
            certificate("127.0.0.1", expired=True).private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
            node.process.send_signal(signal.SIGHUP)
            await node.tells("has been read again")
            with pytest.raises(RStreamsError, match="expired"):
                async with rstreams.connect(node.urls[0], tls=trusting):
                    pass
            await before.publish("orders", Stream.of(1))
        (tmp_path / "both.pem").write_text("nothing")
        node.process.send_signal(signal.SIGHUP)
        await node.tells("is not used")


@pytest.mark.slow
async def test_certificates_that_end_are_told_at_the_start_and_at_sighup(tmp_path: Path) -> None:
    Dated("node", *dates("ending")).write(tmp_path / "node.pem")
    text = """
[[listen]]
place = "127.0.0.1:0"
tls = { certificate = "node.pem" }
"""
    async with running(config(tmp_path, text)) as node:
        await node.tells(" WARNING amqps://127.0.0.1:")
        await node.tells("node.pem' expires soon, at ")
        Dated("node", *dates("expired")).write(tmp_path / "node.pem")
        node.process.send_signal(signal.SIGHUP)
        await node.tells("node.pem' has expired, at ")
        await node.tells("has been read again")


# commands


@pytest.mark.parametrize("state", ["good", "ending", "expired", "early"])
def test_check_warns_of_certificates(tmp_path: Path, state: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = Dated("node", *dates(state)).write(tmp_path / "node.pem")
    written = config(tmp_path, '[[listen]]\nplace = "127.0.0.1:0"\ntls = { certificate = "node.pem" }\n')
    words = {"good": "", "ending": "expires soon, at", "expired": "has expired, at", "early": "is not valid before"}
    for options in (["--config", str(written)], ["--listen", "127.0.0.1:0", "--tls-cert", str(file)]):
        assert main(["node", *options, "--check"]) == 0, "it would run"
        out, err = capsys.readouterr()
        assert "listener 127.0.0.1:0: TLS with" in out
        if state == "good":
            assert err == ""
        else:
            assert err.startswith(f"WARNING listener 127.0.0.1:0: certificate={str(file)!r} {words[state]} 2")


LETTERS = """
[node]
store = "{store}"
[queues.dead]
{dead}
[queues.orders]
dead_letters = "dead"
{orders}
"""


@pytest.mark.parametrize("dead", ["", "durable = true"])
@pytest.mark.parametrize("orders", ["", "durable = true"])
async def test_dead_letters_that_are_lost_at_a_restart_are_told_by_check_and_at_the_start(
    tmp_path: Path, dead: str, orders: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    text = LETTERS.format(store=tmp_path / "s", dead=dead, orders=orders)
    said = (
        "queue 'orders' is durable, and its dead letters are not: those in 'dead' are lost at a restart; "
        "make that queue durable, too"
    )
    file = config(tmp_path, text)
    with caplog.at_level("WARNING"):
        assert main(["node", "--config", str(file), "--check"]) == 0
        assert caplog.messages == []
        _, err = capsys.readouterr()
        assert err == (f"WARNING {said}\n" if orders and not dead else "")
        async with read_config(file).make():
            await trio.testing.wait_all_tasks_blocked()
    assert caplog.messages == ([said] if orders and not dead else [])


@pytest.mark.parametrize(
    ("options", "who"),
    [
        ("", "listener 127.0.0.1:5672 lets in every client of this machine"),
        ("--listen 0.0.0.0:5672 --anonymous", "listener 0.0.0.0:5672 lets in every client of any machine"),
    ],
)
def test_check_says_who_is_let_in_without_users(options: str, who: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "--check", *options.split()]) == 0
    assert f"users: none; {who}\n" in capsys.readouterr().out


def test_check_prints_what_would_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "--config", str(config(tmp_path, shop())), "--check"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "node",
        "listener 127.0.0.1",
        "queue 'orders'",
        "queue 'bills'",
        "user 'alice'",
        "permission",
    ]
    assert lines[-1] == "permission: * may publish, subscribe at orders"
    assert "scrypt" not in out


def test_check_prints_all_that_is_wrong_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = config(tmp_path, "[node]\nmax_links = 0\n[queues.a]\ncapacity = 0\n")
    assert main(["node", "--config", str(file), "--check"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.rpartition(f"{file}:")[2].partition(":")[0] for line in err.splitlines()] == ["2", "4"]


def test_a_broken_file_is_one_line_and_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = config(tmp_path, "[node]\nmax_links = 0\n[queues.a]\ncapacity = 0\n")
    assert main(["node", "--config", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith(f"rstreams node: {file}:2: max_links=0: max_links must be 1 to 2147483647 links (and 1 more")


def test_check_of_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "--queue", "orders:7", "--check"]) == 0
    assert "queue 'orders': capacity=7" in capsys.readouterr().out
    assert main(["node", "--queue", "orders:0", "--check"]) == 2
    assert "capacity must be 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--queue", "x"], ["--listen", "127.0.0.1:0"], ["--max-unsettled", "5"]])
def test_a_file_and_options_do_not_describe_a_node_together(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["node", "--config", str(config(tmp_path, "")), *option]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"rstreams node: {option[0]} with --config: give it in the file")
    assert ("[[listen]]" in told) == (option[0] == "--listen")


def test_a_time_for_draining_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "--drain-s", "-1"]) == 2
    assert "--drain-s=-1.0" in capsys.readouterr().err


@pytest.mark.slow
async def test_durable_queues_of_a_file_come_back_and_check_opens_no_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config(tmp_path, '[node]\nstore = "data"\n' + shop().replace("capacity = 5", "durable = true"))
    assert main(["node", "--config", str(file), "--check"]) == 0, capsys.readouterr().err
    assert not (tmp_path / "data").exists()
    async with running(file) as node, rstreams.connect(node.url_for("alice", "sesame")) as connection:
        await connection.publish("orders", Stream.range(3))
        assert main(["node", "--config", str(file), "--check"]) == 0, "also while it runs"
    assert (tmp_path / "data").exists()
    async with running(file) as node, rstreams.connect(node.url_for("alice", "sesame")) as connection:
        assert await connection.stream("orders").take(3).to_list() == [0, 1, 2]


def test_a_durable_queue_without_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = config(tmp_path, "[queues.orders]\ncapacity = 5\ndurable = true\nfsync = 'never'\n")
    assert main(["node", "--config", str(file), "--check"]) == 2
    assert capsys.readouterr().err.endswith(
        "node.toml:3: queue 'orders': durable=True: the node has no store: use Node(store=PATH)\n"
    )
