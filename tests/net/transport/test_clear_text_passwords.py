"""Passwords in clear text: they go to this machine's own addresses, and nowhere else unless it is allowed."""

from __future__ import annotations

import pytest

import rstreams
from rstreams import Node, Stream
from rstreams.errors import ConfigError
from rstreams.net.transport.address import is_loopback, parse_url
from rstreams.net.transport.opening import OpeningOptions

USERS = {"alice": "sesame"}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),  # noqa: S104 - nothing is bound
        ("192.0.2.1", False),
        ("::", False),
        ("2001:db8::1", False),
        ("fe80::1%eth0", False),
        ("::ffff:192.0.2.1", False),
        ("localhost", None),
        ("127.0.0.1.example", None),
    ],
)
def test_what_is_a_loopback_address(host: str, expected: bool | None) -> None:  # noqa: FBT001
    assert is_loopback(host) is expected


@pytest.mark.parametrize("host", ["192.0.2.1", "[2001:db8::1]"])
async def test_no_password_goes_to_another_machine_in_clear_text(host: str) -> None:
    with pytest.raises(ConfigError, match="allow_plain_over_tcp=False") as raised:
        async with rstreams.connect(f"amqp://alice:hush@{host}"):
            pass
    assert f"amqp://{host}:5672" in str(raised.value)
    assert "hush" not in str(raised.value)


async def test_what_counts_is_the_address_that_a_name_leads_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Node(users=USERS) as node:
        node.serve("one", Stream.of(1))
        listener = await node.listen("127.0.0.1:0")
        url = f"amqp://alice:sesame@localhost:{listener.port}"
        async with rstreams.connect(url) as connection:
            assert await connection.stream("one").to_list() == [1]
        monkeypatch.setattr(
            "rstreams.net.transport.opening.is_loopback", lambda host: None if host == "localhost" else False
        )
        with pytest.raises(ConfigError, match="in clear text"):
            async with rstreams.connect(url):
                pass
        async with rstreams.connect(url, allow_plain_over_tcp=True) as connection:
            assert await connection.stream("one").to_list() == [1]
        async with rstreams.connect(url, sasl="PLAIN", allow_plain_over_tcp=True):
            pass


def test_over_tls_a_password_may_go_anywhere_and_so_may_a_client_without_one() -> None:
    options = OpeningOptions("me")
    options.check(parse_url("amqps://alice:hush@192.0.2.1"))
    options.check(parse_url("amqp://192.0.2.1"))
