"""Shared access keys of Azure Service Bus and Event Hubs, and the tokens that are signed with them."""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from rstreams._checks.numbers import require_seconds
from rstreams.errors import ConfigError
from rstreams.net.cbs import tokens
from rstreams.net.cbs.tokens import SAS, Token

DEFAULT_LIFETIME_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class SharedAccessKey:
    """A key that signs tokens for Azure Service Bus and Event Hubs: `connect(key.url, cbs=key)`.

    Attributes:
        url: The url of the namespace: `amqps://name.servicebus.windows.net`.
        name: The name of the key's policy.
        key: The key. It is a secret and is not part of the repr.
        entity: The one queue, topic or hub that the connection string is for; None: the whole namespace.
        lifetime_s: How long a token holds, in seconds; a new one is put before that.

    Errors: `ConfigError` naming the attribute, and never the key.
    Spec: Azure Service Bus, "Access control with shared access signatures".
    """

    url: str
    name: str
    key: str = field(repr=False)
    entity: str | None = None
    lifetime_s: float = DEFAULT_LIFETIME_S

    def __post_init__(self) -> None:
        """Check each attribute."""
        require_seconds("SharedAccessKey", "lifetime_s", self.lifetime_s)
        for option, value in (("name", self.name), ("key", self.key)):
            if not isinstance(value, str) or not value:
                msg = f"SharedAccessKey({option}=...): it must be a string that is not empty"
                raise ConfigError(msg)

    @classmethod
    def from_connection_string(cls, text: str, *, lifetime_s: float = DEFAULT_LIFETIME_S) -> SharedAccessKey:
        """Return the key in a connection string.

        Args:
            text: `Endpoint=sb://...;SharedAccessKeyName=...;SharedAccessKey=...[;EntityPath=...]`. With
                `UseDevelopmentEmulator=true` the url is one without TLS.
            lifetime_s: As for the class.

        Errors: `ConfigError` naming the part that is missing or not valid, and never the key.
        """
        parts = _parts(text)
        wanted = ("endpoint", "sharedaccesskeyname", "sharedaccesskey")
        missing = [name for name in wanted if not parts.get(name)]
        if missing:
            names = {"endpoint": "Endpoint", "sharedaccesskeyname": "SharedAccessKeyName"}
            msg = f"connection string: it has no {names.get(missing[0], 'SharedAccessKey')}"
            raise ConfigError(msg)
        scheme = "amqp" if parts.get("usedevelopmentemulator", "").lower() == "true" else "amqps"
        place = _place(parts["endpoint"])
        entity = parts.get("entitypath") or None
        return cls(f"{scheme}://{place}", parts["sharedaccesskeyname"], parts["sharedaccesskey"], entity, lifetime_s)

    def __call__(self, audience: str) -> Token:
        """Return a new token for `audience`, the uri of an entity or of a parent of it."""
        expires_at = (tokens.now() + timedelta(seconds=self.lifetime_s)).replace(microsecond=0)
        until = str(int(expires_at.timestamp()))
        signed = f"{quote(audience, safe='')}\n{until}".encode()
        signature = base64.b64encode(hmac.digest(self.key.encode(), signed, "sha256")).decode()
        fields = urlencode({"sr": audience, "sig": signature, "se": until, "skn": self.name}, quote_via=quote, safe="")
        return Token(f"SharedAccessSignature {fields}", datetime.fromtimestamp(int(until), UTC), SAS)


def _parts(text: str) -> dict[str, str]:
    """Return the parts of a connection string, by their names in lower case."""
    if not isinstance(text, str):
        msg = f"connection string: it must be a string, not {type(text).__name__}"
        raise ConfigError(msg)
    parts = {}
    for part in text.strip().strip(";").split(";"):
        name, equals, value = part.partition("=")
        if not equals:
            msg = "connection string: it must be Endpoint=...;SharedAccessKeyName=...;SharedAccessKey=..."
            raise ConfigError(msg)  # without the part, which may be a part of the key
        parts[name.strip().lower()] = value.strip()
    return parts


def _place(endpoint: str) -> str:
    """Return host and port of an endpoint."""
    try:
        uri = urlsplit(endpoint)
        host, port = uri.hostname, uri.port
    except ValueError:
        host, port = None, None
    if not host or "@" in endpoint:
        msg = "connection string: its Endpoint must be a uri such as sb://name.servicebus.windows.net/"
        raise ConfigError(msg)
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"
