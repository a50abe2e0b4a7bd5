"""A served stream with positions: a link says where it begins, and each item carries its position.

A function makes the stream from a position on, for instance by a query. Therefore a stream also goes on at a node that
has been started again. The words on the wire are those of a log (`rstreams.net.links.offsets`): a client that reads
logs from an offset reads such a stream in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from rstreams import operators, sources
from rstreams._checks.functions import require_plain
from rstreams._checks.names import require_name
from rstreams._checks.publishers import require_returned_publisher, require_subscriber
from rstreams._checks.refusals import refuse_value
from rstreams._core.subscription import subscribe_failed
from rstreams._events.table import SERVED_ITEM_NOT_SENT, SERVED_RAISED
from rstreams.abc import Publisher, Subscriber
from rstreams.errors import Condition, ConfigError, ProtocolError
from rstreams.message import encode_item
from rstreams.net.dialects.stream_offsets import START_AT
from rstreams.net.links.effectively_once import RESUMES
from rstreams.net.links.encoding import encoded_for
from rstreams.net.links.offsets import INCARNATION, MAX_INCARNATION, read_start, with_offset
from rstreams.node.address import LinkRequest, Supply
from rstreams.node.consumer import Subscribing
from rstreams.node.incarnations import require_incarnation
from rstreams.node.served import Served
from rstreams.protocol.frames import Settlement

T = TypeVar("T")

FromOffset = Callable[[int], Publisher[T]]
"""A function that returns the stream from a position on; the first item of all has the position 0."""


def make_served(
    name: str,
    publisher: Publisher[T] | None,
    encode: Callable[[T], object] | None,
    *,
    keep_s: float,
    from_offset: FromOffset[T] | None,
    incarnation: str | None,
) -> Served[T]:
    """Return the address for the options of `Node.serve`.

    Errors: `ConfigError` unless one of `publisher` and `from_offset` is given, or for what is not allowed.
    """
    if (publisher is None) == (from_offset is None):
        given = "it has neither" if publisher is None else "it has both"
        msg = f"served stream {name!r:.80}: give either a publisher or from_offset; {given}"
        raise ConfigError(msg)
    if from_offset is not None:
        return ServedFrom(name, from_offset, encode, keep_s=keep_s, incarnation=incarnation)
    if incarnation is not None:
        msg = f"served stream {name!r:.80}: incarnation={incarnation!r:.80}: allowed only with from_offset"
        raise ConfigError(msg)
    assert publisher is not None, "one of them is given"
    return Served(name, publisher, encode, keep_s=keep_s)


class ServedFrom(Served[T]):
    """The streams that a function makes, under an address: each link has one of its own, from its position on.

    Args:
        name: The address.
        from_offset: The function; see `Node.serve`.
        encode: As for `Served`.
        keep_s: As for `Served`.
        incarnation: The id of the items behind the positions; None: they are the same for ever.

    Demand: Passed up unchanged.
    Errors: `ConfigError` for a name or a function that is not allowed. A link that asks for another place than a
        position is refused. An exception of the function ends its link.
    """

    def __init__(
        self,
        name: str,
        from_offset: FromOffset[T],
        encode: Callable[[T], object] | None = None,
        *,
        keep_s: float = 0.0,
        incarnation: str | None = None,
    ) -> None:
        if incarnation is not None:
            require_name(f"served stream {name!r:.80}", "incarnation", incarnation)
            if len(incarnation) > MAX_INCARNATION:
                allowed = f"a text of 1 to {MAX_INCARNATION} characters"
                refuse_value(f"served stream {name!r:.80}", "incarnation", incarnation, allowed)
        require_plain(f"served stream {name!r:.80}", "from_offset", from_offset)
        super().__init__(name, sources.defer(lambda: self._make(0)), encode, keep_s=keep_s)
        self._from_offset = from_offset
        self._encode = encode
        self._incarnation = incarnation

    def supply(self, link: LinkRequest) -> Supply:
        """Return the stream from the position that the link asks for; from 0 if it does not ask for one."""
        filters = link.attach.filters
        try:
            start = read_start(filters)
        except ValueError as error:
            raise ProtocolError(Condition.INVALID_FIELD.value, str(error)) from None
        if start is None and RESUMES in link.attach.properties:
            text = (
                'the stream would begin again: a link that goes on asks for a position; use stream(..., start="first")'
            )
            raise ProtocolError(Condition.NOT_FOUND.value, text)
        if start is not None and start != "first" and not isinstance(start, int):
            text = f"{START_AT}={start!s:.80}: served stream {self.name!r:.80} begins at 'first' or at a position"
            raise ProtocolError(Condition.INVALID_FIELD.value, text)
        used, told = {START_AT: filters[START_AT]} if START_AT in filters else {}, {}
        if self._incarnation is not None:
            used |= require_incarnation(filters, self._incarnation, f"served stream {self.name!r:.80}")
            told = {INCARNATION: self._incarnation}
        position = start if isinstance(start, int) else 0
        supply = super().supply(link)
        # Where items are sent settled, the kept end does not know which ones have arrived. The position does.
        keeps = start is None or link.attach.settlement is not Settlement.AT_MOST_ONCE
        return Supply(
            Subscribing(partial(self._subscribe_from, position)),
            encoded=True,
            filters=used,
            properties=told,
            size=supply.size,
            keep_s=supply.keep_s if keeps else 0.0,
            on_away=supply.on_away,
        )

    def _make(self, position: int) -> Publisher[T]:
        return require_returned_publisher("serve", "from_offset", self._from_offset(position))

    def _subscribe_from(self, position: int, subscriber: Subscriber[bytes]) -> None:
        require_subscriber(subscriber)
        try:
            items = encoded_for(self.name, self._make(position), self._encode)
        except ProtocolError as error:  # the function's own answer to the peer
            subscribe_failed(subscriber, error)
            return
        except Exception as error:
            SERVED_RAISED.tell(self.name, raised=error, position=position, address=self.name)
            subscribe_failed(subscriber, error)
            return
        numbered: Publisher[Any] = operators.map(items, _Numbering(self.name, position).number)
        self.count_subscriber(numbered, subscriber)


class _Numbering:
    """Encodes items with their positions.

    Args:
        name: The address, for the log.
        position: The position of the first item.
    """

    __slots__ = ("_name", "_position")

    def __init__(self, name: str, position: int) -> None:
        self._name = name
        self._position = position

    def number(self, item: object) -> bytes:
        """Return an item, encoded, with the next position."""
        try:
            encoded = with_offset(encode_item(item), self._position)
        except Exception as error:
            SERVED_ITEM_NOT_SENT.tell(self._name, position=self._position, address=self._name, why=error)
            raise
        self._position += 1
        return encoded
