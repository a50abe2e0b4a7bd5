"""What ends a command: signals, readers that go, closed terminals. Nothing is lost, and the summary is printed."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.commands import Run, node, run, started
from tests.cli.peers import CommandNode, command_node

__all__ = ["node", "run"]

pytestmark = pytest.mark.slow

AT_MOST_S = 5.0
"""How long the end may take on a busy machine; the command itself leaves a second at the most."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_a_signal_ends_recv_and_gives_back(number: signal.Signals, run: Run, node: CommandNode) -> None:
    queue = node.queue
    run("send", queue, *map(str, range(10)))
    reader, writer = os.pipe()
    process = started("recv", queue, "--take", "--url", node.url, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert os.read(reader, 2) == b"0\n"  # it waits until the second one is read, too
    before = time.monotonic()
    process.send_signal(number)
    _, told = process.communicate(timeout=AT_MOST_S)
    assert time.monotonic() - before < AT_MOST_S
    assert process.returncode == 128 + number
    assert b"accepted" in told
    assert b"Traceback" not in told
    rest = os.read(reader, 100).decode().splitlines()
    os.close(reader)
    left = run("recv", queue, "-e").lines
    seen = {"0", *rest, *left}
    assert seen == set(map(str, range(10))), "each is in the pipe, or in the queue, or in both"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
def test_a_signal_ends_send_behind_its_outcomes(number: signal.Signals, run: Run, node: CommandNode) -> None:
    queue = node.queue
    process = started("send", queue, "--url", node.url, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(b"1\n2\n")
    process.stdin.flush()
    while run("recv", queue, "-e").lines != ["1", "2"]:
        assert process.poll() is None
    process.send_signal(number)
    assert process.stderr is not None
    told = process.stderr.read()
    assert process.wait(AT_MOST_S) == 128 + number
    assert b"2 sent: 2 accepted" in told
    assert b"Traceback" not in told
    process.stdin.close()
    process.stderr.close()


def test_a_reader_that_has_enough_gets_no_more_than_it_read(run: Run, node: CommandNode) -> None:
    queue = node.queue
    run("send", queue, *map(str, range(50)))
    process = started("recv", queue, "--take", "--url", node.url, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    head = subprocess.run(["head", "-n", "3"], stdin=process.stdout, capture_output=True, check=True)  # noqa: S607
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    told = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(AT_MOST_S) == 0
    assert head.stdout.split() == [b"0", b"1", b"2"]
    assert "3 messages accepted" in told
    assert "Traceback" not in told
    assert run("recv", queue, "-e").lines == [str(each) for each in range(3, 50)]


def test_a_peer_that_dies_leaves_outcomes_unknown(tmp_path: Path) -> None:
    with command_node(tmp_path) as dying:
        process = started("send", "q1", "--json", "--url", dying.url, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"1\n")
        process.stdin.flush()
        receiving = started("recv", "q1", "-n", "1", "--url", dying.url, stdout=subprocess.PIPE)
        assert receiving.communicate(timeout=60)[0] == b"1\n"
    process.stdin.write(b"2\n")
    process.stdin.close()
    summary = json.loads(process.stdout.read().splitlines()[-1])
    process.stdout.close()
    assert process.wait(60) == 4
    assert summary["accepted"] == 1
    assert summary["sent"] == summary["accepted"] + summary["unknown"]


def test_a_list_whose_reader_has_enough_ends_in_silence(node: CommandNode) -> None:
    process = started("ls", "--json", "--url", node.url, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(AT_MOST_S) == 0


def test_a_closed_output_is_said(node: CommandNode) -> None:
    command = [sys.executable, "-m", "rstreams", "recv", "q0", "--url", node.url]
    script = f"exec {shlex.join(command)} >&-"
    ended = subprocess.run(["/bin/sh", "-c", script], check=False, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr.endswith("standard output is closed; redirect it to a file, or give --out DIR\n")
    assert "Traceback" not in ended.stderr


def test_a_reader_that_goes_while_nothing_comes_ends_it(node: CommandNode) -> None:
    process = started("recv", node.queue, "--url", node.url, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(30) == 0


def test_a_slow_reader_slows_the_publisher(run: Run, node: CommandNode) -> None:
    queue = node.queue
    run("send", queue, "-n", "30000", "{random:100}")
    process = started("recv", queue, "--take", "--url", node.url, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    process.stdout.readline()
    left, before = 30_000, 0
    while left != before:  # until it takes no more
        left, before = len(run("recv", queue, "-e").lines), left
    process.kill()
    process.communicate()
    assert left > 30_000 - 5_000


def test_a_terminal_shows_no_escapes_of_a_peer_and_gets_progress(run: Run, node: CommandNode, tmp_path: Path) -> None:
    queue = node.queue
    run("send", queue, "\x1b[2Jtea\x07")
    mine, its = pty.openpty()
    process = started("recv", queue, "-n", "1", "--url", node.url, stdout=its, stderr=its, stdin=its)
    os.close(its)
    shown = b""
    while True:
        try:
            piece = os.read(mine, 1000)
        except OSError:  # the other side of a terminal is closed
            break
        if not piece:
            break
        shown += piece
    os.close(mine)
    assert process.wait(AT_MOST_S) == 0
    assert b"\\x1b[2Jtea\\x07\r\n" in shown
    assert b"1 message looked at" in shown


def test_a_closed_terminal_ends_it(run: Run, node: CommandNode) -> None:
    queue = node.queue
    run("send", queue, "tea")
    mine, its = pty.openpty()
    process = started("recv", queue, "--url", node.url, stdout=its, stderr=its, stdin=its, start_new_session=True)
    os.close(its)
    assert os.read(mine, 100).startswith(b"tea")
    os.close(mine)
    assert process.wait(AT_MOST_S) in {0, 129}
