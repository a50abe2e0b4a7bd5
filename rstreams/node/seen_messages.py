"""The messages stored of each numbered producer: those that are sent again after a loss are not stored again.

Theory of operation. A producer numbers its messages, each higher than the one before. After a loss it sends those
without an outcome again, in the same order and before any new one (`net.links.effectively_once`). Therefore
the highest number stored of a producer is enough: a message whose number is not higher has been stored, over this link
or a lost one. Only links whose attach announces such numbers are checked.

This holds only if no number is stored before a lower one that was refused, for instance because the disk was full.
Therefore all higher numbers of that producer are refused until the refused one comes again, or the producer sends over
a new link. On a new link the producer knows what was refused, and decides what it sends again.

If two links send as the same producer, either the older one is lost and does not know it yet, or two producers have the
same id by mistake. In the second case messages of one would be taken for those of the other. Therefore the older link
is ended with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from rstreams._events.table import PRODUCER_ENDED
from rstreams.abc import Subscription
from rstreams.errors import Condition, ConfigError, DeliveryFailed, RemoteProtocolError
from rstreams.net.links.effectively_once import Stamp, read_stamp
from rstreams.protocol.receiver import LinkSubscription

DEFAULT_PRODUCERS = 4096


class GivesWay(Protocol):
    """The end of a link that sends as a numbered producer."""

    def give_way(self, producer: str) -> None:
        """End the link: another one sends as the same producer now."""
        ...


class Gaps:
    """The lowest number of each producer that was refused and has not come again; pure state.

    Args:
        producers: How many producers are remembered.

    Attributes:
        on_forget: Called with a producer whose numbers are all taken again; None: nothing is called.
    """

    __slots__ = ("_lowest", "_most", "on_forget")

    def __init__(self, producers: int) -> None:
        self._most = producers
        self._lowest: dict[str, int] = {}
        self.on_forget: Callable[[str], None] | None = None

    def __bool__(self) -> bool:
        return bool(self._lowest)

    def is_behind(self, stamp: Stamp) -> bool:
        """Return whether a lower number of the same producer was refused."""
        producer, sequence = stamp
        return sequence > self._lowest.get(producer, sequence)

    def open(self, stamp: Stamp) -> None:
        """Note that a message was refused."""
        producer, sequence = stamp
        lowest = self._lowest.pop(producer, sequence)
        if len(self._lowest) >= self._most:
            del self._lowest[next(iter(self._lowest))]
        self._lowest[producer] = min(lowest, sequence)

    def close(self, stamp: Stamp) -> None:
        """Note that a message is about to be stored: it is not behind a refused one."""
        self._lowest.pop(stamp[0], None)

    def forget(self, producer: str) -> None:
        """Take any number of a producer again."""
        self._lowest.pop(producer, None)
        if self.on_forget is not None:
            self.on_forget(producer)


class Seen:
    """The highest sequence number stored of each producer; pure state.

    Args:
        producers: How many producers are remembered. For one more, the one that has been silent longest is forgotten.

    Attributes:
        duplicates: Messages that came again, and were accepted and not stored again.
        gaps: The messages that were refused.

    Errors: `ConfigError` unless `producers` is a whole number, 1 or more.
    """

    __slots__ = ("_highest", "_links", "_most", "duplicates", "gaps")

    def __init__(self, producers: int = DEFAULT_PRODUCERS) -> None:
        if not isinstance(producers, int) or isinstance(producers, bool) or producers < 1:
            msg = f"dedup_producers={producers!r}: it must be a whole number of producers, 1 or more"
            raise ConfigError(msg)
        self._most = producers
        self._highest: dict[str, int] = {}  # the one that sent last is behind
        self._links: WeakValueDictionary[str, GivesWay] = WeakValueDictionary()  # the link of each producer
        self.duplicates = 0
        self.gaps = Gaps(producers)

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

    def highest(self, producer: str) -> int:
        """Return the highest number stored of a producer; -1 if there is none."""
        return self._highest.get(producer, -1)

    def take_back(self, stamp: Stamp) -> None:
        """Count a message, and all later ones of its producer, as not stored."""
        producer, sequence = stamp
        if self._highest.get(producer, -1) >= sequence:
            self._highest[producer] = sequence - 1

    def sends_as(self, producer: str, link: GivesWay, before: str) -> None:
        """Note that a link sends as `producer`, and no more as `before`; another link of that producer gives way.

        On a new link `before` is "".
        """
        if not before:
            self.gaps.forget(producer)
        if self._links.get(before) is link:
            del self._links[before]
        other = self._links.get(producer)
        self._links[producer] = link
        if other is not None:
            other.give_way(producer)


def open_gaps(gaps: Gaps, behind: Sequence[bytes]) -> list[Stamp]:
    """Note that messages behind a refused one are refused too; return their stamps."""
    stamps = [stamp for stamp in map(read_stamp, behind) if stamp is not None]
    for stamp in stamps:
        gaps.open(stamp)
    return stamps


def behind_a_gap(stamp: Stamp) -> DeliveryFailed:
    """Return the outcome of a message whose producer has sent a lower number that was refused."""
    text = f"a lower number of the producer {stamp[0]!r} was refused: send that one again first, or over a new link"
    return DeliveryFailed("rejected", Condition.RESOURCE_LIMIT_EXCEEDED.value, text)


def end_stolen(subscription: Subscription, producer: str) -> RemoteProtocolError | None:
    """End the link of a producer as which another link sends now; return the error if no signal tells of it."""
    error = RemoteProtocolError(Condition.LINK_STOLEN.value, f"another link sends as the producer {producer!r} now")
    PRODUCER_ENDED.tell(producer, why=error.description)
    if isinstance(subscription, LinkSubscription):
        subscription.give_up(error)
        return None
    subscription.cancel()
    return error
