"""The messages stored of each numbered producer: those that are sent again after a loss are not stored again.

Theory of operation. A producer numbers its messages, each higher than the one before. After a loss it sends those
without an outcome again, in the same order and before any new one (`net.links.effectively_once`). Therefore
the highest number stored of a producer is enough: a message whose number is not higher has been stored, over this link
or a lost one. Only links whose attach announces such numbers are checked.

If two links send as the same producer, either the older one is lost and does not know it yet, or two producers have the
same id by mistake. In the second case messages of one would be taken for those of the other. Therefore the older link
is ended with an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Protocol
from weakref import WeakValueDictionary

from rstreams._stages.stage import Stage
from rstreams.abc import Subscription
from rstreams.errors import Condition, ConfigError, RemoteProtocolError
from rstreams.net.links.effectively_once import Stamp, read_stamp
from rstreams.node.producer import Producer
from rstreams.protocol.receiver import LinkSubscription

DEFAULT_PRODUCERS = 4096

logger = logging.getLogger("rstreams.node")


class GivesWay(Protocol):
    """The end of a link that sends as a numbered producer."""

    def give_way(self, producer: str) -> None:
        """End the link: another one sends as the same producer now."""
        ...


class Seen:
    """The highest sequence number stored of each producer; pure state.

    Args:
        producers: How many producers are remembered. For one more, the one that has been silent longest is forgotten.

    Attributes:
        duplicates: Messages that came again and were not stored again.

    Errors: `ConfigError` unless `producers` is a whole number, 1 or more.
    """

    __slots__ = ("_highest", "_links", "_most", "duplicates")

    def __init__(self, producers: int = DEFAULT_PRODUCERS) -> None:
        if not isinstance(producers, int) or isinstance(producers, bool) or producers < 1:
            msg = f"dedup_producers={producers!r}: it must be a whole number of producers, 1 or more"
            raise ConfigError(msg)
        self._most = producers
        self._highest: dict[str, int] = {}  # the one that sent last is behind
        self._links: WeakValueDictionary[str, GivesWay] = WeakValueDictionary()  # the link of each producer
        self.duplicates = 0

    def __len__(self) -> int:
        return len(self._highest)

    def has(self, stamp: Stamp) -> bool:
        """Return whether a message has been stored before."""
        producer, sequence = stamp
        return sequence <= self._highest.get(producer, -1)

    def note(self, stamp: Stamp) -> str | None:
        """Count a message as stored; return the id of a producer that is forgotten instead, if there is one."""
        producer, sequence = stamp
        highest = self._highest
        before = highest.pop(producer, None)
        forgotten = None
        if before is None and len(highest) >= self._most:
            forgotten = next(iter(highest))
            del highest[forgotten]
        highest[producer] = sequence if before is None else max(before, sequence)
        return forgotten

    def take_back(self, stamp: Stamp) -> None:
        """Count a message, and all later ones of its producer, as not stored."""
        producer, sequence = stamp
        if self._highest.get(producer, -1) >= sequence:
            self._highest[producer] = sequence - 1

    def sends_as(self, producer: str, link: GivesWay, before: str) -> None:
        """Note that a link sends as `producer`, and no more as `before`; another link of that producer gives way."""
        if self._links.get(before) is link:
            del self._links[before]
        other = self._links.get(producer)
        self._links[producer] = link
        if other is not None:
            other.give_way(producer)


class DropSeen(Stage[bytes, bytes]):
    """Passes a producer's messages on to its address; those that are stored there already are accepted and dropped.

    Demand: Passed up. For a dropped message one more is requested: the producer's credit stays as its address granted.
    Errors: `amqp:link:stolen` for a link when another one begins to send as the same producer.
    """

    __slots__ = ("_producer", "_producer_id", "_seen")

    operator = "effectively once"

    def __init__(self, seen: Seen, producer: Producer) -> None:
        super().__init__(producer)
        self._seen = seen
        self._producer = producer
        self._producer_id = ""

    def on_next(self, item: bytes) -> None:
        """Pass a message on, or accept it without storing it again."""
        if not self._ended and self._is_new(item):
            self._downstream.on_next(item)

    def on_run(self, items: Iterator[bytes]) -> None:
        """Pass many messages on, as `on_next` does with one; see `TakesRuns`."""
        self._producer.on_run(filter(self._is_new, items))

    def _is_new(self, item: bytes) -> bool:
        """Return whether a message is new; for one that is not, another one is requested."""
        stamp = read_stamp(item)
        if stamp is None:
            return True
        if stamp[0] != self._producer_id:
            before, self._producer_id = self._producer_id, stamp[0]
            self._seen.sends_as(stamp[0], self, before)
        if self._seen.has(stamp):
            self._seen.duplicates += 1
            self._upstream.request(1)
            return False
        if self._producer.stores:
            self._seen.note(stamp)
        return True

    def give_way(self, producer: str) -> None:
        """End the link: another one sends as the same producer now."""
        if self._ended:
            return
        error = end_stolen(self._upstream, producer)
        if error is not None:
            self.on_error(error)


def end_stolen(subscription: Subscription, producer: str) -> RemoteProtocolError | None:
    """End the link of a producer as which another link sends now; return the error if no signal tells of it."""
    error = RemoteProtocolError(Condition.LINK_STOLEN.value, f"another link sends as the producer {producer!r} now")
    logger.warning("a link that sends to a node is ended: %s", error.description)
    if isinstance(subscription, LinkSubscription):
        subscription.give_up(error)
        return None
    subscription.cancel()
    return error
