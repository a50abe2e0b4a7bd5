"""HTTP at a node: who is let in is decided as for AMQP, and no client takes more than its part."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from contextlib import suppress

import pytest
import trio

import rstreams
from rstreams import Node
from rstreams.errors import AuthenticationFailed, ConfigError, LinkDetached, TransportError
from rstreams.node import STATISTICS, PasswordHash, Permission
from rstreams.tls import ClientCertificate
from tests.net.certificates import alice, certificate, client_context, node_context
from tests.web.http_client import get

USERS = {"alice": "sesame", "bob": "pass"}
ONLY_ALICE = [Permission("alice", STATISTICS, "subscribe")]


async def test_without_users_everyone_of_this_machine_may_look() -> None:
    async with Node() as node:
        listener = await node.listen_http("127.0.0.1:0")
        told = await get(listener)
        assert (told.status, told.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert "rstreams_node_connections 0\n" in told.body


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("127.0.0.1", 200),
        ("127.3.2.1:8080", 200),
        ("[::1]:8080", 200),
        ("evil.example", 421),
        ("localhost.evil.example:80", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.0.0.1", 421),
        ("[2001:db8::1]", 421),
    ],
)
async def test_a_browser_that_was_led_here_by_a_strange_name_sees_nothing(host: str, status: int) -> None:
    async with Node() as node:
        told = await get(await node.listen_http("127.0.0.1:0"), host=host)
        assert told.status == status


@pytest.mark.parametrize(
    ("user", "status", "said"),
    [
        (None, 401, "say who you are"),
        ("alice:sesame", 200, "rstreams_build_info"),
        ("alice:wrong", 401, "the user or the password is wrong"),
        ("mallory:sesame", 401, "the user or the password is wrong"),
        ("alice", 401, "the user or the password is wrong"),
        ("bob:pass", 403, "user 'bob' may not look: a permission to subscribe to '$statistics' is needed"),
    ],
)
async def test_users_are_those_of_amqp(user: str | None, status: int, said: str) -> None:
    users = {name: PasswordHash.of(password) for name, password in USERS.items()}
    async with Node(users=users, permissions=ONLY_ALICE) as node:
        listener = await node.listen_http("127.0.0.1:0")
        told = await get(listener, user=user)
        assert (told.status, said in told.body) == (status, True)
        assert ("www-authenticate" in told.headers) == (status == 401)
        assert (await get(listener, "/livez", user=None)).status == 200


async def test_no_password_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Node(users=USERS) as node:
        await get(await node.listen_http("127.0.0.1:0"), user="alice:open sesame")
    (line,) = [each.getMessage() for each in caplog.records if each.name == "rstreams.web"]
    assert "the user 'alice' or its password is wrong" in line
    assert "open sesame" not in caplog.text


SHOWN: dict[str, Callable[[], ssl.SSLContext]] = {
    "no certificate": client_context,
    "of a user": lambda: client_context(alice()),
    "of nobody": lambda: client_context(certificate("mallory@example.com", common_name="mallory")),
}
BY_CERTIFICATE: dict[str, Callable[[ClientCertificate], str | None] | None] = {
    "no rule": None,
    "alice": lambda shown: "alice" if shown.common_name == "alice" else None,
    "nobody": lambda _shown: None,
}


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("rule", BY_CERTIFICATE)
@pytest.mark.parametrize("password", ["none is needed", None, "sesame", "wrong"])
async def test_who_is_let_in_is_who_is_let_in_by_amqp(password: str | None, rule: str, shown: str) -> None:
    users: dict[str, str] | None = {"alice": "sesame"}
    if password == "none is needed":  # noqa: S105 - no password
        users, password = None, None
    async with Node(users=users, certificate_users=BY_CERTIFICATE[rule]) as node:
        context = node_context(clients=ssl.CERT_OPTIONAL)
        listener = await node.listen("127.0.0.1:0", tls=context)
        http = await node.listen_http("127.0.0.1:0", tls=context)
        user = None if password is None else f"alice:{password}"
        told = await get(http, user=user, tls=SHOWN[shown]())
        url = listener.url if user is None else listener.url.replace("//", f"//{user}@")
        try:
            async with rstreams.connect(url, tls=SHOWN[shown]()) as connection:
                let_in = bool(await connection.stream(STATISTICS).take(1).to_list())
        except (AuthenticationFailed, LinkDetached):
            let_in = False
    assert told.status == (200 if let_in else 401), told.body


async def test_new_users_and_certificates_are_used_from_now_on() -> None:
    async with Node(users=USERS) as node:
        listener = await node.listen_http("127.0.0.1:0", tls=node_context())
        assert (await get(listener, user="alice:sesame", tls=client_context())).status == 200
        await node.renew_access(users={"alice": "new"}, tls={listener: node_context(by="theirs")})
        with pytest.raises(trio.BrokenResourceError):
            await get(listener, user="alice:new", tls=client_context())
        theirs = client_context(trusts="theirs")
        assert (await get(listener, user="alice:new", tls=theirs)).status == 200
        assert (await get(listener, user="alice:sesame", tls=theirs)).status == 401


@pytest.mark.parametrize(("said", "levels"), [(b"", []), (b"GET / HTTP/1.1\r\n\r\n", ["WARNING"])])
async def test_a_probe_that_says_nothing_is_no_warning(
    said: bytes, levels: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with Node() as node:
        listener = await node.listen_http("127.0.0.1:0", tls=node_context())
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            await stream.send_all(said)
            await stream.send_eof()
            with suppress(trio.BrokenResourceError):
                while await stream.receive_some():
                    pass
    found = [each for each in caplog.records if each.name == "rstreams.web"]
    assert [each.levelname for each in found if each.levelno > logging.DEBUG] == levels


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"place": "0.0.0.0:0"}, "other machines can reach it, and there are no users"),
        ({"place": "nowhere"}, "nowhere"),
        ({"place": "127.0.0.1:0", "tls": 1}, "tls"),
        ({"place": "127.0.0.1:0", "max_connections": 0}, "max_connections=0"),
        ({"place": "127.0.0.1:0", "anonymous": "yes"}, "anonymous"),
    ],
)
async def test_what_is_not_allowed_is_told_at_the_call(options: dict[str, object], said: str) -> None:
    async with Node() as node:
        with pytest.raises(ConfigError, match=said):
            await node.listen_http(**options)  # type: ignore[arg-type]


async def test_passwords_do_not_come_in_clear_text_from_other_machines() -> None:
    async with Node(users=USERS) as node:
        with pytest.raises(ConfigError, match="passwords would come in clear text"):
            await node.listen_http("0.0.0.0:0")
        await node.listen_http("0.0.0.0:0", allow_plain_over_tcp=True)


async def test_a_port_in_use_is_told() -> None:
    async with Node() as node:
        listener = await node.listen_http("127.0.0.1:0")
        with pytest.raises(TransportError, match=f"cannot listen on 127.0.0.1:{listener.port}"):
            await node.listen_http(f"127.0.0.1:{listener.port}")


async def test_it_listens_inside_the_block_only() -> None:
    node = Node()
    with pytest.raises(RuntimeError, match=r"await node\.listen_http\(\.\.\.\)"):
        await node.listen_http("127.0.0.1:0")


async def test_a_client_too_many_is_told_so_and_the_others_stay() -> None:
    async with Node() as node:
        listener = await node.listen_http("127.0.0.1:0", max_connections=1)
        async with await trio.open_tcp_stream("127.0.0.1", listener.port):
            told = await get(listener, "/livez")
            assert (told.status, told.body) == (503, "max_connections=1 are open\n")
            assert told.headers["connection"] == "close"
        with trio.fail_after(5):
            while (await get(listener, "/livez")).status != 200:  # noqa: ASYNC110 - it is seen by asking
                await trio.sleep(0.01)


async def test_the_sockets_are_closed_with_the_node() -> None:
    async with Node() as node:
        listener = await node.listen_http("127.0.0.1:0")
        stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
    async with stream:
        with trio.fail_after(5):
            assert await stream.receive_some() == b""
    with pytest.raises(OSError, match="all attempts to connect"):
        await trio.open_tcp_stream("127.0.0.1", listener.port)


async def test_silent_clients_beyond_the_limit_are_closed_soon_or_at_once() -> None:
    async with Node() as node:
        listener = await node.listen_http("127.0.0.1:0", max_connections=2)
        streams = [await trio.open_tcp_stream("127.0.0.1", listener.port) for _ in range(8)]
        try:
            with trio.fail_after(5):
                for stream in streams[4:]:  # at once: twice the limit are there
                    assert await stream.receive_some() == b""
                for stream in streams[2:4]:  # their time is short
                    assert await stream.receive_some() == b""
            with trio.move_on_after(0.05) as patience:
                await streams[0].receive_some()
            assert patience.cancelled_caught, "those within the limit stay"
        finally:
            for stream in streams:
                await stream.aclose()


async def test_a_client_that_sends_ahead_sees_why_it_is_refused() -> None:
    async with Node() as node:
        listener = await node.listen_http("127.0.0.1:0")
        async with await trio.open_tcp_stream("127.0.0.1", listener.port) as stream:
            await stream.send_all(
                b"GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n" + bytes(200_000)
            )
            heard = b""
            while data := await stream.receive_some():
                heard += data
    assert heard.startswith(b"HTTP/1.1 413 ")
    assert heard.endswith(b"a request has no body here\n")
