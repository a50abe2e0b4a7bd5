"""The address of a peer: the url of a connection, and the place where a node listens."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from rstreams.errors import ConfigError

DEFAULT_PORT: Final = 5672
DEFAULT_TLS_PORT: Final = 5671

VIRTUAL_HOST: Final = "vhost:"
"""What a virtual host of RabbitMQ begins with in the `hostname` of `open`."""

_PORT_OF: Final = {"amqp": DEFAULT_PORT, "amqps": DEFAULT_TLS_PORT}
_PORTS: Final = "a number from 1 to 65535"


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """A peer's host and port, whether it speaks TLS, and the credentials to show it; the password is in no repr.

    Attributes:
        virtual_host: The virtual host of RabbitMQ; None: that which it has by itself.
    """

    host: str
    port: int = DEFAULT_PORT
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    virtual_host: str | None = None

    def __str__(self) -> str:
        """Return host and port, as in a url."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def asked_for(self) -> str:
        """The `hostname` of the `open` frame; RabbitMQ 4 finds its virtual host there."""
        return self.host if self.virtual_host is None else f"{VIRTUAL_HOST}{self.virtual_host}"

    @property
    def url(self) -> str:
        """The url, without credentials."""
        return f"{'amqps' if self.tls else 'amqp'}://{self}"


def is_loopback(host: str) -> bool | None:
    """Tell whether an address leads to this machine alone; None for a name, which has to be looked up."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def parse_url(url: str) -> PeerAddress:
    """Return the address of an `amqp://[user:password@]host[:port][/virtual host]` url; `amqps` is AMQP over TLS.

    Errors: `ConfigError` with the reason and the url, without its password.
    """
    if not isinstance(url, str):
        msg = f"url must be a string such as 'amqp://127.0.0.1:5672', not {type(url).__name__}"
        raise ConfigError(msg)
    read = _read(url)
    if read is None:
        raise _bad_url(url, f"its host or port is not valid; a port is {_PORTS}")
    parts, port = read
    if parts.scheme not in _PORT_OF:
        raise _bad_url(url, f"the scheme is {parts.scheme!r}, and must be 'amqp', or 'amqps' for TLS")
    if not parts.hostname:
        raise _bad_url(url, "it names no host")
    virtual_host = unquote(parts.path[1:])
    if "/" in parts.path[1:] or parts.query or parts.fragment or "\0" in virtual_host:
        why = (
            "only the name of a virtual host of RabbitMQ may follow the port, such as /v2, or /%2F for its default one"
        )
        raise _bad_url(url, f"{why}; an address is given to stream() or publish()")
    if port == 0:
        raise _bad_url(url, "port 0 cannot be connected to")
    if parts.password is not None and not parts.username:
        raise _bad_url(url, "it has a password and no user")
    if not _is_host(parts.hostname):
        raise _bad_url(url, "its host is not valid: a name has parts of 1 to 63 characters")
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password is not None else None
    if "\0" in f"{user}{password}":
        raise _bad_url(url, "there is a NUL character in its user or password")
    scheme = parts.scheme
    port = _PORT_OF[scheme] if port is None else port
    return PeerAddress(parts.hostname, port, user, password, scheme == "amqps", virtual_host or None)


def _read(url: str) -> tuple[SplitResult, int | None] | None:
    """Return the parts and the port; None for a malformed url.

    The caller raises the error, without urllib's error as its cause, because that may show a part of a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    return parts, port


def parse_place(place: str) -> PeerAddress:
    """Return the host and port of `host:port`; port 0 lets the system choose one.

    Errors: `ConfigError` naming the place and what is allowed.
    """
    read = _read(f"//{place}")
    if read is not None:
        parts, port = read
        plain = not parts.path and not parts.query and not parts.fragment and parts.username is None
        if parts.hostname and _is_host(parts.hostname) and port is not None and plain:
            return PeerAddress(parts.hostname, port)
    shown = _without_credentials(place) if isinstance(place, str) else place
    msg = f"listen={shown!r}: give host:port, such as 127.0.0.1:5672 (port 0: any free port)"
    raise ConfigError(msg)


def _is_host(host: str) -> bool:
    """Tell whether a text has the form of a host's name or address."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def _bad_url(url: str, why: str) -> ConfigError:
    credentials = url.rpartition("@")[0].partition("//")[2]
    if any(special in credentials for special in "/?#[]"):
        why += "; if it has a user and a password, their special characters must be percent-encoded, such as %2F for /"
    return ConfigError(
        f"url={_without_credentials(url)!r}: {why} (amqp[s]://[user:password@]host[:port][/virtual host])"
    )


def _without_credentials(url: str) -> str:
    before, at, after = url.rpartition("@")
    if not at:
        return url
    scheme, slashes, _ = before.partition("//")
    known = slashes and scheme.endswith(":") and ":" not in scheme[:-1]  # else it may be a part of the password
    return f"{scheme}//***@{after}" if known else f"***@{after}"
