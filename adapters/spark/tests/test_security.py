"""TLS and credentials by options, against a node in another process; no Spark."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from rstreams_spark._options import SinkOptions, SourceOptions
from rstreams_spark._reader import QueueReader
from rstreams_spark.errors import SourceFailed

from adapters.spark.tests.conftest import running_node
from adapters.spark.tests.test_receiver import receiving
from rstreams.errors import ConfigError
from tests.net.certificates import Files, alice

if TYPE_CHECKING:
    from conftest import NodeProcess

pytestmark = pytest.mark.slow  # each test starts a node in a process of its own

PASSWORD = "se/cr@et"  # noqa: S105 - of the node of these tests
SOURCE = {"url": "amqps://h", "address": "a"}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def tls_node(files: Files) -> Iterator[NodeProcess]:
    """A node that speaks TLS, and wants a password or a certificate."""
    with running_node("--users", f"--tls={files.ca.parent}", "in") as node:
        yield node


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    return str(file)


def test_a_password_from_a_file_over_tls(tls_node: NodeProcess, files: Files, password_file: str) -> None:
    url = f"amqps://127.0.0.1:{tls_node.port}"
    with receiving(url, tlscafile=str(files.ca), username="ada", passwordfile=password_file) as receiver:
        assert receiver.collect(0, 1) == []


def test_a_password_from_the_environment_and_a_user_in_the_url(
    tls_node: NodeProcess, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", PASSWORD)
    url = f"amqps://ada@127.0.0.1:{tls_node.port}"
    with receiving(url, tlscafile=str(files.ca), passwordenv="BROKER_PASSWORD", sasl="plain") as receiver:
        assert receiver.collect(0, 1) == []


@pytest.mark.parametrize("key", ["plain", "encrypted"])
def test_a_client_certificate(
    tls_node: NodeProcess, files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str
) -> None:
    url = f"amqps://127.0.0.1:{tls_node.port}"
    more = {}
    if key == "encrypted":
        monkeypatch.setenv("KEY_PASSWORD", "sesame")
        private = load_pem_private_key(alice().private_key_pem.bytes(), None)
        text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame"))
        (tmp_path / "alice.key").write_bytes(text)
        more = {"tlskeyfile": str(tmp_path / "alice.key"), "tlskeypasswordenv": "KEY_PASSWORD"}
    options = {"tlscafile": str(files.ca), "tlscertificatefile": str(files.alice), "sasl": "external"}
    with receiving(url, **options, **more) as receiver:
        assert receiver.collect(0, 1) == []


def test_a_node_that_is_not_trusted_is_refused(tls_node: NodeProcess) -> None:
    with (
        pytest.raises(SourceFailed, match=r"ConnectFailed: .*certificate") as caught,
        receiving(f"amqps://127.0.0.1:{tls_node.port}", username="ada", password=PASSWORD),
    ):
        pass
    assert PASSWORD not in str(caught.value)


def test_a_wrong_password_is_not_shown(tls_node: NodeProcess, files: Files) -> None:
    url = f"amqps://127.0.0.1:{tls_node.port}"
    with (
        pytest.raises(SourceFailed, match="AuthenticationFailed: ") as caught,
        receiving(url, tlscafile=str(files.ca), username="ada", password="hidden"),  # noqa: S106 - wrong
    ):
        pass
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("kind", [SourceOptions, SinkOptions])
def test_a_password_by_name_is_in_no_pickle(
    kind: type[SourceOptions | SinkOptions], password_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", PASSWORD)
    for way in ({"passwordfile": password_file}, {"passwordenv": "BROKER_PASSWORD"}):
        options = kind.parse(SOURCE | {"username": "ada"} | way)
        assert PASSWORD.encode() not in pickle.dumps(options)
        assert options.peer.connect_url() == "amqps://ada:se%2Fcr%40et@h:5671"
        assert "ada" not in repr(options)


def test_the_copies_of_a_reader_know_no_password() -> None:
    options = SourceOptions.parse(SOURCE | {"username": "ada", "password": PASSWORD})
    assert PASSWORD.encode() in pickle.dumps(options)
    assert PASSWORD.encode() not in pickle.dumps(QueueReader(options))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"username": "ada"}, "option password is missing: username and password must be given together. passwordFile"),
        (
            {"username": "ada", "password": "p", "passwordenv": "HOME"},
            "options password and passwordEnv: only one of them may be given",
        ),
        (
            {"username": "ada", "passwordenv": "NOT_SET"},
            "option passwordEnv='NOT_SET': the environment has no such variable",
        ),
        (
            {"username": "ada", "passwordfile": "/nowhere/p"},
            "option passwordFile='/nowhere/p': the file cannot be read: No such file or directory",
        ),
        ({"tlscafile": "/nowhere/ca.pem"}, "option tlsCaFile='/nowhere/ca.pem': the file cannot be read: No such"),
        (
            {"tlscertificatefile": "/nowhere/c.pem"},
            "option tlsCertificateFile='/nowhere/c.pem': the file cannot be read: No such",
        ),
        ({"tlskeyfile": "/k"}, "option tlsCertificateFile is missing: option tlsKeyFile belongs to a client"),
        ({"sasl": "external"}, "option sasl='EXTERNAL': it needs a url that begins with amqps://, and option tlsCert"),
        ({"sasl": "plain"}, "option sasl='PLAIN': it needs a username and a password"),
        (
            {"url": "amqp://h", "tlscafile": "/ca.pem"},
            "option tlsCaFile: it is for TLS, and option url begins with amqp://; use amqps://",
        ),
        ({"allowplainovertcp": "maybe"}, "option allowPlainOverTcp='maybe': must be true or false"),
        (
            {"url": "amqps://ada:p@h", "password": "q"},
            "option password: not allowed beside a url that has a password of its own",
        ),
    ],
)
def test_what_cannot_work_is_refused_when_the_frame_is_made(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SourceOptions.parse(SOURCE | options)
    assert str(caught.value).startswith(text)


def test_a_password_that_is_changed_in_its_file_is_read_anew(password_file: str) -> None:
    options = SourceOptions.parse(SOURCE | {"username": "ada", "passwordfile": password_file})
    Path(password_file).write_text("new")
    assert options.peer.connect_url() == "amqps://ada:new@h:5671"
    shutil.rmtree(Path(password_file).parent)
    with pytest.raises(ConfigError, match=r"option passwordFile=.*: the file cannot be read"):
        options.peer.connect_url()
