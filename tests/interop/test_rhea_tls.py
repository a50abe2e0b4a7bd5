"""rhea over TLS, both ways, with SASL EXTERNAL by client certificate."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import rstreams
from benchmarks._processes import free_port
from rstreams import Node, Stream
from rstreams.errors import AuthenticationFailed
from rstreams.tls import ClientCertificate, client_context, server_context
from tests.net.certificates import Files

pytestmark = pytest.mark.broker

SCRIPT = Path(__file__).parent / "rhea" / "tls.js"


def command(rhea: Path, role: str, port: int, files: Files) -> list[str]:
    node = shutil.which("node")
    assert node is not None, "rhea is installed, and Node.js not"
    pem = files.alice if role == "client" else files.both
    return [node, str(SCRIPT), str(rhea / "node_modules" / "rhea"), role, str(port), str(files.ca), str(pem)]


@asynccontextmanager
async def serving(rhea: Path, files: Files) -> AsyncIterator[str]:
    port = free_port()
    process = await trio.lowlevel.open_process(command(rhea, "server", port, files), stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        with trio.fail_after(20):
            assert await process.stdout.receive_some() == b"ready\n"
        yield f"amqps://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


async def test_rhea_as_the_client(rhea: Path, tmp_path: Path) -> None:
    files, seen = Files(tmp_path), list[str]()

    def user_of(shown: ClientCertificate) -> str:
        seen.append(shown.common_name)
        return "Alice"

    async with Node(certificate_users=user_of) as node:
        node.serve("numbers", Stream.of(41))
        tls = server_context(files.node, files.node_key, client_ca=files.ca)
        listener = await node.listen("127.0.0.1:0", tls=tls)
        with trio.fail_after(20):
            done = await trio.run_process(command(rhea, "client", listener.port, files), capture_stdout=True)
    assert json.loads(done.stdout)["body"] == 41
    assert seen == ["alice"]


async def test_rhea_as_the_server(rhea: Path, tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with serving(rhea, files) as url:
        async with rstreams.connect(url, tls=files.client, sasl="EXTERNAL") as connection:
            with trio.fail_after(20):
                assert await connection.stream("numbers").take(1).to_list() == [7]
        with pytest.raises(AuthenticationFailed, match="certificate"):
            async with rstreams.connect(url, tls=client_context(ca_file=files.ca)):
                pass
