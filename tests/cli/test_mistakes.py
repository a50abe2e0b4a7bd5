"""Each command with each mistake: one line with what to try, the documented code, no traceback and no password."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.commands import Run, node, run
from tests.cli.peers import CommandNode, command_node, server

__all__ = ["node", "run"]

pytestmark = pytest.mark.slow

COMMANDS = {
    "send": ["send", "q1", "tea"],
    "send lines": ["send", "q1"],
    "recv": ["recv", "q1", "-n", "1"],
    "recv take": ["recv", "q1", "-n", "1", "--take"],
    "ls": ["ls"],
    "info": ["info"],
    "info address": ["info", "q1"],
}
"""Each command that talks to a peer."""

MISTAKES = {
    "scheme": (2, "the scheme is 'http', and must be 'amqp'"),
    "port": (2, "its host or port is not valid"),
    "password": (2, "it has a password, and the process list would show it"),
    "context": (2, "there is no context 'none'"),
    "contexts": (2, "is not a file of contexts"),
    "timeout": (2, "--timeout 0: give a number of seconds"),
    "password file": (2, "cannot be read: No such file"),
    "authorities": (2, "--tls-ca"),
    "dialect": (2, "dialect"),
    "nobody": (4, "Otherwise give --url, or another --context"),
    "unknown host": (4, "Otherwise give --url, or another --context"),
    "http": (4, "Otherwise give --url, or another --context"),
    "amqp 0-9-1": (4, "Otherwise give --url, or another --context"),
    "nonsense": (4, "Otherwise give --url, or another --context"),
    "silence": (4, "Otherwise give --url, or another --context"),
    "tls on a plain port": (4, "Otherwise give --url, or another --context"),
    "wrong password": (3, "give --user and --password-file, or another --context"),
    "no user": (3, "give --user and --password-file, or another --context"),
}


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandNode]:
    with command_node(tmp_path_factory.mktemp("guarded"), users=True) as running:
        yield running


def words_of(mistake: str, exits: ExitStack, node: CommandNode, guarded: CommandNode, folder: Path) -> list[str]:
    """Make the mistake; return the words for it."""
    answers = {
        "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
        "amqp 0-9-1": b"AMQP\x00\x00\x09\x01",
        "nonsense": b"\xff" * 100,
        "silence": b"",
    }
    wrong = folder / "wrong"
    wrong.write_text("guess-work\n")
    if mistake in answers:
        return ["--url", exits.enter_context(server(answers[mistake]))]
    if mistake == "contexts":
        (folder / "rstreams").mkdir(exist_ok=True)
        (folder / "rstreams" / "contexts.json").write_text("{")
    if mistake == "nobody":
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        return ["--url", f"amqp://127.0.0.1:{port}"]
    return {
        "scheme": ["--url", "http://127.0.0.1"],
        "port": ["--url", "amqp://127.0.0.1:99999"],
        "password": ["--url", "amqp://alice:guess-work@127.0.0.1"],
        "context": ["--context", "none"],
        "contexts": [],
        "timeout": ["--url", node.url, "--timeout", "0"],
        "password file": ["--url", node.url, "--user", "alice", "--password-file", str(folder / "none")],
        "authorities": ["--url", node.url, "--tls-ca", str(folder / "none")],
        "dialect": ["--url", node.url, "--dialect", "none such"],
        "unknown host": ["--url", "amqp://no-such-host.invalid"],
        "tls on a plain port": ["--url", node.url.replace("amqp:", "amqps:")],
        "wrong password": ["--url", guarded.url, "--user", "alice", "--password-file", str(wrong)],
        "no user": ["--url", guarded.url],
    }[mistake]


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistake_is_one_line_and_its_code(  # noqa: PLR0917 - pytest gives them by name
    command: str, mistake: str, run: Run, node: CommandNode, guarded: CommandNode, tmp_path: Path
) -> None:
    with ExitStack() as exits:
        words = words_of(mistake, exits, node, guarded, tmp_path)
        ended = run(*COMMANDS[command], *words, stdin=b"tea\n", url="")
    code, told = MISTAKES[mistake]
    assert ended.err.count("\n") == 1, ended.err
    assert ended.err.startswith(f"rstreams {COMMANDS[command][0]}: ")
    assert told in ended.err
    assert (ended.code, ended.out) == (code, "")
    assert "guess-work" not in ended.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["send", "none", "a"], 1, "no address 'none' here (amqp:not-found); rstreams ls lists the addresses"),
        (["recv", "none"], 1, "no address 'none' here (amqp:not-found); rstreams ls lists the addresses"),
        (["recv", "none", "--take"], 1, "no address 'none' here (amqp:not-found)"),
        (["info", "none"], 1, "the node has no address 'none' that this user may manage"),
        (["recv", "q1", "--from", "first"], 3, "only for a log"),
        (["recv", "q1", "--group", "g"], 3, "q1"),
        (["recv", "events", "--from", "99"], 1, "99"),
        (["send", "q1", "--jsonl", "-f", "/none"], 2, "--file '/none' cannot be read"),
    ],
)
def test_what_a_node_does_not_have(words: list[str], code: int, told: str, run: Run) -> None:
    ended = run(*words)
    line = ended.err.splitlines()[-1]
    assert told in line
    assert ended.code == code
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("words", [["send", "q1", "a"], ["recv", "q1"], ["ls"], ["info", "q1"]])
def test_a_permission_that_a_user_does_not_have(words: list[str], run: Run, guarded: CommandNode) -> None:
    ended = run(*words, "--user", "alice", "--password-file", str(guarded.secret), url=guarded.url)
    assert ended.code == 3
    assert "hunter2" not in ended.err
    assert "give another --user, or ask for a permission" in ended.err.splitlines()[-1]


def test_a_permission_that_a_user_has(run: Run, guarded: CommandNode) -> None:
    words = ["--user", "alice", "--password-file", str(guarded.secret)]
    assert run("recv", "q0", "-e", *words, url=guarded.url).code == 0
