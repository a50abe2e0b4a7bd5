"""SASL EXTERNAL, by client certificate: who is somebody, who is nobody, and which mechanism is used when."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

import rstreams
from rstreams import Node, Stream
from rstreams.errors import AuthenticationFailed, ConfigError
from rstreams.net.transport.security import Admission
from rstreams.tls import ClientCertificate
from tests.net.certificates import alice, certificate, client_context, node_context
from tests.net.over_tcp import until

ALICE = "CN=alice,O=Example"  # as far as the tests' certificates say: there is an OU too, made up by trustme


@asynccontextmanager
async def mutual(
    *,
    clients: ssl.VerifyMode = ssl.CERT_REQUIRED,
    **options: Any,  # noqa: ANN401 - those of `Node`
) -> AsyncIterator[tuple[Node, str]]:
    """Run a node that asks for client certificates."""
    async with Node(**options) as node:
        node.serve("one", Stream.of(1))
        listener = await node.listen("127.0.0.1:0", tls=node_context(clients=clients))
        yield node, listener.url


def users_of(node: Node) -> list[str]:
    """Who has a connection, as the node's logs would call it."""
    return [pump.peer.rpartition("@")[0] for listener in node._listeners for pump in listener._connections]


def subject_of(shown: ClientCertificate) -> str:
    return ",".join(part for part in shown.subject.split(",") if not part.startswith("OU="))


def by_subject(shown: ClientCertificate) -> str | None:
    return {ALICE: "Alice"}.get(subject_of(shown))


async def refused(url: str, **options: Any) -> str:  # noqa: ANN401 - those of `connect`
    with pytest.raises(AuthenticationFailed) as raised:
        async with rstreams.connect(url, connect_timeout_s=5, **options):
            pass
    return str(raised.value)


# who is let in


async def test_the_owner_of_a_certificate_is_the_user_it_stands_for() -> None:
    async with (
        mutual(certificate_users=by_subject) as (node, url),
        rstreams.connect(url, tls=client_context(alice())) as connection,
    ):
        assert await connection.stream("one").to_list() == [1]
        assert users_of(node) == ["Alice"]


async def test_users_by_subject() -> None:
    seen: list[ClientCertificate] = []

    def look(shown: ClientCertificate) -> str:
        seen.append(shown)
        return "anybody"

    async with mutual(certificate_users=look) as (_, url), rstreams.connect(url, tls=client_context(alice())):
        pass
    (shown,) = seen
    assert subject_of(shown) == ALICE
    assert shown.names == ("email:alice@example.com",)
    assert shown.common_name == "alice"
    async with (
        mutual(certificate_users={shown.subject: "Alice", "CN=bob": "Bob"}) as (node, url),
        rstreams.connect(url, tls=client_context(alice()), sasl="EXTERNAL"),
    ):
        assert users_of(node) == ["Alice"]


@pytest.mark.parametrize(
    "who",
    [{"CN=bob,O=Example": "bob"}, {}, lambda _: None, lambda _: "", lambda _: True],
    ids=["another's", "nobody's", "by a function", "without a name", "by a wrong function"],
)
async def test_a_good_certificate_of_nobody_is_refused(who: Any, caplog: pytest.LogCaptureFixture) -> None:  # noqa: ANN401
    async with mutual(certificate_users=who) as (_, url):
        told = await refused(url, tls=client_context(alice()))
    assert "refused the client certificate (EXTERNAL): it belongs to no user there" in told
    (line,) = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert "its owner is not a user here" in line
    assert "CN=alice" in line


async def test_a_rule_that_raises_lets_nobody_in_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: ClientCertificate) -> str:
        raise ZeroDivisionError

    async with mutual(certificate_users=fails) as (_, url):
        await refused(url, tls=client_context(alice()))
        assert [each.exc_info is not None for each in caplog.records if each.levelno == logging.ERROR] == [True]


async def test_without_a_rule_any_certificate_that_is_signed_is_let_in_by_its_name() -> None:
    async with mutual() as (node, url):
        async with rstreams.connect(url, tls=client_context(alice())):
            assert users_of(node) == ["alice"]
        await until(lambda: not node.statistics().connections)
        async with rstreams.connect(url, tls=client_context(alice()), sasl="ANONYMOUS"):
            assert users_of(node) == [""]
        await until(lambda: not node.statistics().connections)
        async with rstreams.connect(url, tls=client_context(certificate("bob.example"))):
            assert users_of(node) == ["bob.example"], "no common name: the first alternative one"


# with passwords


async def test_password_or_certificate() -> None:
    both: dict[str, Any] = {"users": {"bob": "sesame"}, "certificate_users": by_subject, "clients": ssl.CERT_OPTIONAL}
    async with mutual(**both) as (node, url):
        async with rstreams.connect(url, tls=client_context(alice())):
            assert users_of(node) == ["Alice"]
        await until(lambda: not node.statistics().connections)
        async with rstreams.connect(url.replace("//", "//bob:sesame@"), tls=client_context()):
            assert users_of(node) == ["bob"]
        await until(lambda: not node.statistics().connections)
        async with rstreams.connect(url.replace("//", "//bob:sesame@"), tls=client_context(alice())):
            assert users_of(node) == ["bob"], "a password in the url is what counts"
        told = await refused(url, tls=client_context())
        assert "offers no SASL mechanism that may be used (EXTERNAL or ANONYMOUS)" in told


