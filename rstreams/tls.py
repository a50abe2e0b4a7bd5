"""TLS contexts for connections and nodes, made in one call, and the data of a client's certificate.

    rstreams.connect("amqps://broker.example", tls=tls.client_context(ca_file="ca.pem"))
    node.listen("0.0.0.0:5671", tls=tls.server_context("node.pem", "node.key", client_ca="clients.pem"))

They are plain `ssl.SSLContext`s. For other needs, change them, or make one without this module.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from rstreams._certificate_dates import remember_dates
from rstreams.errors import ConfigError

__all__ = ["ClientCertificate", "client_context", "server_context"]

FileName: TypeAlias = "str | os.PathLike[str]"

_SHORT_NAMES: Final = {  # RFC 4514 section 3, and two more that certificates have
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "emailAddress": "emailAddress",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}


def client_context(
    *,
    ca_file: FileName | None = None,
    certificate: FileName | None = None,
    key: FileName | None = None,
    password: str | None = None,
) -> ssl.SSLContext:
    """Return a context for `connect(tls=...)`; the peer's certificate and its host name are verified.

    The oldest version it speaks is TLS 1.2, or a later one if the system's settings say so.

    Args:
        ca_file: The certificates (PEM) of the authorities that are trusted, instead of the system's.
        certificate: This side's own certificate (PEM, with the chain to its authority), for SASL EXTERNAL.
        key: Its private key (PEM), if it is not in the same file.
        password: The password of the key, if it is encrypted.

    Errors: `ConfigError` that names the file and the reason; never a password.
    Context: Any thread; reads the files.
    """
    if certificate is None and (key is not None or password is not None):
        msg = "client_context: a key or a password is given, but no certificate that it belongs to"
        raise ConfigError(msg)
    if ca_file is not None:
        _check_readable("ca_file", ca_file)
    try:
        context = _safe(ssl.create_default_context(cafile=ca_file))
    except (ssl.SSLError, OSError) as error:
        _no_certificates("ca_file", ca_file, error)
    if ca_file is not None:
        remember_dates(context, "ca_file", ca_file)
    if certificate is not None:
        _load(context, certificate, key, password)
    return context


def server_context(
    certificate: FileName,
    key: FileName | None = None,
    *,
    password: str | None = None,
    client_ca: FileName | None = None,
    require_client_certificate: bool = True,
) -> ssl.SSLContext:
    """Return a context for `Node.listen(tls=...)`.

    The oldest version it speaks is TLS 1.2, or a later one if the system's settings say so.

    Args:
        certificate: The node's certificate (PEM, with the chain to its authority).
        key: Its private key (PEM), if it is not in the same file.
        password: The password of the key, if it is encrypted.
        client_ca: The certificates (PEM) of the authorities whose clients are let in: mutual TLS.
        require_client_certificate: With `client_ca`, whether clients without a certificate are refused; otherwise they
            may use SASL PLAIN or ANONYMOUS, if the node allows these.

    Errors: `ConfigError` that names the file and the reason; never a password.
    Context: Any thread; reads the files.
    """
    context = _safe(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH))
    _load(context, certificate, key, password)
    if client_ca is not None:
        _check_readable("client_ca", client_ca)
        try:
            context.load_verify_locations(client_ca)
        except (ssl.SSLError, OSError) as error:
            _no_certificates("client_ca", client_ca, error)
        remember_dates(context, "client_ca", client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if require_client_certificate else ssl.CERT_OPTIONAL
    return context


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """The data about its owner in a client's certificate, which TLS has verified.

    Attributes:
        subject: The whole subject as in RFC 4514, the most specific part first: "CN=alice,O=Example". The command
            `openssl x509 -noout -subject -nameopt RFC2253` prints it so.
        common_name: The subject's common name; "" if it has none.
        names: The alternative names: ("DNS:alice.example", "email:alice@example.com").
        issuer: The authority's subject, as `subject`.
        serial_number: The number the authority gave it, in hexadecimal.
    """

    subject: str
    common_name: str
    names: tuple[str, ...] = ()
    issuer: str = ""
    serial_number: str = ""

    @classmethod
    def from_peer(cls, found: Mapping[str, Any]) -> ClientCertificate:
        """Return the certificate for the result of `ssl.SSLObject.getpeercert()`."""
        parts = [pair for part in found.get("subject", ()) for pair in part]
        return cls(
            subject=_rfc4514(found.get("subject", ())),
            common_name=next((value for name, value in parts if name == "commonName"), ""),
            names=tuple(f"{kind}:{name}" for kind, name in found.get("subjectAltName", ())),
            issuer=_rfc4514(found.get("issuer", ())),
            serial_number=str(found.get("serialNumber", "")),
        )

    @property
    def name(self) -> str:
        """The client's name, unless a rule gives another: common name, first alternative name, or subject."""
        return self.common_name or (self.names[0].partition(":")[2] if self.names else self.subject)


