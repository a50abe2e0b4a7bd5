"""Shared access keys: what a connection string says, and the tokens that are signed with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

import pytest

from rstreams.errors import ConfigError
from rstreams.net.cbs import SharedAccessKey, Token, tokens

ENDPOINT = "Endpoint=sb://example.servicebus.windows.net/"
KEY = "SharedAccessKeyName=Root;SharedAccessKey=c2VjcmV0+/="
EXPIRES = 1767229200
SOON = datetime(2100, 1, 1, tzinfo=UTC)
BYTES: Any = b"c2V"


def test_a_connection_string() -> None:
    key = SharedAccessKey.from_connection_string(f"{ENDPOINT};{KEY};EntityPath=orders")
    assert (key.url, key.name, key.key) == ("amqps://example.servicebus.windows.net", "Root", "c2VjcmV0+/=")
    assert key.entity == "orders"
    assert "c2V" not in repr(key)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (f" {ENDPOINT};{KEY}; ", "amqps://example.servicebus.windows.net"),
        (f"endpoint=sb://a:5671;{KEY.lower().replace('c2vjcmv0', 'x')}", "amqps://a:5671"),
        (f"Endpoint=sb://localhost;{KEY};UseDevelopmentEmulator=true", "amqp://localhost"),
        (f"Endpoint=sb://[::1]:5673;{KEY};UseDevelopmentEmulator=true;", "amqp://[::1]:5673"),
    ],
)
def test_connection_strings_as_they_are_written(text: str, url: str) -> None:
    assert SharedAccessKey.from_connection_string(text).url == url


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (KEY, "it has no Endpoint"),
        (f"{ENDPOINT};SharedAccessKey=c2V", "it has no SharedAccessKeyName"),
        (f"{ENDPOINT};SharedAccessKeyName=Root", "it has no SharedAccessKey"),
        (f"{ENDPOINT};SharedAccessKeyName=Root;SharedAccessKey=", "it has no SharedAccessKey"),
        (f"Endpoint=example.com;{KEY}", "its Endpoint must be a uri such as sb://name.servicebus.windows.net/"),
        (f"Endpoint=sb://a:b;{KEY}", "its Endpoint must be a uri"),
        ("c2VjcmV0", "it must be Endpoint=...;SharedAccessKeyName=...;SharedAccessKey=..."),
        ("", "it must be Endpoint=...;"),
        (b"c2VjcmV0", "it must be a string, not bytes"),
    ],
)
def test_a_connection_string_that_cannot_be_is_refused_without_its_key(text: Any, why: str) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError) as caught:
        SharedAccessKey.from_connection_string(text)
    assert str(caught.value).startswith(f"connection string: {why}")
    assert "c2V" not in str(caught.value)


def test_a_token_is_the_one_that_azures_own_client_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "now", lambda: datetime.fromtimestamp(EXPIRES - 3600, UTC))
    token = SharedAccessKey("amqps://a", "Root Manage", "c2VjcmV0+/=")("sb://example.servicebus.windows.net/orders")
    assert token.type == "servicebus.windows.net:sastoken"
    assert token.expires_at == datetime.fromtimestamp(EXPIRES, UTC)
    scheme, _, fields = token.value.partition(" ")
    assert scheme == "SharedAccessSignature"
    assert {name: values[0] for name, values in parse_qs(fields, strict_parsing=True).items()} == {
        "sr": "sb://example.servicebus.windows.net/orders",
        "sig": "ptUbIAiTQ104AGoPg6i7l88Eh6MuaQQkXkqM8nDs0C0=",  # of azure-eventhub 5.15.1
        "se": str(EXPIRES),
        "skn": "Root Manage",
    }


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: SharedAccessKey("amqps://a", "", "c2V"), "SharedAccessKey(name=...)"),
        (lambda: SharedAccessKey("amqps://a", "Root", BYTES), "SharedAccessKey(key=...)"),
        (lambda: SharedAccessKey("amqps://a", "Root", "c2V", lifetime_s=0), "SharedAccessKey(lifetime_s=0)"),
        (lambda: Token("", datetime.now(UTC)), "Token(value=...): it must be a string that is not empty, not str"),
        (lambda: Token(BYTES, SOON), "Token(value=...): it must be a string that is not empty, not bytes"),
        (lambda: Token("c2V\xe9", datetime.now(UTC)), "Token(value=...): it must be of ASCII"),
        (lambda: Token("c2V", datetime(2026, 1, 1)), "Token(expires_at="),  # noqa: DTZ001 - the point
        (lambda: Token("c2V", 3), "Token(expires_at=3)"),  # type: ignore[arg-type]
        (lambda: Token("c2V", datetime.now(UTC), ""), "Token(type='')"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_without_the_secret(make: Callable[[], object], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert str(caught.value).startswith(text)
    assert "c2V" not in str(caught.value)


def test_no_repr_shows_a_token() -> None:
    assert "c2V" not in repr(Token("c2V", datetime.now(UTC)))
