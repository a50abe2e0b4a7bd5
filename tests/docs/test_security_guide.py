"""The guides to security and limits: code runs as it stands, and prints what they say; the table tells the defaults."""

from __future__ import annotations

import inspect
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import rstreams
from rstreams import Node
from rstreams.tls import ClientCertificate, client_context, server_context
from tests.docs.examples import examples_of
from tests.net.certificates import Files

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
GUIDE = (GUIDES / "security.md").read_text(encoding="utf-8")
LIMITS = (GUIDES / "limits.md").read_text(encoding="utf-8")
EXAMPLES = examples_of("docs/guides/security.md")
FUNCTIONS: dict[str, Callable[..., Any]] = {"Node": Node.__init__, "connect": rstreams.connect, "listen": Node.listen}


@pytest.mark.slow
@pytest.mark.parametrize("example", range(len(EXAMPLES)))
def test_an_example_prints_what_it_says(example: int, tmp_path: Path) -> None:
    Files(tmp_path)
    code, printed = EXAMPLES[example]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_the_table_of_limits_names_each_with_its_default() -> None:
    rows = re.findall(r"^\| (`.*?`) \| (\S+) \|", LIMITS, re.MULTILINE)
    told = {
        (function, option): default
        for names, default in rows
        for function, option in re.findall(r"`(\w+)\((\w+)\)`", names)
    }
    is_limit = re.compile(r"(max|total)_.*|.*_timeout_s")
    real = {
        (name, option): str(parameter.default)
        for name, function in FUNCTIONS.items()
        for option, parameter in inspect.signature(function).parameters.items()
        if is_limit.fullmatch(option)
    }
    assert told == real


@pytest.mark.slow
def test_the_certificates_that_the_guide_makes_are_good(tmp_path: Path) -> None:
    assert shutil.which("openssl"), "the guide's commands need openssl: sudo apt-get install openssl"
    (commands,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    subprocess.run(["/bin/sh", "-e", "-c", commands], cwd=tmp_path, check=True, capture_output=True, timeout=50)
    server = server_context(tmp_path / "node.pem", tmp_path / "node.key", client_ca=tmp_path / "ca.pem")
    client = client_context(ca_file=tmp_path / "ca.pem", certificate=tmp_path / "alice.pem")
    for context in (server, client):
        context.verify_flags |= ssl.VERIFY_X509_STRICT  # as from Python 3.13 on
    shown = shake_hands(client, server)
    assert shown is not None
    assert ClientCertificate.from_peer(shown).subject == "CN=alice,O=Example"


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> Mapping[str, Any] | None:
    """Do a handshake in memory; return the client's certificate."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(back, there, server_hostname="127.0.0.1")
    other = server.wrap_bio(there, back, server_side=True)
    for _ in range(5):
        for side in (one, other):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return other.getpeercert()
