"""The checks of names that go to a peer: addresses, container ids, users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from rstreams._checks.refusals import refuse_value
from rstreams.errors import ConfigError
from rstreams.tls import ClientCertificate

MAX_NAME_BYTES: Final = 4096
"""The longest address or container id: an attach must fit into one frame of the peer."""


def require_container_id(container_id: str | None) -> str | None:
    """Return a container's name for itself if it can be sent to a peer; None stands for a random name.

    Errors: `ConfigError` for any other value.
    """
    return None if container_id is None else require_name("", "container_id", container_id)


def require_name(call: str, option: str, name: str) -> str:
    """Return `name` if it reaches the peer unchanged; the engine takes C strings, which end at a NUL character.

    Errors: `ConfigError` unless it is a string of 1 to 4096 bytes of UTF-8 without a NUL character.
    """
    if not name or not can_be_sent(name) or len(name.encode()) > MAX_NAME_BYTES:
        refuse_value(call, option, name, f"a string of 1 to {MAX_NAME_BYTES} bytes of UTF-8, without a NUL character")
    return name


CertificateUsers: TypeAlias = Mapping[str, str] | Callable[[ClientCertificate], str | None]
"""The user for a certificate: by its subject, or by a function; None refuses the certificate."""


def require_certificate_users(certificate_users: CertificateUsers | None) -> CertificateUsers | None:
    """Return the users by certificate; a mapping as a copy.

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
            msg = f"certificate_users: {subject!r} is not the subject of a certificate, such as 'CN=alice,O=Example'"
            raise ConfigError(msg)
        if not user or not can_be_sent(user):
            msg = f"certificate_users: the user of {subject!r} must be a name, not {user!r}"
            raise ConfigError(msg)
    return dict(certificate_users)


def can_be_sent(text: object) -> bool:
    """Tell whether `text` is a string that the engine sends unchanged."""
    if not isinstance(text, str) or "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
