"""Azure Service Bus and Event Hubs, written after their documentation: there was no server to test against.

They let links in by tokens: `connect(key.url, cbs=key)` with a `rstreams.net.cbs.SharedAccessKey`, or with a function
that gets tokens of Microsoft Entra ID. The two services cannot be told apart from outside. Therefore Event Hubs must be
asked for: `connect(dialect="eventhubs")`.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

from rstreams._codec import Described, Symbol
from rstreams.errors import ConfigError
from rstreams.message import Message
from rstreams.net.dialects.base import Dialect, Filters, Offset, PeerDescription, Place, kind_of, require_offset

_SELECTOR: Final = "apache.org:selector-filter:string"
_SESSION: Final = "com.microsoft:session-filter"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

MAX_SESSION: Final = 128
"""The longest id of a session of Service Bus."""


class ServiceBus(Dialect):
    """Azure Service Bus: a queue or topic is its name, a subscription `topic/Subscriptions/name`."""

    name = "servicebus"

    def matches(self, peer: PeerDescription) -> bool:
        """Return whether its host is one of Azure's; the peer does not describe itself."""
        return ".servicebus." in peer.host  # of windows.net, and of Azure's other clouds: chinacloudapi.cn, ...

    def source(self, address: str) -> Place:
        """Return the entity's path."""
        return Place(kind_of(address)[1])

    def target(self, address: str) -> Place:
        """Return the entity's path."""
        return Place(kind_of(address)[1])

    def audience(self, host: str, address: str) -> str:
        """Return the uri of the entity."""
        return f"sb://{host}/{address}"

    def in_force(self, answered: Filters, distribution: str, peer: PeerDescription) -> Collection[str] | None:  # noqa: ARG002
        """Return None: there was no server to see what it answers with."""
        return None

    def offset(self, offset: Offset) -> Filters:
        """Refuse the offset: a queue is not read from one, and an event hub has its own dialect."""
        require_offset(offset)
        error = self._unknown("offset", offset, "it has no log; for an event hub use dialect='eventhubs'")
        raise error


class EventHubs(ServiceBus):
    """Azure Event Hubs: `hub/ConsumerGroups/group/Partitions/number` to receive, `hub` to send."""

    name = "eventhubs"

    def matches(self, peer: PeerDescription) -> bool:  # noqa: ARG002 - no peer describes itself as one
        """Return False: its host looks like Service Bus; therefore it must be asked for by name."""
        return False

    def audience(self, host: str, address: str) -> str:
        """Return the uri of the hub, for all its partitions."""
        return super().audience(host, address.partition("/ConsumerGroups/")[0])

    def offset(self, offset: Offset) -> Filters:
        """Return the filter for a place in a partition to begin at; an int is a sequence number."""
        require_offset(offset)
        if isinstance(offset, datetime):
            since_ms = (offset - _EPOCH).total_seconds() * 1000
            return _where(f"amqp.annotation.x-opt-enqueued-time >= '{since_ms:.0f}'")
        if isinstance(offset, int):
            return _where(f"amqp.annotation.x-opt-sequence-number >= '{offset}'")
        if offset == "first":
            return _where("amqp.annotation.x-opt-offset > '-1'")
        if offset == "next":
            return _where("amqp.annotation.x-opt-offset > '@latest'")
        error = self._unknown("offset", offset, "a partition cannot be read from its last event on")
        raise error

    def after(self, message: Message) -> Filters:
        """Return the filter for the events behind one, by its annotation `x-opt-offset`, or by its number."""
        offset = message.annotations.get("x-opt-offset")
        if isinstance(offset, str) and offset and "'" not in offset:
            return _where(f"amqp.annotation.x-opt-offset > '{offset}'")
        number = message.annotations.get("x-opt-sequence-number")
        if isinstance(number, int) and not isinstance(number, bool):
            return _where(f"amqp.annotation.x-opt-sequence-number > '{number}'")
        error = self._nowhere("x-opt-offset or x-opt-sequence-number")
        raise error


def session_filter(session: str | None) -> Filters:
    """Return the filter for a link that receives one session of a queue or subscription of Service Bus.

    Args:
        session: Its id, which is the `group_id` of its messages; None: the next one without a receiver.

    Errors: `ConfigError` for an id that is not allowed.
    """
    if session is not None and (not isinstance(session, str) or not session or len(session) > MAX_SESSION):
        msg = f"session_filter(session={session!r:.80}): it must be None or a string of 1 to {MAX_SESSION} characters"
        raise ConfigError(msg)
    return {_SESSION: session}  # the service takes it without a descriptor


def dead_letter_queue(address: str) -> str:
    """Return the address of the dead letters of a queue, or of a subscription, of Service Bus."""
    return f"{address}/$deadletterqueue"


def _where(condition: str) -> Filters:
    return {_SELECTOR: Described(Symbol(_SELECTOR), condition)}
