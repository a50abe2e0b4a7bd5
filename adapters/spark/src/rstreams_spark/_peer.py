"""The AMQP peer: its address, the encryption of the connection, and this side's credentials."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from rstreams.errors import ConfigError
from rstreams_spark._given import Given, Secret
from rstreams_spark._tokens import Tokens

if TYPE_CHECKING:
    import ssl

PEER_NAMES: Final = (
    "url",
    "connectionString",
    "connectionStringFile",
    "connectionStringEnv",
    "tokenFunction",
    "dialect",
    "username",
    "password",
    "passwordFile",
    "passwordEnv",
    "sasl",
    "tlsCaFile",
    "tlsCertificateFile",
    "tlsKeyFile",
    "tlsKeyPassword",
    "tlsKeyPasswordFile",
    "tlsKeyPasswordEnv",
    "allowPlainOverTcp",
)
"""The options of the connection, which source and sink share."""

_URL: Final = "amqp://[user:password@]host[:port], or amqps:// for TLS"
_BETWEEN_URLS: Final = re.compile(r" *, *(?=[a-z]+://)")
_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_MECHANISMS: Final = {"plain": "PLAIN", "external": "EXTERNAL", "anonymous": "ANONYMOUS"}


@dataclass(frozen=True)
class Peer:
    """An AMQP peer. No text of it and no `repr` shows a password.

    Attributes:
        places: Host and port of each url; they are tried in turn.
        entity: The one address that a connection string is for.
        most_unsettled: The most messages that a link may have sent and that are not settled; None: the default.
    """

    scheme: str
    places: tuple[str, ...]
    username: str | None = field(default=None, repr=False)
    password: Secret | None = None
    sasl: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: Secret | None = field(default=None)
    allow_plain_over_tcp: bool = False
    tokens: Tokens | None = None
    dialect: str | None = None
    entity: str | None = None
    most_unsettled: int | None = None

    @classmethod
    def parse(cls, given: Given) -> Peer:
        """Read the options of the connection; those that are wrong are noted in `given`."""
        tokens = Tokens.parse(given)
        place: _Place | None
        username: str | None = None
        password = given.secret("password")
        if tokens is not None and tokens.connection_string is not None:
            place = given.attempt(lambda: _read_connection_string(given, tokens), None)
        else:
            place = urls = _read_urls(given)
            username, password = given.attempt(lambda: _credentials(given, password, urls), (None, None))
        peer = cls(
            scheme="" if place is None else place.scheme,
            places=() if place is None else place.places,
            username=username,
            password=password,
            sasl=given.one_of("sasl", _MECHANISMS, None),
            ca_file=given.optional("tlsCaFile", "a file with the certificates of the trusted authorities (PEM)"),
            certificate_file=given.optional("tlsCertificateFile", "a file with the client certificate (PEM)"),
            key_file=given.optional("tlsKeyFile", "a file with the private key of the client certificate (PEM)"),
            key_password=given.secret("tlsKeyPassword"),
            allow_plain_over_tcp=given.flag("allowPlainOverTcp", default=False),
            tokens=tokens,
            dialect=given.one_of("dialect", _dialects(), None),
            entity=None if place is None else place.entity,
        )
        if place is not None:
            peer._check(given)
        return peer

    def __str__(self) -> str:
        return ",".join(self.places)

    def connect_url(self) -> str | list[str]:
        """Return the url for `connect`, with the credentials in it; a password's file or variable is read now.

        Errors: `ConfigError` if the password cannot be read.
        """
        user = ""
        if self.username is not None:
            password = "" if self.password is None else f":{quote(self.password.read(), safe='')}"
            user = f"{quote(self.username, safe='')}{password}@"
        urls = [f"{self.scheme}://{user}{place}" for place in self.places]
        return urls[0] if len(urls) == 1 else urls

    def connect_options(self) -> dict[str, Any]:
        """Return the options for `connect`; the files of certificates are read now.

        Errors: `ConfigError` that names the option, its file, and what is wrong with the file.
        """
        options: dict[str, Any] = {"sasl": self.sasl, "allow_plain_over_tcp": self.allow_plain_over_tcp}
        dialect = self.dialect
        if self.tokens is not None:
            options["cbs"] = self.tokens.source()
            dialect = dialect or ("servicebus" if self.tokens.connection_string is not None else None)
        if dialect is not None:
            options["dialect"] = dialect
        if self.most_unsettled is not None:
            options["max_unsettled"] = self.most_unsettled
        context = self._tls()
        return options if context is None else options | {"tls": context}

    def without_secrets(self) -> Peer:
        """Return the same peer without passwords, for a copy that opens no connection."""
        hidden = [secret and secret.without_value() for secret in (self.password, self.key_password)]
        tokens = self.tokens and self.tokens.without_value()
        return replace(self, password=hidden[0], key_password=hidden[1], tokens=tokens)

    def _tls(self) -> ssl.SSLContext | None:
        if self.ca_file is None and self.certificate_file is None:
            return None
        from rstreams.tls import client_context

        try:
            return client_context(
                ca_file=self.ca_file,
                certificate=self.certificate_file,
                key=self.key_file,
                password=None if self.key_password is None else self.key_password.read(),
            )
        except ConfigError as error:
            text = re.sub(r"^(ca_file|certificate|key)=", lambda match: f"option {_TLS_OPTIONS[match[1]]}=", str(error))
            raise ConfigError(text) from None

    def _check(self, given: Given) -> None:
        if self.scheme != "amqps":
            for name in PEER_NAMES:
                if name.startswith("tls") and given.has(name):
                    given.refuse(f"option {name}: it is for TLS, and option url begins with amqp://; use amqps://")
        if self.certificate_file is None:
            for name in ("tlsKeyFile", "tlsKeyPassword", "tlsKeyPasswordFile", "tlsKeyPasswordEnv"):
                if given.has(name):
                    given.refuse(f"option tlsCertificateFile is missing: option {name} belongs to a client certificate")
        if self.sasl == "EXTERNAL" and (self.scheme != "amqps" or self.certificate_file is None):
            given.refuse(
                "option sasl='EXTERNAL': it needs a url that begins with amqps://, and option tlsCertificateFile"
            )
        if self.sasl == "PLAIN" and self.username is None:
            given.refuse("option sasl='PLAIN': it needs a username and a password")
        if self.scheme == "amqps":
            given.attempt(self._tls, None)


_TLS_OPTIONS: Final = {"ca_file": "tlsCaFile", "certificate": "tlsCertificateFile", "key": "tlsKeyFile"}


@dataclass(frozen=True)
class _Place:
    """The contents of option url, whose urls have the same scheme and the same user, or of a connection string."""

    scheme: str
    places: tuple[str, ...]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    has_user: bool = False
    entity: str | None = None


def _read_urls(given: Given) -> _Place | None:
    """Return the urls, or None if one of them is wrong, which is noted."""
    text = given.required("url", f"{_URL}, such as amqp://127.0.0.1:5672")
    if not text:
        return None

    def read() -> _Place:
        urls = [_read_url(each) for each in _BETWEEN_URLS.split(text)]
        first = urls[0]
        if len({(url.scheme, url.username, url.password) for url in urls}) > 1:
            msg = "option url: all urls must have the same scheme and the same user and password"
            raise ConfigError(msg)
        places = tuple(_place(url) for url in urls)
        return _Place(first.scheme, places, first.username, first.password, "@" in first.netloc)

    return given.attempt(read, None)


def _place(url: SplitResult) -> str:
    host = url.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{url.port or _PORTS[url.scheme]}"


def _read_url(given: str) -> SplitResult:
    try:
        url = urlsplit(given)
        port = url.port
    except ValueError:
        raise _wrong_url(given) from None
    beyond = url.path not in {"", "/"} or url.query or url.fragment
    nameless = url.password is not None and not url.username
    if url.scheme not in _PORTS or not url.hostname or port == 0 or beyond or nameless:
        raise _wrong_url(given)
    return url


def _read_connection_string(given: Given, tokens: Tokens) -> _Place:
    assert tokens.connection_string is not None, "it is given"
    for name in ("url", "username", "password", "passwordFile", "passwordEnv"):
        if given.has(name):
            msg = f"option {name}: not allowed beside option {tokens.connection_string.name}, which has its own"
            raise ConfigError(msg)
    key = tokens.key()
    url = _read_url(key.url)
    return _Place(url.scheme, (_place(url),), entity=key.entity)


def _credentials(given: Given, password: Secret | None, url: _Place | None) -> tuple[str | None, Secret | None]:
    username = given.optional("username", "the name to log in with")
    if url is None:
        return username, password
    if username is None and password is not None and url.username and url.password is None:
        return unquote(url.username), password  # amqp://user@host, and the password from a file
    if username is not None and url.has_user:
        msg = "options username and password: not allowed beside a url that has a user of its own"
        raise ConfigError(msg)
    if username is None and password is not None:
        if url.has_user:
            msg = "option password: not allowed beside a url that has a password of its own"
            raise ConfigError(msg)
        msg = "option username is missing: username and password must be given together"
        raise ConfigError(msg)
    if username is not None:
        if password is None:
            msg = (
                "option password is missing: username and password must be given together. passwordFile or "
                "passwordEnv can take its place"
            )
            raise ConfigError(msg)
        return username, password
    if url.username:
        return unquote(url.username), Secret("password", unquote(url.password or ""))
    return None, None


def _dialects() -> dict[str, str]:
    from rstreams.net.dialects import DIALECTS

    return {name: name for name in DIALECTS}


def _wrong_url(url: str) -> ConfigError:
    """Return the error for a url. The url is shown without the part before the host, which may have credentials."""
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    shown = scheme + mark + rest.rpartition("@")[2]
    return ConfigError(f"option url={shown!r}: must be {_URL}")


def hide_credentials(text: str) -> str:
    """Return an error's text without the credentials of any url in it."""
    return re.sub(r"//[^/\s]*@", "//", text)
