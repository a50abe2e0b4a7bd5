"""What the addresses of a node share, above all the node's end of a producer link.

To an address a consumer link is a `Subscriber[bytes]` that subscribes to it, and a producer link a `Publisher[bytes]`
that what the address's `producer()` returns subscribes to. The items are encoded messages, which no address looks
into; demand is the link's credit, and a hold is what becomes the disposition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from rstreams._core.sight import Scannable
from rstreams._core.subscription import ENDED
from rstreams.abc import Subscriber, Subscription
from rstreams.errors import ConfigError
from rstreams.net.options.names import check_name as check_link_name
from rstreams.node._sight import state_of
from rstreams.node.statistics import MulticastStatistics, QueueStatistics

logger = logging.getLogger("rstreams.node")


class Receives(Protocol):
    """The address behind a `Producer`.

    Attributes:
        name: The address, as peers write it in a source or target.
    """

    name: str

    def _join(self, producer: Producer) -> None: ...

    def _receive(self, producer: Producer, encoded: bytes) -> None: ...

    def _leave(self, producer: Producer) -> None: ...

    def statistics(self) -> QueueStatistics | MulticastStatistics: ...


class Producer(Scannable):
    """The node's end of one producer link: what the address requests here becomes the producer's credit.

    An item is accepted when `on_next` returns: the address has stored it, or passed it on.

    Attributes:
        outstanding: Items requested and not yet received.
        window: What it may have outstanding while there is room; kept by addresses that let it grow.
        ended: Whether the link is gone.
    """

    __slots__ = ("_address", "_subscription", "ended", "outstanding", "window")

    def __init__(self, address: Receives, window: int) -> None:
        self._address = address
        self._subscription: Subscription = ENDED
        self.outstanding = 0
        self.window = window
        self.ended = False

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._subscription is not ENDED or self.ended:
            subscription.cancel()  # 2.5: at most one live subscription
            return
        self._subscription = subscription
        self._address._join(self)  # noqa: SLF001 - the producer is a part of its address

    def on_next(self, item: bytes) -> None:
        if self.ended:
            return
        if not self.outstanding:
            # 1.1: the room for it was never granted, so it cannot be stored. A link cannot get here.
            logger.warning("address %r: a producer sent more than was requested; its link is ended", self._address.name)
            self._subscription.hold().release()
            self._end()
            self._subscription.cancel()
            return
        self._address._receive(self, item)  # noqa: SLF001

    def on_error(self, error: BaseException) -> None:  # noqa: ARG002 - why a producer left changes nothing here
        self._end()

    def on_complete(self) -> None:
        self._end()

    @property
    def stores(self) -> bool:
        """Whether the next message is stored, and not one too many."""
        return self.outstanding > 0 and not self.ended

    def stall(self) -> str:
        """Say why it asks for no more, for `explain` of what it is subscribed to."""
        return state_of(self._address.name, self._address.statistics())

    def grant(self, n: int) -> None:
        """Request `n` more items of the producer; they count as outstanding before it can answer."""
        self.outstanding += n
        self._subscription.request(n)

    def _end(self) -> None:
        if not self.ended:
            self.ended = True
            if self._subscription is not ENDED:
                self._address._leave(self)  # noqa: SLF001


def check_name(kind: str, name: str) -> str:
    """Return `name` if it can be the name of an address.

    Errors: `ConfigError` if it is empty, not a string, or begins with "$", which is kept for the node's own.
    """
    if not isinstance(name, str) or not name or name.startswith("$"):
        msg = f'{kind} name={name!r}: the name must be a non-empty string that does not begin with "$"'
        raise ConfigError(msg)
    check_link_name(f"{kind} name", name, "the name")
    return name


def check_capacity(kind: str, name: str, capacity: int) -> int:
    """Return `capacity` if it is a positive integer.

    Errors: `ConfigError` if not.
    """
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
        msg = f"{kind} {name!r}: capacity={capacity!r}: the capacity must be an integer of 1 or more messages"
        raise ConfigError(msg)
    return capacity


def hand_over(
    subscriber: Subscriber[bytes], encoded: bytes, address: str, drop: Callable[[], None]
) -> Exception | None:
    """Call `on_next`; a subscriber that raises, against rule 2.13, loses its subscription, and only that.

    Args:
        subscriber: Who gets the message.
        encoded: The message.
        address: The name of the address, for the log.
        drop: Ends the subscription at the address, silently; called before `on_error`.

    Returns: What the subscriber raised, else None.
    """
    try:
        subscriber.on_next(encoded)
    except Exception as error:
        logger.exception("address %r: a subscriber raised in on_next; its subscription is ended", address)
        drop()
        try:
            subscriber.on_error(error)
        except Exception:
            logger.exception("address %r: it raised in on_error too", address)
        return error
    return None
