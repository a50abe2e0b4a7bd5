"""Who is let in where: one rule for the library, asyncio, files, the command line, and changes of a running node."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

import rstreams
import rstreams.aio
from rstreams import Node, Stream, tls
from rstreams.cli.__main__ import main
from rstreams.errors import AuthenticationFailed, ConfigError
from rstreams.node.config import read_config
from tests.net.certificates import Files, client_context

HASH = "$scrypt$ln=1,r=1,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2g"
EVERYONE = "other machines can reach it, and there are no users: everyone would be let in"
CLEAR_TEXT = "passwords would come in clear text"


@dataclass(frozen=True)
class Case:
    """A place with options, and why a node must not listen there; None: it may."""

    place: str
    why: str | None
    tls: str | None = None  # which client certificates it wants: none, optional, required
    users: bool = False
    anonymous: bool = False
    allow_plain_over_tcp: bool = False

    def __str__(self) -> str:
        flags = [name for name in ("users", "anonymous", "allow_plain_over_tcp") if getattr(self, name)]
        return " ".join([self.place, *([f"tls:{self.tls}"] if self.tls else []), *flags])

    @property
    def flags(self) -> dict[str, bool]:
        return {name: True for name in ("anonymous", "allow_plain_over_tcp") if getattr(self, name)}


CASES = [
    Case("127.0.0.1:0", None),
    Case("127.8.8.8:0", None),
    Case("localhost:0", None),
    Case("127.0.0.1:0", None, users=True),
    Case("127.0.0.1:0", None, tls="none"),
    Case("0.0.0.0:0", EVERYONE),
    Case("[::]:0", EVERYONE),
    Case("0.0.0.0:0", None, anonymous=True),
    Case("[::]:0", None, anonymous=True),
    Case("0.0.0.0:0", EVERYONE, allow_plain_over_tcp=True),
    Case("0.0.0.0:0", CLEAR_TEXT, users=True),
    Case("0.0.0.0:0", CLEAR_TEXT, users=True, anonymous=True),
    Case("0.0.0.0:0", None, users=True, allow_plain_over_tcp=True),
    Case("0.0.0.0:0", EVERYONE, tls="none"),
    Case("0.0.0.0:0", EVERYONE, tls="optional"),
    Case("0.0.0.0:0", None, tls="required"),
    Case("0.0.0.0:0", None, tls="none", anonymous=True),
    Case("0.0.0.0:0", None, tls="none", users=True),
]


def context(case: Case, files: Files) -> ssl.SSLContext | None:
    if case.tls is None:
        return None
    wants = case.tls != "none"
    return tls.server_context(
        files.both, client_ca=files.ca if wants else None, require_client_certificate=case.tls == "required"
    )


def by_library(case: Case, files: Files) -> None:
    async def listen() -> None:
        async with Node(users={"alice": "sesame"} if case.users else None) as node:
            await node.listen(case.place, tls=context(case, files), **case.flags)

    trio.run(listen)


def by_asyncio(case: Case, files: Files) -> None:
    async def listen() -> None:
        async with rstreams.aio.Node(users={"alice": "sesame"} if case.users else None) as node:
            await node.listen(case.place, tls=context(case, files), **case.flags)

    asyncio.run(listen())


def by_file(case: Case, files: Files) -> None:
    lines = ["[[listen]]", f"place = '{case.place}'", *(f"{name} = true" for name in case.flags)]
    if case.tls is not None:
        wanted = "" if case.tls == "none" else ", client_ca = 'ca.pem'"
        wanted += ", require_client_certificate = false" if case.tls == "optional" else ""
        lines.append(f"tls = {{ certificate = 'both.pem'{wanted} }}")
    lines += ["[users.alice]", f"password = '{HASH}'"] if case.users else []
    file = files.ca.with_name("node.toml")
    file.write_text("\n".join(lines))
    read_config(file)


def by_command_line(case: Case, files: Files) -> None:
    arguments = ["--listen", case.place, *(f"--{name.replace('_', '-')}" for name in case.flags)]
    if case.tls is not None:
        arguments += ["--tls-cert", str(files.both)]
        arguments += ["--tls-client-ca", str(files.ca)] if case.tls == "required" else []
    if case.users:
        files.ca.with_name("password").write_text("sesame")
        arguments += ["--user", f"alice:{files.ca.with_name('password')}"]
    assert main(["node", *arguments, "--check"]) == (2 if case.why else 0)


@pytest.mark.parametrize(
    ("case", "door"),
    [
        pytest.param(case, door, id=f"{case}-{door.__name__}")
        for case in CASES
        for door in (by_library, by_asyncio, by_file, by_command_line)
        if case.tls != "optional" or door is not by_command_line  # which has no option for it
    ],
)
def test_one_rule_says_who_is_let_in_where(
    case: Case, door: Callable[[Case, Files], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = Files(tmp_path)
    if case.why is None:
        door(case, files)
    elif door is by_command_line:
        door(case, files)
        assert case.why in capsys.readouterr().err
    else:
        with pytest.raises(ConfigError, match=case.why):
            door(case, files)


def test_a_node_of_the_command_line_that_everyone_could_use_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["node", "--listen", "0.0.0.0:0", "--queue", "a"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"rstreams node: listen='0.0.0.0:0' with anonymous=False: {EVERYONE}; add users" in err


# changes of a node that runs


@pytest.mark.parametrize(
    ("before", "options", "after", "why"),
    [
        ({"users": {"alice": "a"}}, {"allow_plain_over_tcp": True}, {}, EVERYONE),
        ({}, {"anonymous": True}, {"users": {"alice": "a"}}, CLEAR_TEXT),
        ({"users": {"alice": "a"}}, {"allow_plain_over_tcp": True}, {"certificate_users": {"CN=a": "a"}}, "no tls="),
    ],
)
async def test_no_change_of_the_users_opens_a_place(
    before: dict[str, Any], options: dict[str, Any], after: dict[str, Any], why: str
) -> None:
    async with Node(**before) as node:
        node.serve("one", Stream.of(1))
        place = f"127.0.0.1:{(await node.listen('0.0.0.0:0', **options)).port}"
        with pytest.raises(ConfigError, match=why):
            await node.renew_access(**after)
        async with rstreams.connect(f"amqp://{'alice:a@' if before else ''}{place}") as connection:
            assert await connection.stream("one").to_list() == [1]
        if before:
            with pytest.raises(AuthenticationFailed):
                async with rstreams.connect(f"amqp://{place}"):
                    pass


async def test_users_and_certificates_change_together(tmp_path: Path) -> None:
    files = Files(tmp_path)
    open_to_all, mutual = tls.server_context(files.both), tls.server_context(files.both, client_ca=files.ca)
    async with Node() as node:
        node.serve("one", Stream.of(1))
        listener = await node.listen("0.0.0.0:0", tls=mutual)
        with pytest.raises(ConfigError, match=EVERYONE):
            listener.renew_tls(open_to_all)
        with pytest.raises(ConfigError, match=EVERYONE):
            await node.renew_access(tls={listener: open_to_all})
        await node.renew_access(users={"alice": "a"}, tls={listener: open_to_all})
        url = f"amqps://alice:a@127.0.0.1:{listener.port}"
        async with rstreams.connect(url, tls=client_context()) as connection:
            assert await connection.stream("one").to_list() == [1]
        await node.renew_access(tls={listener: mutual})
        with pytest.raises(AuthenticationFailed):
            async with rstreams.connect(f"amqps://127.0.0.1:{listener.port}", tls=client_context()):
                pass


async def test_a_place_without_tls_gets_none(tmp_path: Path) -> None:
    async with Node() as node:
        listener = await node.listen("127.0.0.1:0")
        with pytest.raises(ConfigError, match="was opened without TLS, and this cannot change while it listens"):
            listener.renew_tls(tls.server_context(Files(tmp_path).both))
