"""The checks of names that go to a peer: addresses, container ids, users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from rstreams.errors import ConfigError
from rstreams.tls import ClientCertificate

MAX_NAME_BYTES: Final = 4096
"""The longest address or container id: an attach must fit into one frame of the peer."""

MAX_CREDENTIALS_BYTES: Final = 400
"""The longest user and password together: they must fit into one SASL frame of 512 bytes (5.3.1)."""


def check_container_id(container_id: str | None) -> None:
    """Check a container's name for itself; None and "" stand for a random one.

    Errors: `ConfigError` unless it can be told to a peer.
    """
    if container_id is not None and container_id != "":
        check_name("container_id", container_id, "a container id")


def check_name(option: str, name: str, what: str) -> None:
    """Check that `name` reaches the peer as it is; the engine takes C strings, which end at a NUL character.

    Errors: `ConfigError` that calls it by `option` and `what`, unless it is 1 to 4096 bytes of UTF-8 without a NUL.
    """
    if not isinstance(name, str) or not name:
        msg = f"{option}={name!r}: {what} is a string that is not empty"
        raise ConfigError(msg)
    if not _can_be_sent(name) or len(name.encode()) > MAX_NAME_BYTES:
        shown = repr(name) if len(name) <= 80 else f"{name[:77]!r}..."
        msg = f"{option}={shown}: {what} has at most {MAX_NAME_BYTES} bytes of UTF-8 and no NUL character"
        raise ConfigError(msg)


def check_users(users: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return a copy of the passwords by user, or None if everyone is let in.

    Errors: `ConfigError` for what is no such mapping; it names the user, and never a password.
    """
    if users is None:
        return None
    if not isinstance(users, Mapping):
        msg = f"users must be None or a mapping of passwords by user name, not {type(users).__name__}"
        raise ConfigError(msg)
    for user, password in users.items():
        if not user or not _can_be_sent(user) or not _can_be_sent(password):
            msg = f"users: the name and the password of user {user!r} must be strings of UTF-8 without NUL characters"
            raise ConfigError(msg)
        if len(user.encode()) + len(password.encode()) > MAX_CREDENTIALS_BYTES:
            msg = f"users: the name and the password of user {user!r:.80} have more than {MAX_CREDENTIALS_BYTES} bytes"
            raise ConfigError(msg)
    return dict(users)


CertificateUsers: TypeAlias = "Mapping[str, str] | Callable[[ClientCertificate], str | None]"
"""Who the owner of a certificate is: users by subject, or a function of the certificate; None lets nobody in."""


def check_certificate_users(certificate_users: CertificateUsers | None) -> CertificateUsers | None:
    """Return what says who a certificate's owner is, a mapping as a copy.

    Errors: `ConfigError` unless it is None, a function, or a mapping of user names by certificate subject.
    """
    if certificate_users is None or (callable(certificate_users) and not isinstance(certificate_users, Mapping)):
        return certificate_users
    if not isinstance(certificate_users, Mapping):
        kind = type(certificate_users).__name__
        msg = f"certificate_users must be a mapping of user names by certificate subject, or a function, not {kind}"
        raise ConfigError(msg)
    for subject, user in certificate_users.items():
        if not isinstance(subject, str) or "=" not in subject:
            msg = f"certificate_users: {subject!r} is no subject of a certificate, such as 'CN=alice,O=Example'"
            raise ConfigError(msg)
        if not user or not _can_be_sent(user):
            msg = f"certificate_users: the user of {subject!r} must be a name, not {user!r}"
            raise ConfigError(msg)
    return dict(certificate_users)


def _can_be_sent(text: object) -> bool:
    """Tell whether `text` is a string that the engine takes whole."""
    if not isinstance(text, str) or "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
