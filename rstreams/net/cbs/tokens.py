"""Tokens, and the functions that make them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

from rstreams import _machine
from rstreams.errors import AuthenticationFailed, ConfigError, ConnectFailed, RStreamsError

JWT: Final = "jwt"
SAS: Final = "servicebus.windows.net:sastoken"


@dataclass(frozen=True, slots=True)
class Token:
    """A token with the rights of its owner, valid for a while.

    Attributes:
        value: The token itself. It is a secret and is not part of the repr.
        expires_at: When it expires, with a time zone.
        type: Its type, as the peer names it: "jwt" for Azure, which also takes "servicebus.windows.net:sastoken";
            "amqp:jwt" and "amqp:swt" are the specification's.

    Errors: `ConfigError` naming the attribute, and never the token.
    """

    value: str = field(repr=False)
    expires_at: datetime
    type: str = JWT

    def __post_init__(self) -> None:
        """Check each attribute."""
        if not isinstance(self.value, str) or not self.value:
            msg = f"Token(value=...): it must be a string that is not empty, not {type(self.value).__name__}"
            raise ConfigError(msg)
        if not self.value.isascii():
            msg = "Token(value=...): it must be of ASCII characters"
            raise ConfigError(msg)
        if not isinstance(self.expires_at, datetime) or self.expires_at.tzinfo is None:
            msg = f"Token(expires_at={self.expires_at!r:.80}): it must be a datetime with a time zone"
            raise ConfigError(msg)
        if not isinstance(self.type, str) or not self.type:
            msg = f"Token(type={self.type!r:.80}): it must be a string such as 'jwt'"
            raise ConfigError(msg)


TokenSource: TypeAlias = Callable[[str], Awaitable[Token] | Token]
"""A function, async or one that does not block, that returns the token for an audience, the thing that it opens."""


def now() -> datetime:
    """Return this machine's time."""
    return _machine.today_utc()


def require_token_source(cbs: TokenSource | None) -> TokenSource | None:
    """Return the function that makes tokens.

    Errors: `ConfigError` unless it is None or a function.
    """
    if cbs is not None and not callable(cbs):
        msg = f"cbs must be None or a function that returns a Token, not {type(cbs).__name__}"  # it may be the secret
        raise ConfigError(msg)
    return cbs


async def token_for(audience: str, source: TokenSource) -> Token:
    """Return a token that has not expired.

    Errors: `ConnectFailed` if `source` raises, because the next call may succeed; the exception is the cause, and no
        text repeats it. An `RStreamsError` is passed on. `ConfigError` if it returns something else than a token.
        `AuthenticationFailed` if the token has expired already.
    """
    try:
        made: Any = source(audience)
        if inspect.isawaitable(made):
            made = await made
    except RStreamsError:
        raise
    except Exception as error:
        msg = f"there is no token for {audience!r}: the function that makes tokens raised {type(error).__name__}"
        raise ConnectFailed(msg) from error
    if not isinstance(made, Token):
        msg = f"there is no token for {audience!r}: cbs must return a Token, not {type(made).__name__}"
        raise ConfigError(msg)
    if made.expires_at <= now():
        msg = f"there is no token for {audience!r}: the token from cbs expired at {made.expires_at.isoformat()}"
        raise AuthenticationFailed(msg)
    return made
