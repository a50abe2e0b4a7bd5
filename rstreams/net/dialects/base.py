"""What brokers differ in, where AMQP 1.0 leaves it to them: how addresses are written, and which filters they know.

A user writes one address for every broker: `orders`, or `queue://orders` and `topic://prices` where the kind matters.
What is already in the broker's own form goes through unchanged, so nothing a broker offers is out of reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from rstreams.errors import ConfigError
from rstreams.message import Message

Kind: TypeAlias = Literal["queue", "topic"]

Offset: TypeAlias = Literal["first", "last", "next"] | int | datetime
"""Where in a log to begin: with its first entry, its last one, the next one to come, an offset, or a moment."""

Filters: TypeAlias = Mapping[str, Any]
"""Filters by their names, for `Connection.stream(filters=...)`."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address in a broker's own words.

    Attributes:
        address: What the attach names.
        capabilities: What the broker's end is asked to be, such as "queue" or "topic".
    """

    address: str
    capabilities: tuple[str, ...] = ()


class Dialect:
    """A peer that takes addresses as they are and of which nothing else is known; a dialect of its own derives from it.

    Stateless: one object serves all connections.

    Attributes:
        name: What `connect(dialect=...)` calls it.
        tested: The versions that the interop tests run against; empty if it is written after the documentation alone.
        answers_drain: Whether credit can be taken back by a drain. A peer that cannot must not be drained: a paused
            stream then stops granting, and what has been granted before still comes.
        renews_at_zero: Whether credit may only be granted when none is left. The peer sends too much if it is granted
            more while it sends.
        credit_needs_consumer: Whether a sender gets credit only while somebody receives from the address.
    """

    name: str = "none"
    tested: tuple[str, ...] = ()
    answers_drain: bool = True
    renews_at_zero: bool = False
    credit_needs_consumer: bool = False

    def __repr__(self) -> str:
        """Return its name."""
        return f"<dialect {self.name}>"

    def source(self, address: str) -> Place:
        """Return where to receive what `address` means to the user.

        Errors: `ConfigError` if this peer has nothing of the kind.
        """
        return Place(address)

    def target(self, address: str) -> Place:
        """Return where to send what goes to `address`.

        Errors: `ConfigError` if this peer has nothing of the kind.
        """
        return Place(address)

    def audience(self, host: str, address: str) -> str:  # noqa: ARG002 - for those that name a place by its host
        """Return what a token for an address is for, where the peer wants tokens (see `rstreams.net.cbs`).

        Args:
            host: Where the peer is.
            address: In the peer's own words, as an attach has it.
        """
        return address

    def offset(self, offset: Offset) -> Filters:
        """Return the filters that begin a stream at `offset`.

        Errors: `ConfigError` if this peer keeps no log that can be read from an offset, or for no such offset.
        """
        check_offset(offset)
        error = self._unknown("offset", offset, "it keeps no log to read from an offset")
        raise error

    def after(self, message: Message) -> Filters:  # noqa: ARG002 - for those who keep a log
        """Return the filters that begin a stream behind `message`, the one of it that was processed last.

        Errors: `ConfigError` if this peer keeps no log, or the message does not say where in it it was.
        """
        msg = f"after(message): the peer's dialect is {self.name!r}, and it keeps no log to go on in"
        raise ConfigError(msg)

    def selector(self, expression: str) -> Filters:
        """Return the filters for messages that an SQL expression is true for.

        Errors: `ConfigError` if this peer knows no such filter.
        """
        error = self._unknown("selector", expression, "it filters by no expression")
        raise error

    def properties(self, wanted: Mapping[str, Any]) -> Filters:
        """Return the filters for messages whose application properties have the values of `wanted`.

        Errors: `ConfigError` if this peer knows no such filter.
        """
        error = self._unknown("properties", dict(wanted), "it filters by no properties")
        raise error

    def _nowhere(self, annotation: str) -> ConfigError:
        return ConfigError(f"after(message): it has no annotation {annotation}, and so did not come from a log")

    def _unknown(self, option: str, value: object, why: str) -> ConfigError:
        return ConfigError(f"{option}={value!r}: the peer's dialect is {self.name!r}, and {why}")


NONE: Final = Dialect()


def kind_of(address: str) -> tuple[Kind | None, str]:
    """Return which kind of node an address asks for, if it does, and the rest of it."""
    if address.startswith("queue://"):
        return "queue", address.removeprefix("queue://")
    if address.startswith("topic://"):
        return "topic", address.removeprefix("topic://")
    return None, address


def check_offset(offset: Offset) -> None:
    """Check that an offset is one.

    Errors: `ConfigError`.
    """
    if isinstance(offset, bool) or not isinstance(offset, str | int | datetime):
        right = False
    elif isinstance(offset, str):
        right = offset in {"first", "last", "next"}
    elif isinstance(offset, datetime):
        right = offset.tzinfo is not None
    else:
        right = 0 <= offset < 2**63
    if not right:
        allowed = "'first', 'last', 'next', an int of 0 or more, or a datetime with a time zone"
        msg = f"offset={offset!r}: it must be {allowed}"
        raise ConfigError(msg)