def _rfc4514(parts: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    return ",".join(
        "+".join(f"{_SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in reversed(parts)
    )


def _escaped(value: str) -> str:
    """Return a value as it stands in a subject (RFC 4514 section 2.4): no value can pass for several parts."""
    text = "".join(f"\\{char}" if char in ',+"\\<>;' else "\\00" if char == "\0" else char for char in value)
    if text.startswith((" ", "#")):
        text = f"\\{text}"
    if value.endswith(" ") and len(value) > 1:
        text = f"{text[:-1]}\\ "
    return text


def _safe(context: ssl.SSLContext) -> ssl.SSLContext:
    """Refuse versions before TLS 1.2: some builds of Python, such as Debian's, leave that to OpenSSL's settings."""
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    return context


def _load(context: ssl.SSLContext, certificate: FileName, key: FileName | None, password: str | None) -> None:
    _check_readable("certificate", certificate)
    if key is not None:
        _check_readable("key", key)
    where, shown = ("certificate", certificate) if key is None else ("key", key)

    asked: list[bool] = []

    def ask() -> str:
        """Answer for a key that is encrypted; without an answer OpenSSL would ask at the terminal."""
        if password is None:
            msg = f"{where}={os.fspath(shown)!r}: the key is encrypted, and no password is given"
            raise ConfigError(msg)
        asked.append(True)
        return password

    try:
        context.load_cert_chain(certificate, key, ask)
    except (ssl.SSLError, OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        why = "the password of the key is wrong" if asked else _what_is_wrong(error, os.fspath(certificate))
        msg = f"{where}={os.fspath(shown)!r}: {why}"
        raise ConfigError(msg) from None
    remember_dates(context, "certificate", certificate)


def _what_is_wrong(error: Exception, certificate: str) -> str:
    reason = getattr(error, "reason", None) or ""
    if reason == "KEY_VALUES_MISMATCH":
        return f"this is not the private key of the certificate in {certificate!r}"
    if reason in {"EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"}:
        return f"the certificate in {certificate!r} is too weak for today's TLS ({reason})"
    return f"it does not hold a private key, or {certificate!r} no certificate, in PEM form ({reason or error})"


def _no_certificates(option: str, path: FileName | None, error: Exception) -> NoReturn:
    reason = getattr(error, "reason", None) or error
    shown = None if path is None else os.fspath(path)
    msg = f"{option}={shown!r}: it holds no certificates in PEM form ({reason})"
    raise ConfigError(msg) from None


def _check_readable(option: str, path: FileName) -> None:
    """Check that a file can be read: the ssl module does not name the file that it cannot read."""
    try:
        with Path(path).open("rb"):
            return
    except (OSError, TypeError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        msg = f"{option}={path!r}: the file cannot be read: {why}"
        raise ConfigError(msg) from None


def __dir__() -> list[str]:
    return __all__