async def test_with_users_alone_a_certificate_does_not_spare_the_password() -> None:
    async with mutual(users={"bob": "sesame"}) as (node, url):
        told = await refused(url, tls=client_context(alice()))
        assert "offers no SASL mechanism" in told
        async with rstreams.connect(url.replace("//", "//bob:sesame@"), tls=client_context(alice())):
            assert users_of(node) == ["bob"]


async def test_a_client_without_a_certificate_where_one_decides() -> None:
    async with mutual(certificate_users=by_subject, clients=ssl.CERT_OPTIONAL) as (_, url):
        told = await refused(url, tls=client_context())
        assert "or none was sent" in told
        told = await refused(url.replace("//", "//alice:hush@"), tls=client_context())
        assert "it accepts no password here" in told
        assert "hush" not in told


# what is offered


SHOWN = ClientCertificate("CN=x", "x")


@pytest.mark.parametrize(
    ("admission", "without", "with_one"),
    [
        (Admission(), ["ANONYMOUS"], ["EXTERNAL", "ANONYMOUS"]),
        (Admission({}), ["PLAIN"], ["PLAIN"]),
        (Admission({}, {}), ["PLAIN"], ["EXTERNAL", "PLAIN"]),
        (Admission(None, {}), ["EXTERNAL"], ["EXTERNAL"]),
    ],
)
def test_what_is_offered(admission: Admission, without: list[str], with_one: list[str]) -> None:
    assert admission.mechanisms(None) == without
    assert admission.mechanisms(SHOWN) == with_one


def test_no_password_in_the_repr_of_who_is_let_in() -> None:
    assert "sesame" not in repr(Admission({"alice": "sesame"}))


# subjects


def test_a_name_cannot_pass_for_several_parts_of_a_subject() -> None:
    found = {
        "subject": (
            (("countryName", "CH"),),
            (("organizationName", " Ex+ample, Ltd "),),
            (("commonName", "#alice,O=Other"), ("userId", 'a"b\\c')),
        ),
        "issuer": ((("commonName", "ca"),),),
        "serialNumber": "0A",
    }
    shown = ClientCertificate.from_peer(found)
    assert shown.subject == 'CN=\\#alice\\,O=Other+UID=a\\"b\\\\c,O=\\ Ex\\+ample\\, Ltd\\ ,C=CH'
    assert (shown.common_name, shown.issuer, shown.serial_number) == ("#alice,O=Other", "CN=ca", "0A")
    assert ClientCertificate.from_peer({}) == ClientCertificate("", "")


# what does not go together


@pytest.mark.parametrize(
    ("url", "sasl", "why"),
    [
        ("amqp://127.0.0.1", "EXTERNAL", "needs TLS: amqps://"),
        ("amqps://alice:hush@127.0.0.1", "EXTERNAL", "there is a password in the url"),
        ("amqps://alice@127.0.0.1", "EXTERNAL", "there is a user in the url"),
        ("amqp://127.0.0.1", "PLAIN", "needs a user and a password"),
        ("amqp://alice:hush@127.0.0.1", "ANONYMOUS", "there is a password in the url"),
        ("amqp://alice@127.0.0.1", "ANONYMOUS", "there is a user in the url"),
        ("amqp://127.0.0.1", "SCRAM-SHA-256", "sasl='SCRAM-SHA-256': it must be None, 'ANONYMOUS', 'PLAIN'"),
        ("amqp://127.0.0.1", "plain", "sasl='plain'"),
    ],
)
async def test_a_mechanism_that_cannot_be_is_named_without_the_password(url: str, sasl: Any, why: str) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError, match="sasl=") as raised:
        async with rstreams.connect(url, sasl=sasl):
            pass
    assert why in str(raised.value)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("certificate_users", "why"),
    [
        ("alice", "must be a mapping"),
        ({"alice": "alice"}, "'alice' is not the subject of a certificate"),
        ({1: "alice"}, "1 is not the subject"),
        ({"CN=alice": ""}, "the user of 'CN=alice' must be a name"),
        ({"CN=alice": None}, "must be a name, not None"),
    ],
)
def test_a_rule_that_cannot_be(certificate_users: Any, why: str) -> None:  # noqa: ANN401 - anything
    with pytest.raises(ConfigError, match="certificate_users") as raised:
        Node(certificate_users=certificate_users)
    assert why in str(raised.value)


async def test_a_listener_that_nobody_could_come_in_by() -> None:
    async with Node(certificate_users={}) as node:
        with pytest.raises(ConfigError, match=r"by certificate alone, and no tls= is given"):
            await node.listen("127.0.0.1:0")
        with pytest.raises(ConfigError, match=r"asks clients for none"):
            await node.listen("127.0.0.1:0", tls=node_context())
    assert trio.lowlevel.in_trio_run()
