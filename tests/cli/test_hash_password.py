"""`rstreams hash-password`, and users whose hash is in a file."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

import rstreams
from rstreams import Stream
from rstreams.cli.__main__ import main
from rstreams.net.transport.passwords import PasswordHash
from tests.cli.test_node_config import hash_of


@pytest.mark.slow
def test_the_hash_of_a_password_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("open sesame\r\nmore\n"))
    assert main(["node", "hash-password"]) == 0
    assert PasswordHash(capsys.readouterr().out.strip()).matches(b"open sesame")


class Terminal(io.StringIO):
    """Standard input at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "told"),
    [(["a", "b"], "the two passwords are not the same"), ([""], "the password is empty")],
)
def test_passwords_that_cannot_be(
    typed: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    answers = iter(typed)
    monkeypatch.setattr("getpass.getpass", lambda _prompt: next(answers))
    assert main(["node", "hash-password"]) == 2
    assert capsys.readouterr().err == f"rstreams node: {told}\n"


@pytest.mark.slow
def test_a_password_typed_twice(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda _prompt: "sesame")
    assert main(["node", "hash-password"]) == 0
    assert PasswordHash(capsys.readouterr().out.strip()).matches(b"sesame")


def test_a_password_is_no_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "hash-password", "hunter2"]) == 2
    capsys.readouterr()


@pytest.mark.slow
async def test_a_hash_in_the_file_of_a_user(tmp_path: Path) -> None:
    file = tmp_path / "alice"
    file.write_text(hash_of("sesame") + "\n")
    users = ["--user", f"alice:{file}", "--queue", "orders", "--listen", "127.0.0.1:0"]
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "rstreams.cli", "node", *users], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        url = (await process.stdout.receive_some()).decode().removeprefix("listening on ").strip()
        async with rstreams.connect(url.replace("//", "//alice:sesame@")) as connection:
            await connection.publish("orders", Stream.of(1))
    finally:
        process.terminate()
        await process.wait()
        await process.stdout.aclose()
