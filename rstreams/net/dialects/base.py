"""The base of dialects: how a broker's addresses are written, and which filters it knows. AMQP 1.0 leaves both open.

A user writes one address for every broker: `orders`, or `queue://orders` and `topic://prices` where the kind matters.
An address in the broker's own form is passed on unchanged: a user can reach everything that a broker offers.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from rstreams._checks.refusals import refuse_value
from rstreams.errors import ConfigError
from rstreams.message import Message

Kind: TypeAlias = Literal["queue", "topic"]

Offset: TypeAlias = Literal["first", "last", "next"] | int | datetime
"""The begin of a stream in a log: the first entry, the last one, the next one to come, an offset, or a moment."""

Filters: TypeAlias = Mapping[str, Any]
"""Filters by their names, for `Connection.stream(filters=...)`."""


@dataclass(frozen=True, slots=True)
class Place:
    """An address in a broker's own form.

    Attributes:
        address: The address for the attach.
        capabilities: Capabilities that the broker's end is asked for, such as "queue" or "topic".
        properties: Properties that the link tells the broker.
    """

    address: str
    capabilities: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class PeerDescription:
    """A peer's description of itself when it opens the connection, and its host.

    Attributes:
        properties: The properties of its `open`.
        host: The host that was connected to.
    """

    properties: Mapping[str, Any]
    host: str = ""

    @property
    def product(self) -> str:
        """The name of the peer's software, in small letters; "" if the peer does not tell it."""
        return str(self.properties.get("product", "")).lower()

    @property
    def version(self) -> str:
        """The version of the peer's software; "" if the peer does not tell it."""
        return str(self.properties.get("version", ""))

    @property
    def major(self) -> int | None:
        """The first number of the version; None if there is none."""
        numbers = self.numbers
        return numbers[0] if numbers else None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the version, up to a part that is no number."""
        parts = itertools.takewhile(str.isdecimal, self.version.split("."))
        return tuple(map(int, parts))


class Dialect:
    """Base of the dialects, and the dialect "none": addresses are sent as they are, and there are no filters.

    A dialect has no state: one object serves all connections.

    Attributes:
        name: The name for `connect(dialect=...)`.
        tested: The versions that the interop tests run against; empty if it was written only after documentation.
        answers_drain: Whether a drain takes credit back. If not, the peer is never drained: a paused stream then grants
            no more, and the items granted before still come.
        renews_at_zero: Whether credit may be granted only when none is left. Such a peer sends too much if it is
            granted more while it sends.
        credit_needs_consumer: Whether a sender gets credit only while the address has a receiver.
        place_gone: The conditions with which the peer refuses a link that asks to go on where the peer cannot go on.
            After a loss such a refusal is an end at once; others may pass.
        ignores_browse: Whether the peer removes the messages of its queues also from a link that asks for copies,
            whatever its attach answers. Such a peer is never browsed.
        compares_last: Whether a reader that goes on in a log after a loss gets its last message again and compares it:
            the peer tells no id of the log, which may have been made anew.
        marks_durable: Whether messages to this peer are marked as durable unless the user says otherwise. If not, the
            peer's addresses decide what survives its restart, and the mark means nothing to them.
    """

    name: str = "none"
    tested: tuple[str, ...] = ()
    answers_drain: bool = True
    renews_at_zero: bool = False
    credit_needs_consumer: bool = False
    ignores_browse: bool = False
    compares_last: bool = False
    marks_durable: bool = True
    place_gone: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        """Return its name."""
        return f"<dialect {self.name}>"

    def matches(self, peer: PeerDescription) -> bool:  # noqa: ARG002 - the base matches no peer
        """Return whether `peer` speaks this dialect; by default never, so that it must be asked for by name."""
        return False

    def source(self, address: str) -> Place:
        """Return the place that a user's `address` means, to receive from.

        Errors: `ConfigError` if this peer has no such place.
        """
        return Place(address)

    def target(self, address: str) -> Place:
        """Return the place that a user's `address` means, to send to.

        Errors: `ConfigError` if this peer has no such place.
        """
        return Place(address)

    def preferred(self, place: Place, priority: int) -> Place:  # noqa: ARG002 - for peers that know priorities
        """Return the place to receive from before the receivers of a lower priority; without one it is 0.

        Errors: `ConfigError` if this peer knows no such priorities, or not this one.
        """
        error = self._unknown("priority", priority, "it prefers no receiver to others")
        raise error

    def audience(self, host: str, address: str) -> str:  # noqa: ARG002 - for peers that name an address by their host
        """Return the audience of a token for an address, for a peer that wants tokens (see `rstreams.net.cbs`).

        Args:
            host: The peer's host.
            address: The address in the peer's own form, as in an attach.
        """
        return address

    def in_force(self, answered: Filters, distribution: str, peer: PeerDescription) -> Collection[str] | None:  # noqa: ARG002
        """Return the names of the filters that the peer has put in force; a stream ends if one of its own is missing.

        None: that is not known, and nothing is checked.

        By default they are those in the peer's attach, as section 3.5.3 of AMQP 1.0 says.

        Args:
            answered: The filters in the peer's attach.
            distribution: The distribution mode in it: "move", "copy" or "".
            peer: The peer.
        """
        return answered

    def mark(self, answered: Filters, distribution: str) -> str:  # noqa: ARG002 - for peers whose attach does not tell
        """Return the annotation that each message has if the filters are in force; "" if the attach tells enough.

        Args:
            answered: The filters in the peer's attach.
            distribution: The distribution mode in it: "move", "copy" or "".
        """
        return ""

    def offset(self, offset: Offset) -> Filters:
        """Return the filters that begin a stream at `offset`.

        Errors: `ConfigError` if this peer keeps no log that can be read from an offset, or the offset is malformed.
        """
        require_offset(offset)
        error = self._unknown("offset", offset, "it keeps no log that can be read from an offset")
        raise error

    def after(self, message: Message) -> Filters:  # noqa: ARG002 - for peers that keep a log
        """Return the filters that begin a stream behind `message`, the last message that was processed.

        Errors: `ConfigError` if this peer keeps no log, or the message does not tell its place in the log.
        """
        msg = f"after(message): the peer's dialect is {self.name!r}, and this dialect has no offsets"
        raise ConfigError(msg)

    def selector(self, expression: str) -> Filters:
        """Return the filters for messages for which an SQL expression is true.

        Errors: `ConfigError` if this peer knows no such filter.
        """
        error = self._unknown("selector", expression, "it has no filter by expressions")
        raise error

    def properties(self, wanted: Mapping[str, Any]) -> Filters:
        """Return the filters for messages whose application properties have the values of `wanted`.

        Errors: `ConfigError` if this peer knows no such filter.
        """
        error = self._unknown("properties", dict(wanted), "it has no filter by properties")
        raise error

    def _nowhere(self, annotation: str) -> ConfigError:
        return ConfigError(f"after(message): it has no annotation {annotation}, therefore it did not come from a log")

    def _unknown(self, option: str, value: object, why: str) -> ConfigError:
        return ConfigError(f"{option}={value!r}: the peer's dialect is {self.name!r}, and {why}")


NONE: Final = Dialect()


def kind_of(address: str) -> tuple[Kind | None, str]:
    """Return the kind that an address asks for ("queue", "topic" or None), and the rest of the address."""
    if address.startswith("queue://"):
        return "queue", address.removeprefix("queue://")
    if address.startswith("topic://"):
        return "topic", address.removeprefix("topic://")
    return None, address


def require_offset(offset: Offset, option: str = "offset") -> None:
    """Check an offset; `option` is its name in the error.

    Errors: `ConfigError` if it is malformed.
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
        refuse_value("", option, offset, allowed)
