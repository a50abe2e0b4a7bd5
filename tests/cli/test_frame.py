"""The frame of the commands: what is quick stays quick, and which peer a command talks to."""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rstreams.cli.__main__ import main
from rstreams.cli.commands import COMMANDS, module_of
from rstreams.cli.completion import SCRIPTS
from rstreams.cli.console import Console, visible
from rstreams.cli.contexts import contexts_file
from rstreams.cli.exit_codes import CommandEnded
from rstreams.cli.parser import Parser
from rstreams.cli.peer import ChosenPeer, add_peer_options, chosen_peer


@pytest.fixture(autouse=True)
def own_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("RSTREAMS_CONTEXT", raising=False)


_HEAVY = "trio", "proton", "cproton", "asyncio", "ssl"

_LOOK = f"""
import sys
from rstreams.cli.__main__ import main
code = main(sys.argv[1:])
print("loaded:", *(each for each in {_HEAVY!r} if each in sys.modules), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["brew"],
        *([command, "--help"] for command in COMMANDS if command != "node"),
        ["context", "ls"],
        *(["completion", shell] for shell in SCRIPTS),
        ["__complete", ""],
        ["__complete", "node", "--"],
        ["__complete", "context", ""],
        ["__complete", "context", "select", ""],
    ],
    ids=" ".join,
)
def test_what_is_quick_loads_neither_the_loop_nor_the_engine(arguments: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    command = [sys.executable, "-c", _LOOK, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    last = ended.stderr.splitlines()[-1]
    may = {"ssl"} if "node" in arguments else set()  # the defaults of a node stand beside its TLS
    assert set(last.removeprefix("loaded:").split()) <= may


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_a_text_and_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: rstreams {command}")
    assert f"examples:\n  rstreams {command}" in shown


def test_options_may_stand_between_the_values_of_a_list() -> None:
    parser = Parser()
    parser.add_argument("address")
    parser.add_argument("body", nargs="*")
    parser.add_argument("--rate")
    parser.mixes = True
    for _ in range(2):
        found = parser.parse_args(["orders", "--rate", "5", "tea", "milk"])
        assert (found.address, found.body, found.rate) == ("orders", ["tea", "milk"], "5")


# which peer


def peer_of(words: Sequence[str]) -> ChosenPeer:
    parser = Parser()
    add_peer_options(parser)
    return chosen_peer(parser.parse_args(words))


def test_without_anything_the_peer_is_on_this_machine() -> None:
    assert peer_of([]).connect_options()["url"] == "amqp://127.0.0.1:5672"


def test_the_password_comes_from_its_file_and_is_in_no_text(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("open/sesame\r\nmore\n")
    peer = peer_of(["--url", "amqp://alice@localhost", "--password-file", str(file)])
    assert peer.connect_options()["url"] == "amqp://alice:open%2Fsesame@localhost:5672"
    assert "sesame" not in repr(peer) + peer.place


def test_the_password_comes_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "sesame")
    peer = peer_of(["--user", "bob", "--password-file", "env:SECRET"])
    assert peer.connect_options()["url"] == "amqp://bob:sesame@127.0.0.1:5672"


def test_a_virtual_host_stays_in_the_url() -> None:
    assert peer_of(["--url", "amqp://broker/%2F"]).connect_options()["url"] == "amqp://broker:5672/%2F"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--url", "http://x"], "--url='http://x': the scheme is 'http', and must be 'amqp'"),
        (["--url", "amqp://a:b:c"], "its host or port is not valid"),
        (["--url", "amqp://alice:hunter2@x"], "it has a password, and the process list would show it"),
        (["--url", "amqp://x", "--context", "prod"], "give one of them"),
        (["--context", "prod"], "there is no context 'prod'; there is none yet"),
        (["--timeout", "0"], "--timeout 0: give a number of seconds above 0"),
        (["--timeout", "nan"], "--timeout nan: give a number"),
        (["--user", "alice"], "--user alice: give --password-file FILE"),
        (["--password-file", "x"], "--password-file: whose password is it? Give --user NAME"),
        (["--user", "a", "--password-file", "/"], "--password-file '/' cannot be read: Is a directory"),
        (["--user", "a", "--password-file", "a\0"], "it is not the name of a file"),
        (["--user", "a", "--password-file", "env:NOT_SET_ANYWHERE"], "NOT_SET_ANYWHERE is empty or missing"),
    ],
)
def test_a_peer_that_cannot_be(words: list[str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandEnded) as caught:
        peer_of(words)
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--tls-key", "{}"], "--tls-key '{}': it needs a certificate; give --tls-cert"),
        (["--tls-ca", "{}"], "--tls-ca '{}': "),
        (["--tls-cert", "{}"], "--tls-cert '{}': "),
    ],
)
def test_files_of_tls_that_cannot_be(words: list[str], told: str, tmp_path: Path) -> None:
    file = str(tmp_path / "none.pem")
    peer = peer_of([each.format(file) for each in words])
    with pytest.raises(CommandEnded) as caught:
        peer.connect_options()
    assert str(caught.value).startswith(told.format(file))
    assert caught.value.code == 2


# contexts


def context(*words: str) -> int:
    return main(["context", *words])


def test_contexts_are_added_selected_and_removed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert context("add", "dev", "--quiet") == 0
    assert context("add", "prod", "--url", "amqps://alice@broker/v2", "--password-file", "env:SECRET") == 0
    assert "'dev' is selected" in capsys.readouterr().err
    monkeypatch.setenv("SECRET", "sesame")
    assert peer_of([]).place == "amqp://127.0.0.1:5672"
    assert context("select", "prod") == 0
    assert peer_of([]).connect_options()["url"] == "amqps://alice:sesame@broker:5671/v2"
    assert peer_of(["--user", "bob"]).settings.user == "bob"
    assert context("previous", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"selected": "dev", "previous": "prod"}
    assert peer_of(["--context", "prod"]).context == "prod"
    monkeypatch.setenv("RSTREAMS_CONTEXT", "prod")
    assert peer_of([]).context == "prod"
    assert peer_of(["--context", "dev"]).context == "dev"
    assert context("ls", "--json") == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"name": "dev", "selected": True, "url": "amqp://127.0.0.1:5672"},
        {
            "name": "prod",
            "selected": False,
            "url": "amqps://broker:5671/v2",
            "user": "alice",
            "password_file": "env:SECRET",
        },
    ]
    assert context("rm", "dev") == 0
    assert context("ls") == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["  prod  amqps://broker:5671/v2  alice"]


def test_the_file_is_for_its_owner_alone_and_has_no_password(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    assert context("add", "prod", "--user", "alice", "--password-file", os.path.relpath(secret)) == 0
    assert contexts_file().stat().st_mode & 0o777 == 0o600
    text = contexts_file().read_text()
    assert "hunter2" not in text
    assert str(secret) in text, "its name is absolute"
    contexts_file().chmod(0o644)
    assert context("add", "other") == 0
    assert contexts_file().stat().st_mode & 0o777 == 0o600
    assert [each.name for each in contexts_file().parent.iterdir()] == ["contexts.json"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["select", "none"], "there is no context 'none'; there are prod"),
        (["rm", "none"], "there is no context 'none'; there are prod"),
        (["add", "prod"], "there is a context 'prod' already; give --replace, or another name"),
        (["add", ""], "a context cannot be named ''"),
        (["add", "a\nb"], "a context cannot be named 'a\\nb'"),
        (["add", "b", "--url", "amqp://a:hunter2@b"], "it has a password"),
        (["add", "b", "--user", "a", "--password-file", "/none"], "'/none' cannot be read: No such file"),
        (["previous"], "no other context was selected before"),
    ],
)
def test_a_context_that_cannot_be(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert context("add", "prod", "-q") == 0
    assert context(*words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rstreams context: ")
    assert told in line
    assert "hunter2" not in line


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"contexts": {"a": {"url": 5}}, "selected": "", "previous": ""}',
        b'{"contexts": {"a": {"password": "x"}}, "selected": "", "previous": ""}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_file_of_contexts_that_cannot_be(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    contexts_file().parent.mkdir(parents=True)
    contexts_file().write_bytes(content)
    assert context("ls") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(contexts_file()) in line


def test_a_place_for_contexts_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config").touch()
    assert context("add", "prod") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot be" in line


# completion


def completed(*words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    main(["__complete", *words])
    return [line.partition("\t")[0] for line in capsys.readouterr().out.splitlines()]


def test_words_are_completed(capsys: pytest.CaptureFixture[str]) -> None:
    assert context("add", "prod", "-q") == 0
    assert set(COMMANDS) <= set(completed("", capsys=capsys))
    assert completed("cont", capsys=capsys) == ["context"]
    assert completed("context", "sel", capsys=capsys) == ["select"]
    assert completed("context", "select", "", capsys=capsys) == ["prod"]
    assert completed("context", "add", "x", "--url", "u", "--us", capsys=capsys) == ["--user"]
    assert completed("context", "add", "x", "--url", "", capsys=capsys) == []
    assert "rabbitmq4" in completed("context", "add", "x", "--dialect", "", capsys=capsys)
    assert completed("completion", "f", capsys=capsys) == ["fish"]
    assert completed("completion", "fish", "", capsys=capsys) == []
    assert completed("node", "--queue", "a", "--che", capsys=capsys) == ["--check"]
    assert completed("no", "such", "--command", capsys=capsys) == []


def test_a_name_of_a_file_is_left_to_the_shell() -> None:
    assert main(["__complete", "context", "add", "x", "--password-file", ""]) == 1


@pytest.mark.slow
def test_the_script_of_bash_completes(tmp_path: Path) -> None:
    program = tmp_path / "rstreams"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m rstreams "$@"\n')
    program.chmod(0o755)
    script = """
        eval "$(rstreams completion bash)"
        COMP_WORDS=(rstreams context sel) COMP_CWORD=2
        _rstreams
        echo "${COMPREPLY[@]}"
    """
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    told = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert told.stdout == "select\n"


# what is printed


def console(**options: bool) -> Console:
    return Console(argparse.Namespace(command="ls", **{"json": False, "quiet": False, **options}))


def test_a_table_is_as_wide_as_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    console().table(("name", "ready"), [("orders", 5), ("a\x1b[2Jb", 1000)])
    assert capsys.readouterr().out.splitlines() == ["name       ready", "orders         5", "a\\x1b[2Jb   1000"]


def test_notes_are_not_for_the_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    console(quiet=True).note("hello")
    console(quiet=True).progress("hello")
    assert capsys.readouterr() == ("", "")
    console().note("hello")
    assert capsys.readouterr() == ("", "rstreams ls: hello\n")


@pytest.mark.parametrize("text", ["\x1b[2J", "\r", "\x00", "\x9b31m", "\u202e", "a\nb", "\x07"])
def test_text_of_a_peer_does_nothing_to_a_terminal(text: str) -> None:
    shown = visible(f"{text} und Käse 茶")
    assert shown.isprintable()
    assert shown.endswith(" und Käse 茶")


def test_each_module_describes_its_command() -> None:
    for command in COMMANDS:
        assert callable(module_of(command).add_options)
    assert not logging.getLogger("rstreams.cli").handlers
