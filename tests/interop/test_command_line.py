"""The commands at RabbitMQ 4: over pipes, in this process and as processes, and on a terminal."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rstreams.cli.__main__ import main
from tests.cli.commands import Ended
from tests.interop.rabbitmq import RabbitMQ

pytestmark = pytest.mark.broker

Run = Callable[..., Ended]


@pytest.fixture
def words(rabbitmq_4: RabbitMQ, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the options for the broker."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GUESTS_PASSWORD", "guest")
    return ["--url", rabbitmq_4.anonymous_url, "--user", "guest", "--password-file", "env:GUESTS_PASSWORD"]


@pytest.fixture
def run(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*own: str, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return Ended(main([*own, *words]), *capsys.readouterr())

    return run


@pytest.fixture
def queue(rabbitmq_4: RabbitMQ, request: pytest.FixtureRequest) -> str:
    name = f"command-{abs(hash(request.node.name))}"
    rabbitmq_4.declare(name)
    return name


def test_messages_are_sent_taken_and_copied(run: Run, queue: str) -> None:
    sent = run("send", queue, "tea", "milk", "--subject", "{n}", "-p", "n:=5", "--ttl", "5000", "--key", "k")
    assert sent.code == 0
    assert "2 sent: 2 accepted" in sent.err
    taken = run("recv", queue, "--take", "-e", "--json")
    assert [(each["body"], each["subject"], each["properties"]) for each in taken.objects] == [
        ("tea", "1", {"n": 5}),
        ("milk", "2", {"n": 5}),
    ]
    assert run("send", queue, "--jsonl", stdin=taken.out.encode()).code == 0
    assert run("recv", queue, "--take", "-n", "1", "--format", "%u %k %s").lines == ["1 k tea"]
    assert run("recv", queue, "--take", "--settle", "release", "-n", "1").lines == ["milk"]
    assert run("recv", queue, "--take", "--settle", "reject", "-n", "1").lines == ["milk"]
    assert run("recv", queue, "--take", "-e").out == ""


def test_a_queue_cannot_be_looked_at_and_keeps_its_messages(run: Run, queue: str) -> None:
    run("send", queue, "tea")
    looked = run("recv", queue)
    assert looked.code == 3
    assert "RabbitMQ" in looked.err
    assert "removes the messages of a queue when they are looked at; give --take" in looked.err
    assert run("recv", queue, "--take", "-e").lines == ["tea"]


def test_a_stream_is_looked_at(run: Run, rabbitmq_4: RabbitMQ) -> None:
    rabbitmq_4.declare("looked-at", type="stream")
    assert run("send", "looked-at", "a", "b", "c").code == 0
    for _ in range(2):
        assert run("recv", "looked-at", "-e").lines == ["a", "b", "c"]
    assert run("recv", "looked-at", "--from", "1", "-n", "2", "--format", "%o %s").lines == ["1 b", "2 c"]


def test_what_it_is_and_cannot_do(run: Run, queue: str) -> None:
    (shown,) = run("info", "--json").objects
    assert shown["product"].startswith("RabbitMQ 4")
    assert shown["can"]["look at queues"] is False
    assert shown["can"]["describe addresses"] is True
    (described,) = run("info", queue, "--json").objects
    assert described["statistics"]["name"] == queue
    listed = run("ls")
    assert (listed.code, listed.out) == (3, "")
    assert "does not list its addresses over AMQP; rstreams info ADDRESS looks at one" in listed.err
    delayed = run("send", queue, "a", "--delay", "5")
    assert delayed.code == 3
    assert "keeps no message back on request" in delayed.err


def test_mistakes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for own in (["send", "none", "a"], ["recv", "none", "--take"], ["recv", "none"], ["info", "none"]):
        ended = run(*own)
        assert ended.code == 1, ended
        assert "none" in ended.err
    monkeypatch.setenv("GUESTS_PASSWORD", "guess-work")
    for own in (["send", "q", "a"], ["recv", "q", "--take"], ["ls"], ["info"]):
        ended = run(*own)
        assert ended.code == 3, ended
        assert ended.err.count("\n") == 1
        assert "guess-work" not in ended.err


def test_lines_through_pipes_and_on_a_terminal(words: list[str], queue: str) -> None:
    command = [sys.executable, "-m", "rstreams"]
    lines = b"".join(b"%d\n" % number for number in range(3000))
    subprocess.run([*command, "send", queue, *words], input=lines, check=True, capture_output=True)
    got = subprocess.run(
        [*command, "recv", queue, "--take", "-n", "2999", *words], check=True, capture_output=True
    ).stdout
    mine, its = pty.openpty()
    with subprocess.Popen(
        [*command, "recv", queue, "--take", "-n", "1", *words], stdin=its, stdout=its, stderr=its
    ) as process:
        os.close(its)
        shown = b""
        while b"accepted" not in shown:
            shown += os.read(mine, 1000)
        assert process.wait(10) == 0
    os.close(mine)
    assert got == lines.removesuffix(b"2999\n")
    assert b"2999\r\n" in shown
    assert b"Traceback" not in shown
