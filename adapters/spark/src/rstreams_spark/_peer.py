"""The AMQP peer: its address, the encryption of the connection, and this side's credentials."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from rstreams.errors import ConfigError
from rstreams_spark._given import Given, Secret

if TYPE_CHECKING:
    import ssl

PEER_NAMES: Final = (
    "url",
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
_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_MECHANISMS: Final = {"plain": "PLAIN", "external": "EXTERNAL", "anonymous": "ANONYMOUS"}


@dataclass(frozen=True)
class Peer:
    """An AMQP peer. No text of it and no `repr` shows a password."""

    scheme: str
    host: str
    port: int
    username: str | None = field(default=None, repr=False)
    password: Secret | None = None
    sasl: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: Secret | None = field(default=None)
    allow_plain_over_tcp: bool = False

    @classmethod
    def parse(cls, given: Given) -> Peer:
        """Read the options of the connection.

        Errors: `ConfigError` naming the option, its value and what is allowed.
        """
        url = _read_url(given.required("url", f"{_URL}, such as amqp://127.0.0.1:5672"))
        username, password = _credentials(given, url)
        peer = cls(
            scheme=url.scheme,
            host=url.hostname or "",
            port=url.port or _PORTS[url.scheme],
            username=username,
            password=password,
            sasl=given.one_of("sasl", _MECHANISMS, None),
            ca_file=given.optional("tlsCaFile", "a file with the certificates of the trusted authorities (PEM)"),
            certificate_file=given.optional("tlsCertificateFile", "a file with the client certificate (PEM)"),
            key_file=given.optional("tlsKeyFile", "a file with the private key of the client certificate (PEM)"),
            key_password=given.secret("tlsKeyPassword"),
            allow_plain_over_tcp=given.flag("allowPlainOverTcp", default=False),
        )
        peer._check(given)
        return peer

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def connect_url(self) -> str:
        """Return the url for `connect`, with the credentials in it; a password's file or variable is read now.

        Errors: `ConfigError` if the password cannot be read.
        """
        user = ""
        if self.username is not None:
            password = "" if self.password is None else f":{quote(self.password.read(), safe='')}"
            user = f"{quote(self.username, safe='')}{password}@"
        return f"{self.scheme}://{user}{self}"

    def connect_options(self) -> dict[str, Any]:
        """Return the options for `connect`; the files of certificates are read now.

        Errors: `ConfigError` that names the option, its file, and what is wrong with the file.
        """
        options: dict[str, Any] = {"sasl": self.sasl, "allow_plain_over_tcp": self.allow_plain_over_tcp}
        context = self._tls()
        return options if context is None else options | {"tls": context}

    def without_secrets(self) -> Peer:
        """Return the same peer without passwords, for a copy that opens no connection."""
        hidden = [secret and secret.without_value() for secret in (self.password, self.key_password)]
        return replace(self, password=hidden[0], key_password=hidden[1])

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
                    msg = f"option {name}: it is for TLS, and option url begins with amqp://; use amqps://"
                    raise ConfigError(msg)
        if self.certificate_file is None:
            for name in ("tlsKeyFile", "tlsKeyPassword", "tlsKeyPasswordFile", "tlsKeyPasswordEnv"):
                if given.has(name):
                    msg = f"option tlsCertificateFile is missing: option {name} belongs to a client certificate"
                    raise ConfigError(msg)
        if self.sasl == "EXTERNAL" and (self.scheme != "amqps" or self.certificate_file is None):
            msg = "option sasl='EXTERNAL': it needs a url that begins with amqps://, and option tlsCertificateFile"
            raise ConfigError(msg)
        if self.sasl == "PLAIN" and self.username is None:
            msg = "option sasl='PLAIN': it needs a username and a password"
            raise ConfigError(msg)
        self._tls()


_TLS_OPTIONS: Final = {"ca_file": "tlsCaFile", "certificate": "tlsCertificateFile", "key": "tlsKeyFile"}


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


def _credentials(given: Given, url: SplitResult) -> tuple[str | None, Secret | None]:
    username = given.optional("username", "the name to log in with")
    password = given.secret("password")
    if username is None and password is not None and url.username and url.password is None:
        return unquote(url.username), password  # amqp://user@host, and the password from a file
    if username is not None and "@" in url.netloc:
        msg = "options username and password: not allowed beside a url that has a user of its own"
        raise ConfigError(msg)
    if username is None and password is not None:
        if "@" in url.netloc:
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


def _wrong_url(url: str) -> ConfigError:
    """Return the error for a url. The url is shown without the part before the host, which may have credentials."""
    scheme, mark, rest = url.partition("://") if "://" in url else ("", "", url)
    shown = scheme + mark + rest.rpartition("@")[2]
    return ConfigError(f"option url={shown!r}: must be {_URL}")


def hide_credentials(text: str) -> str:
    """Return an error's text without the credentials of any url in it."""
    return re.sub(r"//[^/\s]*@", "//", text)
