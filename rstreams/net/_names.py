"""The checks of names that go to a peer: addresses, container ids, users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rstreams.errors import ConfigError

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


def _can_be_sent(text: object) -> bool:
    """Tell whether `text` is a string that the engine takes whole."""
    if not isinstance(text, str) or "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
