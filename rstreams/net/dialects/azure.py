"""Azure Service Bus and Event Hubs, written after their documentation: there is no server to be had to test against."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from rstreams._codec import Described, Symbol
from rstreams.net.dialects.base import Dialect, Filters, Offset, Place, check_offset, kind_of

_SELECTOR: Final = "apache.org:selector-filter:string"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ServiceBus(Dialect):
    """Azure Service Bus: a queue or topic is its name, a subscription `topic/Subscriptions/name`."""

    name = "servicebus"

    def source(self, address: str) -> Place:
        """Return the entity's path."""
        return Place(kind_of(address)[1])

    def target(self, address: str) -> Place:
        """Return the entity's path."""
        return Place(kind_of(address)[1])


class EventHubs(ServiceBus):
    """Azure Event Hubs: `hub/ConsumerGroups/group/Partitions/number` to receive, `hub` to send."""

    name = "eventhubs"

    def offset(self, offset: Offset) -> Filters:
        """Return the filter for where in a partition to begin; an int is a sequence number."""
        check_offset(offset)
        if isinstance(offset, datetime):
            since_ms = (offset - _EPOCH).total_seconds() * 1000
            condition = f"amqp.annotation.x-opt-enqueued-time >= '{since_ms:.0f}'"
        elif isinstance(offset, int):
            condition = f"amqp.annotation.x-opt-sequence-number >= '{offset}'"
        elif offset == "first":
            condition = "amqp.annotation.x-opt-offset > '-1'"
        elif offset == "next":
            condition = "amqp.annotation.x-opt-offset > '@latest'"
        else:
            error = self._unknown("offset", offset, "a partition is not read from its last event on")
            raise error
        return {_SELECTOR: Described(Symbol(_SELECTOR), condition)}
