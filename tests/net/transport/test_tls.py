"""TLS between clients and nodes: what is verified, and how what goes wrong is told to whom it concerns."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair

import rstreams
from rstreams import Node, Stream
from rstreams.errors import AuthenticationFailed, ConfigError, ConnectFailed, RStreamsError
from rstreams.net.transport.address import PeerAddress
from rstreams.net.transport.opening import OpeningOptions, open_connection
from rstreams.net.transport.tls_streams import start_tls
from tests.net.certificates import TO_COME, alice, authority, client_context, node_context
from tests.net.over_tcp import until
from tests.net.wire import AMQP_HEADER, SASL_HEADER, SASL_MECHANISMS, SASL_OUTCOME


@asynccontextmanager
async def listening(context: ssl.SSLContext | None, **options: Any) -> AsyncIterator[tuple[Node, str]]:  # noqa: ANN401
    """Run a node that serves "numbers"; yield it with its url."""
    async with Node(**options) as node:
        node.serve("numbers", Stream.range(3))
        listener = await node.listen("127.0.0.1:0", tls=context)
        yield node, listener.url


async def refused(url: str, **options: Any) -> RStreamsError:  # noqa: ANN401 - those of `connect`
    with pytest.raises(RStreamsError) as raised:
        async with rstreams.connect(url, connect_timeout_s=5, **options):
            pass
    return raised.value


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "rstreams.net" and each.levelno >= 30]


async def told_once(caplog: pytest.LogCaptureFixture) -> str:
    """Return the one line that the listener has logged."""
    await until(lambda: warnings(caplog))
    (line,) = warnings(caplog)
    assert line.startswith("refused a connection from 127.0.0.1:")
    return line


# that it works


async def test_a_stream_over_tls_there_and_back() -> None:
    async with listening(node_context()) as (node, url):
        assert url.startswith("amqps://127.0.0.1:")
        node.queue("work")
        async with rstreams.connect(url, tls=client_context()) as connection:
            assert await connection.stream("numbers").to_list() == [0, 1, 2]
            assert (await connection.publish("work", Stream.of(b"x" * 300_000))).accepted == 1
            (item,) = await connection.stream("work").take(1).to_list()
            assert item == b"x" * 300_000


async def test_the_end_of_a_connection_is_told_in_tls_too() -> None:
    """RFC 8446 section 6.1: else the other side cannot tell the end from somebody who cuts the wire."""
    heard: list[bytes] = []

    async with Node() as node:
        listener = await node.listen("127.0.0.1:0", tls=node_context())
        tcp = await trio.open_tcp_stream("127.0.0.1", listener.port)
        stream = trio.SSLStream(tcp, client_context(), server_hostname="127.0.0.1")
        async with stream:
            await stream.send_all(b"AMQP\x00\x01\x00\x00" + OPEN + CLOSE)
            while data := await stream.receive_some():  # an end without close_notify would raise
                heard.append(bytes(data))
    assert b"".join(heard).startswith(b"AMQP\x00\x01\x00\x00")


OPEN = b"\x00\x00\x00\x11\x02\x00\x00\x00\x00S\x10\xc0\x04\x01\xa1\x01x"
CLOSE = b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00S\x18\x45"


async def test_a_password_over_tls() -> None:
    async with listening(node_context(), users={"alice": "sesame"}) as (_, url):
        with_user = url.replace("//", "//alice:sesame@")
        async with rstreams.connect(with_user, tls=client_context()) as connection:
            assert await connection.stream("numbers").to_list() == [0, 1, 2]
        error = await refused(url.replace("//", "//alice:open@"), tls=client_context())
        assert isinstance(error, AuthenticationFailed)
        assert "no such user with this password" in str(error)


# certificates of nodes


async def test_by_default_a_certificate_must_be_signed_by_somebody_the_system_trusts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening(node_context()) as (_, url):
        error = await refused(url)
        line = await told_once(caplog)
    assert isinstance(error, ConnectFailed)
    assert "no authority that is trusted here has signed it" in str(error)
    assert "client_context(ca_file=...)" in str(error)
    assert re.fullmatch(
        r"refused a connection from 127\.0\.0\.1:\d+: it refused this side's certificate \(.* unknown ca\): "
        r"it must trust the authority that has signed it, and connect by a name that the certificate has",
        line,
    )


@pytest.mark.parametrize(
    ("context", "why"),
    [
        (lambda: node_context(expired=True), "it has expired"),
        (lambda: node_context(by="somebody else"), "no authority that is trusted here has signed it"),
        (lambda: node_context("broker.example"), "it is for another host than '127.0.0.1'"),
        (lambda: node_context("127.0.0.2"), "it is for another host than '127.0.0.1'"),
    ],
    ids=["expired", "of an unknown authority", "for another name", "for another address"],
)
async def test_a_wrong_certificate_is_told_as_what_is_wrong_and_logged_once(
    context: Any,  # noqa: ANN401 - a function
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening(context()) as (_, url):
        error = await refused(url, tls=client_context())
        line = await told_once(caplog)
    assert isinstance(error, ConnectFailed)
    assert why in str(error)
    assert url.removeprefix("amqps://") in str(error)
    assert "it refused this side's certificate" in line


async def test_a_certificate_that_is_not_valid_yet() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    end = TO_COME.replace(year=3000)
    authority().issue_cert("127.0.0.1", not_before=TO_COME, not_after=end).configure_cert(context)
    async with listening(context) as (_, url):
        error = await refused(url, tls=client_context())
    assert isinstance(error, ConnectFailed)
    assert "it is not valid yet" in str(error)


async def test_a_host_name_is_verified_against_the_certificate() -> None:
    async with listening(node_context("localhost")) as (_, url):
        named = url.replace("127.0.0.1", "localhost")
        async with rstreams.connect(named, tls=client_context()) as connection:
            assert await connection.stream("numbers").to_list() == [0, 1, 2]
        assert isinstance(await refused(url, tls=client_context()), ConnectFailed)


async def test_who_switches_verification_off_has_it_off() -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    async with (
        listening(node_context("elsewhere", expired=True)) as (_, url),
        rstreams.connect(url, tls=context) as connection,
    ):
        assert await connection.stream("numbers").to_list() == [0, 1, 2]


# certificates of clients


async def test_a_client_without_a_certificate_is_told_that_one_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(node_context(clients=ssl.CERT_REQUIRED)) as (_, url):
        error = await refused(url, tls=client_context())
        line = await told_once(caplog)
    assert isinstance(error, AuthenticationFailed)
    assert "certificate=" in str(error)
    assert "it has shown no client certificate" in line


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (lambda: alice(expired=True), "certificate has expired"),
        (lambda: alice(by="somebody else"), "unable to get local issuer certificate"),
    ],
    ids=["expired", "of an unknown authority"],
)
async def test_a_wrong_client_certificate_is_told_to_both(
    shown: Any,  # noqa: ANN401 - a function
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with listening(node_context(clients=ssl.CERT_REQUIRED)) as (_, url):
        error = await refused(url, tls=client_context(shown()))
        line = await told_once(caplog)
    assert isinstance(error, AuthenticationFailed)
    assert "refused this side's certificate" in str(error)
    assert f"its certificate was refused: {why}" in line


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_client_certificate_in_both_versions_of_tls(version: ssl.TLSVersion) -> None:
    context = client_context(alice())
    context.maximum_version = context.minimum_version = version
    bare = client_context()
    bare.maximum_version = bare.minimum_version = version
    async with listening(node_context(clients=ssl.CERT_REQUIRED)) as (_, url):
        async with rstreams.connect(url, tls=context) as connection:
            assert await connection.stream("numbers").to_list() == [0, 1, 2]
        error = await refused(url, tls=bare)
        assert "wants one" in str(error) or "perhaps it wants a client certificate" in str(error)


async def test_versions_of_tls_that_do_not_meet_are_told() -> None:
    old, new = client_context(), node_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    new.minimum_version = ssl.TLSVersion.TLSv1_3
    async with listening(new) as (_, url):
        error = await refused(url, tls=old)
    assert isinstance(error, ConnectFailed)
    assert "refused the TLS of this side" in str(error)
    assert "protocol version" in str(error)


# one side speaks TLS, the other does not


async def test_tls_to_a_port_that_speaks_none(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(None) as (_, url):
        error = await refused(url.replace("amqp:", "amqps:"), tls=client_context())
        line = await told_once(caplog)
    assert isinstance(error, ConnectFailed)
    assert "does not speak TLS: plain AMQP is amqp://" in str(error)
    assert "which this listener does not speak" in line


@pytest.mark.parametrize("who", ["", "alice:hush@"])
async def test_no_tls_to_a_port_that_speaks_it(who: str, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(node_context()) as (_, url):
        error = await refused(url.replace("amqps://", f"amqp://{who}"))
        line = await told_once(caplog)
    assert isinstance(error, ConnectFailed)
    assert "speaks TLS: connect with amqps://" in str(error)
    assert "it does not speak TLS" in line
    assert "hush" not in str(error) + line


NONSENSE = b"\x16\x03\x01\x00\x05hello"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (NONSENSE[:7], "it hung up during the TLS handshake"),
        (NONSENSE, "the TLS handshake failed (unexpected message)"),
        (b"GET / HTTP/1.1\r\n\r\n", "it does not speak TLS"),
    ],
)
async def test_a_client_that_breaks_the_handshake_is_logged_once(
    said: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(node_context()) as (_, url):
        async with await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2])) as stream:
            await stream.send_all(said)
            await stream.send_eof()
            while await stream.receive_some():
                pass
        assert why in await told_once(caplog)


async def test_a_server_that_breaks_the_handshake() -> None:
    ours, theirs = memory_stream_pair()
    await theirs.send_all(NONSENSE)
    with pytest.raises(ConnectFailed, match=r"TLS with peer:1 failed \(unexpected message\)"):
        await start_tls(ours, PeerAddress("peer", 1, tls=True), client_context())


async def test_a_host_that_no_certificate_can_be_for() -> None:
    ours, _ = memory_stream_pair()
    with pytest.raises(ConfigError, match=r"TLS with \.:1 is not possible"):
        await start_tls(ours, PeerAddress(".", 1, tls=True), client_context())


async def test_a_server_that_hangs_up_in_the_handshake() -> None:
    async def hang_up(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, hang_up, [listener])
        place = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        error = await refused(f"amqps://{place}", tls=client_context())
        assert isinstance(error, ConnectFailed)
        assert f"{place} hung up during the TLS handshake" in str(error)
        error = await refused(f"amqp://{place}")
        assert isinstance(error, ConnectFailed)
        assert "if it speaks TLS, connect with amqps://" in str(error)
        nursery.cancel_scope.cancel()


async def test_a_server_that_says_nothing_in_the_handshake_is_left_in_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    hung_up = trio.Event()

    async def silent(stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            pass
        hung_up.set()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, silent, [listener])
        url = f"amqps://127.0.0.1:{listener.socket.getsockname()[1]}"
        with pytest.raises(ConnectFailed, match=r"within connect_timeout_s=5 \(TLS\)"):
            async with rstreams.connect(url, tls=client_context(), connect_timeout_s=5):
                pass
        assert trio.current_time() == pytest.approx(5, abs=0.1)
        await hung_up.wait()
        nursery.cancel_scope.cancel()
    assert autojump_clock.rate == 0


@pytest.mark.parametrize("phase", ["TLS", "SASL", "open"])
async def test_an_attempt_that_is_cancelled_leaves_nothing_behind(phase: str) -> None:
    """Whoever opens a connection again and again must not gather tasks or sockets."""
    reached, hung_up = trio.Event(), trio.Event()

    async def stalls(tcp: trio.SocketStream) -> None:
        stream: trio.abc.Stream = tcp
        if phase != "TLS":
            stream = trio.SSLStream(tcp, node_context(), server_side=True)
            await stream.receive_some()
        if phase == "open":
            await stream.send_all(SASL_HEADER + SASL_MECHANISMS + SASL_OUTCOME + AMQP_HEADER)
        reached.set()
        with suppress(trio.BrokenResourceError):
            while await tcp.receive_some():
                pass
        hung_up.set()

    async with trio.open_nursery() as nursery, trio.open_nursery() as pumps:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, stalls, [listener])
        address = PeerAddress("127.0.0.1", listener.socket.getsockname()[1], tls=True)
        attempts, given_up = trio.CancelScope(), trio.Event()

        async def attempt() -> None:
            with attempts:
                options = OpeningOptions("me", tls=client_context())
                await open_connection(address, options, pumps, on_attach=lambda *_: None)
            given_up.set()

        nursery.start_soon(attempt)
        await reached.wait()
        attempts.cancel()
        await given_up.wait()
        await until(lambda: not pumps.child_tasks)
        await hung_up.wait()
        nursery.cancel_scope.cancel()


# what cannot be


@pytest.mark.parametrize(
    ("url", "options", "why"),
    [
        ("amqp://127.0.0.1", {"tls": client_context}, "for TLS the url begins with amqps://"),
        ("amqps://127.0.0.1", {"tls": lambda: True}, "tls=True: tls must be None or an ssl.SSLContext"),
        ("amqps://127.0.0.1", {"tls": lambda: "ca.pem"}, "tls='ca.pem'"),
        ("amqps://127.0.0.1", {"tls": node_context}, "made for the other side"),
    ],
)
async def test_a_context_that_cannot_be(url: str, options: dict[str, Any], why: str) -> None:
    made = {name: make() for name, make in options.items()}
    with pytest.raises(ConfigError, match=why.replace("(", r"\(")):
        async with rstreams.connect(url, **made):
            pass


async def test_a_listeners_context_that_cannot_be() -> None:
    async with Node() as node:
        with pytest.raises(ConfigError, match="made for the other side"):
            await node.listen("127.0.0.1:0", tls=client_context())
        with pytest.raises(ConfigError, match=r"tls='node\.pem'"):
            await node.listen("127.0.0.1:0", tls="node.pem")  # type: ignore[arg-type]
