"""The clients of a node, and what each user has: connections, links, and the limits of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from weakref import WeakSet

from rstreams._checks.numbers import require_count, require_number
from rstreams.errors import ConfigError
from rstreams.net.options.limits import MAX_COUNT

EVERYONE: Final = "*"
"""Stands for all users, and for clients without a user."""


@dataclass(frozen=True, slots=True)
class UserLimits:
    """The limits of one user of a node, over all connections of this user; None: no limit.

    Args:
        connections: The most open connections. A further one is closed when it is opened.
        links: The most links. A further one is refused.
        items_per_s: How many items a second the user's links may send to the node, on average.
        bytes_per_s: How many bytes a second of encoded messages, on average.
        received_items_per_s: How many items a second the node may send to the user's links, on average.
        received_bytes_per_s: How many bytes a second of encoded messages, on average.

    A link on which a user sends faster than allowed gets less credit. For a link on which it receives, the node asks
    its address for less. Nothing is dropped. After a pause, as much may come at once as in one second.

    Errors: `ConfigError` for a number that is not allowed.
    """

    connections: int | None = None
    links: int | None = None
    items_per_s: float | None = None
    bytes_per_s: float | None = None
    received_items_per_s: float | None = None
    received_bytes_per_s: float | None = None

    def __post_init__(self) -> None:
        """Check each limit by itself."""
        for name, count in (("connections", self.connections), ("links", self.links)):
            if count is not None:
                require_count("", name, count, 1, MAX_COUNT, unit="")
        for name in ("items_per_s", "bytes_per_s", "received_items_per_s", "received_bytes_per_s"):
            rate = getattr(self, name)
            if rate is not None:
                require_number("", name, rate, 0.001, 1e15)


class HasLink(Protocol):
    """The end of a link."""

    @property
    def wants_link(self) -> bool:
        """Whether the link has not ended."""
        ...


class Account:
    """What one user has at a node; clients without a user share one account.

    Attributes:
        user: The user; None for the clients without one.
        limits: The limits of the user.
        connections: How many connections are open, or about to be.
        links: The ends of the user's links; also of some that have ended.
        rate: How fast these links may send, if the node has set it.
        received_rate: How fast the node may send to these links, if the node has set it.
    """

    def __init__(self, limits: UserLimits | None = None, user: str | None = None) -> None:
        self.user = user
        self.limits = limits or UserLimits()
        self.connections = 0
        self.links: WeakSet[HasLink] = WeakSet()
        self.rate: object = None
        self.received_rate: object = None

    def why_no_connection(self) -> str | None:
        """Return why there can be no further connection; None if there can be one."""
        most = self.limits.connections
        return None if most is None or self.connections < most else f"this user has its limit of {most} connections"

    def why_no_link(self) -> str | None:
        """Return why there can be no further link; None if there can be one."""
        most = self.limits.links
        if most is None or len(self.links) < most or sum(end.wants_link for end in self.links) < most:
            return None
        return f"this user has its limit of {most} links"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Client:
    """A client that a node has let in: one connection.

    Attributes:
        user: The user; None for a client that has not said who it is.
        peer: Its host and port.
        is_local: Whether it is on this machine.
        account: What its user has at this node.
        number: The number of its connection in this process; 0 if it came over none.
        since: When it was let in, in seconds since 1970.
    """

    user: str | None = None
    peer: str = ""
    is_local: bool = False
    account: Account = field(default_factory=Account)
    number: int = 0
    since: float = 0.0

    @property
    def shown(self) -> str:
        """The user, as text for errors and logs."""
        return "a client without a user" if self.user is None else f"user {self.user!r:.80}"


class Accounts:
    """The accounts of all users of a node.

    Args:
        limits: The limits by user; those of "*" are for each user without limits of its own.
    """

    def __init__(self, limits: Mapping[str, UserLimits] | None = None) -> None:
        self._limits = dict(limits or {})
        self._accounts: dict[str | None, Account] = {}

    def of(self, user: str | None) -> Account:
        """Return the account of a user."""
        account = self._accounts.get(user)
        if account is None:
            self._forget_idle()
            account = self._accounts[user] = Account(self._limits_of(user), user)
        return account

    def renew(self, limits: Mapping[str, UserLimits] | None) -> None:
        """Have other limits from now on. Connections and links that are there stay."""
        self._limits = dict(limits or {})
        for user, account in self._accounts.items():
            account.limits = self._limits_of(user)

    def _limits_of(self, user: str | None) -> UserLimits:
        everyone = self._limits.get(EVERYONE)
        return (everyone if user is None else self._limits.get(user, everyone)) or UserLimits()

    def _forget_idle(self) -> None:
        """Forget users without a connection: the names of certificates may be of any number."""
        if len(self._accounts) > 1000:
            self._accounts = {user: each for user, each in self._accounts.items() if each.connections or each.links}


def require_limits(limits: Mapping[str, UserLimits] | UserLimits | None) -> dict[str, UserLimits]:
    """Return the limits by user.

    Errors: `ConfigError` for any other value.
    """
    if isinstance(limits, UserLimits):
        return {EVERYONE: limits}
    found = {} if limits is None else limits
    if not isinstance(found, Mapping) or not all(
        isinstance(user, str) and user and isinstance(each, UserLimits) for user, each in found.items()
    ):
        msg = f"limits={limits!r:.80}: it must be None, a UserLimits, or a mapping of UserLimits by user name"
        raise ConfigError(msg)
    return dict(found)
