"""The permissions of a node's users: who may do what at which addresses.

The rules:

- A permission names users, addresses and actions. In the names of addresses and users `*` stands for any characters.
- A `*` at the beginning of a pattern does not match names that begin with "$": these are the node's own.
- What no permission allows is refused, with `amqp:unauthorized-access`. The text names the permission that is missing.
- Without permissions every client that is let in may publish and subscribe. Users, and clients on this machine, may
  also manage.
- Addresses that the node makes for replies need no permission: only the requester and its responder know their names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from rstreams._checks.refusals import refuse_value
from rstreams.errors import Condition, ConfigError, ProtocolError
from rstreams.net.transport.accounts import EVERYONE, Client

Action: TypeAlias = Literal["publish", "subscribe", "manage"]

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)

_WITH_WORD: Final[dict[Action, str]] = {"publish": "publish to", "subscribe": "subscribe to", "manage": "manage"}


@dataclass(frozen=True, slots=True)
class Permission:
    """Allows users some actions at some addresses of a node.

    Args:
        users: Names of users, or patterns such as "shop-*". "*" also stands for clients without a user. The user of a
            client certificate is what `certificate_users` says.
        addresses: Names of addresses, or patterns such as "orders.*".
        allow: "publish": send messages there. "subscribe": receive messages from there. "manage": declare, delete and
            purge the address, move its dead letters, and list and end its subscriptions. Or several of these.

    Errors: `ConfigError` for a value that is not allowed.
    """

    users: str | Sequence[str]
    addresses: str | Sequence[str]
    allow: Action | Sequence[Action]

    def __post_init__(self) -> None:
        """Check each field, and keep all of them as tuples."""
        for name in ("users", "addresses", "allow"):
            value = getattr(self, name)
            several = (value,) if isinstance(value, str) else value
            allowed = "one of publish, subscribe, manage, or a list of these"
            if name != "allow":
                allowed = f"a name, a pattern with *, or a list of these: {name}=['shop', 'shop.*']"
            if not isinstance(several, Sequence) or not several or not all(_is_word(name, each) for each in several):
                refuse_value("Permission", name, value, allowed)
            object.__setattr__(self, name, tuple(several))

    def allows(self, user: str | None, action: Action, address: str) -> bool:
        """Tell whether a user may do this at this address."""
        return action in self.allow and self.is_for(user) and any(_matches(each, address) for each in self.addresses)

    def is_for(self, user: str | None) -> bool:
        """Tell whether it is about a user."""
        return any(each == EVERYONE if user is None else _matches(each, user) for each in self.users)


def _is_word(field: str, value: object) -> bool:
    return isinstance(value, str) and (value in ACTIONS if field == "allow" else bool(value))


def _matches(pattern: str, name: str) -> bool:
    """Tell whether `name` matches; the time is in proportion to its length, because strangers choose names."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *inner, last = rest
    if not name.startswith(first) or (not first and name.startswith("$")):
        return False
    at, end = len(first), len(name) - len(last)
    for part in inner:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return at <= end and name.endswith(last)


class Access:
    """Decides what clients may do.

    Args:
        permissions: The permissions; None: see the module.
        lets_in: Tells whether the node lets in a user.

    A client whose user has been removed may do nothing, also while its connection is being closed.
    """

    def __init__(
        self, permissions: Sequence[Permission] | None, lets_in: Callable[[str | None], bool] = lambda _user: True
    ) -> None:
        self._permissions: tuple[Permission, ...] | None
        self.lets_in = lets_in
        self.renew(permissions)

    def renew(self, permissions: Sequence[Permission] | None) -> None:
        """Decide by other permissions from now on."""
        self._permissions = require_permissions(permissions)

    def may(self, client: Client, action: Action, address: str) -> bool:
        """Tell whether a client may do this at this address."""
        if not self.lets_in(client.user):
            return False
        if self._permissions is None:
            return action != "manage" or client.user is not None or client.is_local
        return any(each.allows(client.user, action, address) for each in self._permissions)

    def is_permitted(self, client: Client, action: Action, address: str) -> bool:
        """Tell whether a permission says that a client may do this: without permissions there is none."""
        return self._permissions is not None and self.may(client, action, address)

    def manages(self, client: Client) -> bool:
        """Tell whether a client may manage any address."""
        if self._permissions is None:
            return self.may(client, "manage", "")
        return any("manage" in each.allow and each.is_for(client.user) for each in self._permissions)

    def require(self, client: Client, action: Action, address: str) -> None:
        """Check that a client may do this at this address.

        Errors: `ProtocolError` with `amqp:unauthorized-access`.
        """
        if not self.lets_in(client.user):
            text = f"{client.shown} may not {_WITH_WORD[action]} {address!r:.80}: the node does not let it in any more"
            raise ProtocolError(Condition.UNAUTHORIZED_ACCESS.value, text)
        if not self.may(client, action, address):
            needed = f"a permission to {action} whose addresses have {address!r:.80} or a pattern for it is needed"
            text = f"{client.shown} may not {_WITH_WORD[action]} {address!r:.80}: {needed}"
            raise ProtocolError(Condition.UNAUTHORIZED_ACCESS.value, text)


def require_permissions(permissions: Sequence[Permission] | None) -> tuple[Permission, ...] | None:
    """Return the permissions as a tuple, or None.

    Errors: `ConfigError` unless it is None or a sequence of `Permission`.
    """
    if permissions is None:
        return None
    if not isinstance(permissions, Sequence) or not all(isinstance(each, Permission) for each in permissions):
        msg = f"permissions={permissions!r:.80}: it must be None or a list of rstreams.node.Permission"
        raise ConfigError(msg)
    return tuple(permissions)
