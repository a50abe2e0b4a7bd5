"""The contexts of `rstreams.tls`: safe as they come, and every file that cannot be is named."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NoReturn

import pytest
import trio
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

import rstreams
from rstreams.errors import ConfigError, ConnectFailed
from rstreams.tls import client_context, server_context
from tests.net.certificates import Files, certificate


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def encrypted(tmp_path: Path) -> Path:
    """Return the node's key, encrypted with "sesame"."""
    key = load_pem_private_key(certificate("127.0.0.1").private_key_pem.bytes(), None)
    path = tmp_path / "encrypted.key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame")))
    return path


def test_a_clients_context_verifies_certificate_and_host_name(files: Files) -> None:
    for context in (client_context(), client_context(ca_file=files.ca), files.client):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("default", [ssl.TLSVersion.MINIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_is_the_oldest_version_and_a_later_default_stays(
    default: ssl.TLSVersion, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = ssl.create_default_context

    def create(purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH, *, cafile: str | Path | None = None) -> ssl.SSLContext:
        context = original(purpose, cafile=cafile)
        context.minimum_version = default  # Debian's Python leaves it to OpenSSL's settings
        return context

    monkeypatch.setattr(ssl, "create_default_context", create)
    for context in (client_context(), client_context(ca_file=files.ca), server_context(files.node, files.node_key)):
        assert context.minimum_version is max(default, ssl.TLSVersion.TLSv1_2)


async def test_without_a_context_a_client_speaks_tls_1_2_or_later(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ssl.SSLContext] = []

    async def start_tls(_stream: object, _address: object, context: ssl.SSLContext) -> NoReturn:
        made.append(context)
        msg = "this test wants the context alone"
        raise ConnectFailed(msg)

    monkeypatch.setattr("rstreams.net.transport.opening.start_tls", start_tls)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
        with pytest.raises(ConnectFailed):
            async with rstreams.connect(f"amqps://127.0.0.1:{port}"):
                pass
    assert made[0].minimum_version >= ssl.TLSVersion.TLSv1_2


def test_with_a_ca_file_nobody_else_is_trusted(files: Files) -> None:
    assert len(client_context(ca_file=files.ca).get_ca_certs()) == 1


def test_a_servers_context_asks_for_client_certificates_if_it_knows_who_signs_them(files: Files) -> None:
    assert server_context(files.node, files.node_key).verify_mode is ssl.CERT_NONE
    assert server_context(files.node, files.node_key, client_ca=files.ca).verify_mode is ssl.CERT_REQUIRED
    optional = server_context(files.alice, client_ca=str(files.ca), require_client_certificate=False)
    assert optional.verify_mode is ssl.CERT_OPTIONAL
    assert optional.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_key_that_is_encrypted(files: Files, encrypted: Path) -> None:
    server_context(files.node, encrypted, password="sesame")  # noqa: S106 - made up
    with pytest.raises(ConfigError, match="the password of the key is wrong") as raised:
        server_context(files.node, encrypted, password="open hush")  # noqa: S106 - made up
    assert "hush" not in str(raised.value)
    with pytest.raises(ConfigError, match="the key is encrypted, and no password is given") as raised:
        server_context(files.node, encrypted)  # and nobody is asked at the terminal
    assert str(encrypted) in str(raised.value)


def test_files_that_cannot_be(files: Files, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ca_file='.*none': the file cannot be read: No such file"):
        client_context(ca_file=str(tmp_path / "none"))
    with pytest.raises(ConfigError, match=r"ca_file='.*node\.key': it holds no certificates"):
        client_context(ca_file=files.node_key)
    with pytest.raises(ConfigError, match=r"certificate=.* the file cannot be read: Is a directory"):
        client_context(certificate=tmp_path)
    with pytest.raises(ConfigError, match=r"certificate='.*node\.pem': it does not hold a private key"):
        client_context(certificate=files.node)
    with pytest.raises(ConfigError, match="this is not the private key of the certificate"):
        server_context(files.node, files.alice)
    with pytest.raises(ConfigError, match=r"certificate=None: the file cannot be read"):
        server_context(None)  # type: ignore[arg-type]
    for options in ({"key": files.node_key}, {"password": "hush"}):
        with pytest.raises(ConfigError, match="no certificate that it belongs to") as raised:
            client_context(**options)
        assert "hush" not in str(raised.value)
