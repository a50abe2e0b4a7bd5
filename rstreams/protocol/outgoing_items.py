"""The items that a link has from its publisher, and has not sent: encoded, and kept.

Theory of operation. Items are encoded as they come, and are held until the link takes them as one run. The ledger is
told of them once for each run, not for each item. Bytes that come in runs are held unchanged. If they are sent in
packs, they are encoded when the pack is made. Otherwise the driver writes what stands before a body, and no item is
copied for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from rstreams._codec.data_sections import largest_body, total_bytes
from rstreams._core.claims import Claims
from rstreams.abc import Hold
from rstreams.message import Message, as_is, encode_item
from rstreams.protocol.credit import SenderLedger
from rstreams.protocol.item_numbers import ItemNumbers
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.outgoing_body import StreamedHead, streaming
from rstreams.protocol.outgoing_holds import WaitingClaims
from rstreams.protocol.packing import MAX_PACK_BYTES
from rstreams.protocol.unsettled import ItemSize

_SHORT_BODY = 255
_SHORT_SECTION_BYTES, _SECTION_BYTES = 5, 8
"""The bytes before a body in its section: of at most `_SHORT_BODY` bytes, and of more."""

_MOST_BODY_BYTES: Final = 2**32 - 1 - _SECTION_BYTES
"""The largest body that can be encoded."""


_BYTES: Final = frozenset({bytes})
_ENCODED: Final = frozenset({bytes, StreamedHead})


class OutgoingItems:
    """The items that wait to be sent by a `LinkSubscriber`; see the text of this module.

    Context: As `LinkSubscriber`.

    Attributes:
        payloads: The held items, encoded, in their order.
        are_bodies: Whether they are not encoded yet: each is the body of its message.
        holds: The hold of each item; items that came together have theirs in one run.
        numbers: The number of each item.
        size: The size that the next items are expected to have.
        are_encoded: Whether the items come as messages: as bytes, or as a `StreamedHead`.
        encode: Encodes an item; one whose body is streamed becomes a `StreamedHead`, which is to be put at once.
    """

    __slots__ = (
        "_heads",
        "_keeps_bodies",
        "_ledger",
        "_of_plain",
        "are_bodies",
        "are_encoded",
        "encode",
        "holds",
        "numbers",
        "payloads",
        "size",
    )

    def __init__(self, options: SendingOptions, ledger: SenderLedger) -> None:
        """Start without items; `ledger` counts owed and held ones."""
        self.payloads: list[bytes] = []
        self.are_bodies = False
        self.holds = WaitingClaims()
        self.numbers = ItemNumbers()
        self.size = options.size or ItemSize()
        self.are_encoded = options.encode is as_is
        self.encode: Callable[[Any], bytes] = options.encode
        if options.open_body is not None and not self.are_encoded:
            self.encode = streaming(options.encode, options.open_body)
        self._ledger = ledger
        self._of_plain: Callable[[Any], bytes] = options.encode  # for an item whose body is not streamed
        # Items that may have to be sent again are kept encoded.
        self._keeps_bodies = options.encode is encode_item and not options.resends
        self._heads = 0  # how many of `payloads` are the heads of streamed messages

    # how they come

    def put_one(self, payload: bytes, hold: Hold) -> None:
        """Keep an encoded item."""
        if self.are_bodies:
            self._encode_held()
        self._heads += type(payload) is StreamedHead
        self.payloads.append(payload)
        self.holds.append(hold)

    def put(
        self, items: list[Any], claims: Claims, made: dict[Callable[..., Any], list[Any]] | None = None
    ) -> tuple[int, Exception | None]:
        """Encode and keep items, up to one that cannot be encoded, which fails; those behind it are given back.

        Args:
            items: The items.
            claims: The claims on them.
            made: As of their run; None: no other link gets them.

        Returns: How many are kept, and why the next one cannot be encoded.
        """
        largest = largest_body(items)
        if self._may_stay_bodies(largest):
            self.are_bodies = True
            self.payloads += items
            self.holds.put(claims)
            return len(items), None
        self._encode_held()
        kinds = frozenset(map(type, items)) if largest < 0 else _BYTES
        may_stream = Message in kinds or StreamedHead in kinds
        encode = self.encode if may_stream else self._of_plain
        payloads: list[bytes] = []
        wrong = None
        try:
            payloads.extend(self._encoded(items, kinds, made) or map(encode, items))
        except Exception as error:  # the caller's own encoder may raise anything
            wrong = error
        count = len(payloads)
        if may_stream:
            self._heads += list(map(type, payloads)).count(StreamedHead)
        self.payloads += payloads
        if wrong is not None:
            self.numbers.unsent += len(items) - count
            self.holds.put(claims.cut(count))
            claims.cut(1).fail(wrong)
            claims.release()
        else:
            self.holds.put(claims)
        return count, wrong

    def _encoded(
        self, items: list[Any], kinds: frozenset[type], made: dict[Callable[..., Any], list[Any]] | None
    ) -> list[bytes]:
        """Return the messages of a run that are encoded already, also by another link that gets it; else none."""
        if self.are_encoded and kinds <= _ENCODED:
            return items
        if made is None or self._of_plain is not encode_item:
            return []
        if encode_item not in made:
            made[encode_item] = []
            with suppress(Exception):  # the caller finds the item
                made[encode_item] = list(map(encode_item, items))
        return made[encode_item]

    def _may_stay_bodies(self, largest: int) -> bool:
        """Tell whether items may be held as they are, by the size of the largest; -1: they are not all bytes."""
        if not self._keeps_bodies or (self.payloads and not self.are_bodies):
            return False
        return 0 <= largest <= (_MOST_BODY_BYTES if self._ledger.pack == 1 else MAX_PACK_BYTES)

    def _encode_held(self) -> None:
        """Encode items that are held unchanged."""
        if self.are_bodies:
            self.are_bodies = False
            self.payloads = [encode_item(body) for body in self.payloads]

    def count_received(self) -> bool:
        """Tell the ledger of items that came since the last time; return whether no more came than were requested."""
        ledger = self._ledger
        ledger.receive(len(self.payloads) - ledger.held)
        return ledger.owed >= 0

    # how they are taken

    def before_body(self, count: int) -> int:
        """Return how many of the first `count` held items come before a streamed one, which is sent by itself."""
        if not self._heads:
            return count
        is_head = (type(payload) is StreamedHead for payload in self.payloads[:count])
        return next((at for at, found in enumerate(is_head) if found), count)

    def take(self, count: int) -> tuple[list[bytes], list[Claims], Sequence[int]]:
        """Take the first `count` held items, none of which is streamed, the claims on them and their numbers."""
        if count == len(self.payloads):
            payloads, self.payloads = self.payloads, []
        else:
            payloads, self.payloads = self.payloads[:count], self.payloads[count:]
        claims = self.holds.take(count)
        self._ledger.send(count)
        self.size.mean = max(1, total_bytes(payloads) // count)
        return payloads, claims, self.numbers.take(count)

    def before_too_large(self, count: int, most_bytes: int) -> int:
        """Return how many of the first `count` held items come before the first message of more than `most_bytes`."""
        payloads = self.payloads if count == len(self.payloads) else self.payloads[:count]
        if total_bytes(payloads) + _SECTION_BYTES <= most_bytes:  # nearly always true for all together
            return count
        return next((at for at, payload in enumerate(payloads) if self._size(payload) > most_bytes), count)

    def _size(self, payload: bytes) -> int:
        """Return the size of the message of a held item, in bytes."""
        size = len(payload)
        if self.are_bodies:
            size += _SECTION_BYTES if size > _SHORT_BODY else _SHORT_SECTION_BYTES
        return size

    def take_first(self) -> tuple[bytes, int, Hold, int]:
        """Take the first held item, which is not sent; return it, the size of its message, its hold and its number."""
        payload, hold, (number,) = self.payloads.pop(0), self.holds.take_first(), self.numbers.take(1)
        self._ledger.send(1)
        return payload, self._size(payload), hold, number

    def take_head(self) -> tuple[StreamedHead, Hold, Sequence[int]]:
        """Take the first held item, which is the head of a streamed one, its hold and its number."""
        head, hold = self.payloads.pop(0), self.holds.take_first()
        assert isinstance(head, StreamedHead)
        self._heads -= 1
        self._ledger.send(1)
        return head, hold, self.numbers.take(1)

    def put_back(self, payloads: list[bytes], holds: list[Hold], numbers: list[int]) -> None:
        """Hold items again that were sent on a lost link, before items that were never sent."""
        self._encode_held()  # the next link may not take packs
        self.payloads = payloads + self.payloads
        self.holds.put_first(holds)
        self.numbers.take_back(numbers)
        self._ledger.take_back(len(payloads))

    def withdraw(self, place: object) -> bool:
        """Forget a held item whose claim is on this place, and release it; return whether it was held."""
        at, hold = self.holds.remove(place)
        if hold is None:
            return False
        self.count_received()  # before one is missing
        self._heads -= type(self.payloads.pop(at)) is StreamedHead
        del self.numbers.again[at : at + 1]
        self._ledger.send(1)
        hold.release()
        return True

    def take_holds(self) -> tuple[list[Hold], list[Hold]]:
        """Forget held items, and return the holds of doubtful items, and those of items that were never sent."""
        self.count_received()
        holds, again = self.holds.take_all(), self.numbers.again
        doubtful, holds = holds[: len(again)], holds[len(again) :]
        self.numbers.unsent += len(holds)
        again.clear()
        self.payloads.clear()
        self._heads = 0
        self._ledger.send(len(doubtful) + len(holds))
        return doubtful, holds
