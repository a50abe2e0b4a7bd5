"""Passwords of a node's users: kept as scrypt hashes, and checked in a thread.

Theory of operation. A hash is slow and takes memory on purpose. Three measures keep strangers from making use of this:

- At most `AT_ONCE` passwords are hashed at a time, in threads. The connections of other clients go on meanwhile.
- All addresses and users have turns (`password_line`).
- A password that was right is remembered as a fast keyed hash, whose key exists only in this process. A known client
  that comes again does not wait behind the guesses of strangers. The last wrong passwords are remembered, too: a
  client that sends the same one again and again costs nothing.

The form of a hash is that of passlib and of the PHC string format: `$scrypt$ln=14,r=8,p=5$salt$hash`, where ln is the
binary logarithm of scrypt's N, and salt and hash are base64 without padding.

Spec: RFC 7914 (scrypt).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rstreams._checks.names import can_be_sent
from rstreams.errors import ConfigError
from rstreams.net.transport.password_line import MOST_REMEMBERED, PasswordLine

MAX_CREDENTIALS_BYTES: Final = 400
"""The longest user and password together: they must fit into one SASL frame of 512 bytes (5.3.1)."""

AT_ONCE: Final = max(1, min(4, (os.cpu_count() or 2) - 1))
"""How many passwords are hashed at a time: one processor is left for the node."""

MAX_HASH_BYTES: Final = 128 * 1024 * 1024
"""The most memory that checking one password may take."""

_LN, _R, _P = 14, 8, 5
_SALT_BYTES: Final = 16
_FORM: Final = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,3}),p=(\d{1,3})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)")
_HINT: Final = "the command `rstreams node hash-password` makes one"


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """The scrypt hash of a password, for `Node(users={"alice": PasswordHash("$scrypt$...")})`.

    Args:
        text: The hash, as `PasswordHash.of` or the command `rstreams node hash-password` writes it.

    Errors: `ConfigError` for a text of another form, or with parameters that take more than 128 MiB. The error does not
        repeat the text.
    """

    text: str = field(repr=False)
    _parts: tuple[int, int, int, bytes, bytes] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Read the text."""
        object.__setattr__(self, "_parts", _read(self.text))

    @classmethod
    def of(cls, password: str) -> PasswordHash:
        """Return the hash of a password, with a new salt.

        Errors: `ConfigError` for an empty password.
        Context: Any thread; works for some tenths of a second.
        """
        if not isinstance(password, str) or not password:
            msg = "the password is empty"
            raise ConfigError(msg)
        salt = secrets.token_bytes(_SALT_BYTES)
        found = _scrypt(password.encode(), (_LN, _R, _P, salt, bytes(32)))
        return cls(f"$scrypt$ln={_LN},r={_R},p={_P}${_written(salt)}${_written(found)}")

    def matches(self, password: bytes) -> bool:
        """Tell whether this is the hash of `password`.

        Context: Any thread; works as long as `of`.
        """
        return hmac.compare_digest(_scrypt(password, self._parts), self._parts[4])


def _read(text: object) -> tuple[int, int, int, bytes, bytes]:
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        msg = f"the hash of a password must look like $scrypt$ln=14,r=8,p=5$salt$hash; {_HINT}"
        raise ConfigError(msg)
    ln, r, p = (int(number) for number in found.groups()[:3])
    if not 1 <= ln <= 24 or not r or not p or 128 * r * ((1 << ln) + p) > MAX_HASH_BYTES or p > 64:
        msg = f"the hash of a password has parameters that are not allowed: ln={ln}, r={r}, p={p}; {_HINT}"
        raise ConfigError(msg)
    try:
        salt, digest = (base64.b64decode(part + "=" * (-len(part) % 4)) for part in found.groups()[3:])
    except binascii.Error:
        salt = digest = b""
    if len(salt) < 8 or not 16 <= len(digest) <= 64:
        msg = f"the hash of a password has no salt of 8 bytes or more, or no hash of 16 to 64 bytes; {_HINT}"
        raise ConfigError(msg)
    return ln, r, p, salt, digest


def _scrypt(password: bytes, parts: tuple[int, int, int, bytes, bytes]) -> bytes:
    ln, r, p, salt, digest = parts
    most = 128 * r * ((1 << ln) + p) + 1024 * 1024
    return hashlib.scrypt(password, salt=salt, n=1 << ln, r=r, p=p, maxmem=most, dklen=len(digest))


def _written(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def require_users(users: Mapping[str, str | PasswordHash] | None) -> dict[str, str | PasswordHash] | None:
    """Return a copy of the passwords by user, or None if no password is needed.

    Errors: `ConfigError` for any other value; its text has the user's name, never a password.
    """
    if users is None:
        return None
    if not isinstance(users, Mapping):
        msg = f"users must be None or a mapping of passwords by user name, not {type(users).__name__}"
        raise ConfigError(msg)
    for user, password in users.items():
        hashed = isinstance(password, PasswordHash)
        if not user or not can_be_sent(user) or not (hashed or can_be_sent(password)):
            msg = f"users: the name and the password of user {user!r} must be strings of UTF-8 without NUL characters"
            raise ConfigError(msg)
        size = 0 if isinstance(password, PasswordHash) else len(password.encode())
        if len(user.encode()) + size > MAX_CREDENTIALS_BYTES:
            msg = f"users: the name and the password of user {user!r:.80} have more than {MAX_CREDENTIALS_BYTES} bytes"
            raise ConfigError(msg)
    return dict(users)


class Passwords:
    """The passwords of a node's users.

    Args:
        users: For each user the password, or its hash.
    """

    def __init__(self, users: Mapping[str, str | PasswordHash]) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, bytes] = {}
        self._wrong: dict[tuple[str, bytes], None] = {}
        self._line = PasswordLine(AT_ONCE)
        self.renew(users)

    def renew(self, users: Mapping[str, str | PasswordHash]) -> None:
        """Take other passwords from now on; a user whose hash is the same is still recognized."""
        self._users = dict(users)
        self._known = {user: seen for user, seen in self._known.items() if user in self._users}
        # What an unknown user's password is compared with: otherwise the time would show that the user is unknown.
        hashes = (each for each in self._users.values() if isinstance(each, PasswordHash))
        self._stranger = next(hashes, None)

    def __contains__(self, user: object) -> bool:
        return user in self._users

    async def check(self, user: str, password: bytes, origin: str = "") -> bool:
        """Tell whether this is the user's password.

        Args:
            user: The user that the client says it is.
            password: The password that it has sent.
            origin: Where it comes from; see `origin_of`.

        Errors: `CheckLater` if too many of this address, or of this user of the address, wait already.
        Cancels: The thread that checks a hash ends by itself; until then it counts.
        """
        kept = self._users.get(user, self._stranger)
        if not isinstance(kept, PasswordHash):
            right = hmac.compare_digest(password, ("" if kept is None else kept).encode())
            return right and user in self._users
        # Of hash and password: if the hash changes, nobody is recognized by the old one.
        seen = hashlib.blake2b(kept.text.encode() + b"\0" + password, key=self._key).digest()
        if hmac.compare_digest(self._known.get(user, b""), seen):
            return True
        if (user, seen) in self._wrong:
            return False

        def note(right: bool) -> None:  # noqa: FBT001 - an answer
            if not right:
                self._wrong[user, seen] = None
                if len(self._wrong) > MOST_REMEMBERED:
                    del self._wrong[next(iter(self._wrong))]
            elif self._users.get(user) == kept:
                self._known[user] = seen

        right = await self._line.ask(origin, user, seen, lambda: kept.matches(password), note)
        return right and self._users.get(user) == kept
