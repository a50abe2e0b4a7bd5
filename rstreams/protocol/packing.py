"""Packed deliveries: several items in one message, between two ends that both support packs.

A pack is an ordinary message; every intermediary can carry it. Its message annotations have the number of items, and
each of its Data sections is one encoded item. Both ends tell in their attach how many items a delivery may carry; the
smaller number holds. A pack is settled as a whole. If its items have different outcomes, the annotations of a modified
outcome have them. These must fit into one frame. Therefore a receiver agrees to no more items than such a frame has
room for.

Spec: AMQP 1.0 sections 2.7.3 (properties of a link), 3.2.3, 3.2.6 and 3.4.5.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, TypeAlias, overload

from rstreams._codec import Symbol
from rstreams._codec.data_sections import Sections, join, join_bodies, pack_sizes, split_bodies, total_bytes
from rstreams._codec.data_sections import last as last_section
from rstreams.errors import Condition, RemoteProtocolError
from rstreams.protocol.delivery import ACCEPTED, ERROR_DESCRIPTION, FAILED, Outcome

CAPABILITY: Final = "rstreams:packed"
"""The capability that a connection offers if its links may carry packs."""

PACK_ITEMS: Final = "rstreams:pack-items"
"""The property of a link with the number of items that a delivery may carry."""

OUTCOMES: Final = "x-opt-rstreams-outcomes"
"""The annotation of a modified outcome with the outcomes of single items: lists of index, outcome, and its fields."""

MAX_PACK_BYTES: Final = 256 * 1024
"""The most bytes of a pack, unless one item alone has more."""

FRAME_PACK_BYTES: Final = 64 * 1024 - 256
"""The most bytes of a pack in one frame of the usual size. A second frame would double the receiver's buffer."""

MAX_DESCRIPTION: Final = 80
"""The most characters of the description in a single item's outcome."""

SETTLED_RUN: Final = 256
"""The most items of packs that came settled which are one run: about as many as a receiver hands over at once."""

_TOLD_BYTES: Final = 24
"""The most bytes of one item's outcome, without texts."""

_BESIDE_TOLD_BYTES: Final = 192
"""The most bytes of the rest of a disposition's frame."""

_HEADS_BYTES: Final = 16
"""The bytes of an item's own section, and of the section that it is in."""

_COUNT: Final = "x-opt-rstreams-pack"
_START: Final = b"\x00\x53\x72\xc1\x1b\x02\xa3\x13" + _COUNT.encode() + b"\x70"  # a map of one uint, with its key
_BODY: Final = len(_START) + 4
_pack_count: Final = struct.Struct(">I").pack
_pack_of: Final[Callable[[Any], Pack]] = itemgetter(0)


def encode_pack(items: list[bytes]) -> bytes:
    """Return the message that carries these encoded items."""
    return join(_START + _pack_count(len(items)), items)


def encode_bodies(bodies: list[bytes]) -> bytes:
    """Return the message that carries items with these bodies and nothing else."""
    return join_bodies(_START + _pack_count(len(bodies)), bodies)


def most_pack_bytes(items: list[bytes]) -> int:
    """Return the largest size of a pack with these items, encoded or bodies."""
    return _BODY + total_bytes(items) + _HEADS_BYTES * len(items)


class PackedMessages(Sequence[bytes]):
    """The encoded items of packs, one pack after the other; each is taken from its pack only when it is needed."""

    __slots__ = ("_items", "_packs", "_size")

    def __init__(self) -> None:
        """Have no pack."""
        self._packs: list[bytes] = []
        self._size = 0
        self._items: list[bytes] | None = None

    def add(self, pack: bytes, size: int) -> None:
        """Add a pack of `size` items, while no item has been taken."""
        self._packs.append(pack)
        self._size += size

    def bodies(self) -> list[bytes] | None:
        """Return the bodies of the items, as `decode_body` would; None unless all of them are bytes."""
        bodies: list[bytes] = []
        for pack in self._packs:
            some = split_bodies(pack, _BODY)
            if some is None:
                return None
            bodies += some
        return bodies

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        return Sections(tuple(self._packs), _BODY, self._size) if self._items is None else iter(self._items)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if self._items is None and isinstance(index, int) and index in (-1, self._size - 1):
            return last_section(self._packs[-1], _BODY) or b""
        if self._items is None:
            self._items = list(self)
        return self._items[index]


def decode_pack(message: bytes) -> PackedMessages | None:
    """Return the encoded items in a message, or None if it is an ordinary message.

    Errors: `RemoteProtocolError` with `amqp:decode-error` if it claims to be a pack and is not a valid one.
    """
    (size,) = pack_sizes((message,), _START)
    return None if size is None else _packed(message, size)


def _packed(message: bytes, size: int) -> PackedMessages:
    """Return the items of a pack. Errors: As `decode_pack`, for a size of -1."""
    if size < 0:
        msg = f"a packed delivery of {len(message)} bytes does not have the items that it announces"
        raise RemoteProtocolError(Condition.DECODE_ERROR.value, msg)
    packed = PackedMessages()
    packed.add(message, size)
    return packed


def agreed_items(ours: int, properties: Mapping[str, Any]) -> int:
    """Return how many items a delivery may carry, by our number and the peer's link properties; 1: no packs."""
    theirs = properties.get(PACK_ITEMS)
    if ours < 2 or not isinstance(theirs, int) or isinstance(theirs, bool) or theirs < 2:
        return 1
    return min(ours, theirs)


def offer(items: int) -> dict[str, Any]:
    """Return the link properties that offer deliveries of `items` items."""
    return {PACK_ITEMS: items} if items > 1 else {}


def told_items(frame_bytes: int) -> int:
    """Return how many items' outcomes fit into a frame of `frame_bytes` bytes; at least 1."""
    return max(1, (frame_bytes - _BESIDE_TOLD_BYTES) // _TOLD_BYTES)


class Pack:
    """A packed delivery that the receiver has on hand; it is settled when all its items are.

    Attributes:
        handle: The driver's handle of the delivery.
        left: The number of items not settled yet.
        size: The number of items in it.
        outcomes: The outcomes of items that were not accepted, by index.
    """

    __slots__ = ("handle", "left", "outcomes", "size")

    def __init__(self, handle: object, size: int) -> None:
        self.handle = handle
        self.left = self.size = size
        self.outcomes: dict[int, Outcome] = {}

    def outcome(self) -> Outcome:
        """Return the outcome of the whole pack, when all items are settled."""
        outcomes = self.outcomes
        if not outcomes:
            return ACCEPTED
        values = list(outcomes.values())
        if len(values) == self.size and all(value == values[0] for value in values):
            return values[0]
        told = [_told(index, outcome) for index, outcome in sorted(outcomes.items())]
        failed = any(outcome.delivery_failed for outcome in values)
        return Outcome("modified", delivery_failed=failed, annotations={OUTCOMES: told})


PackedItem: TypeAlias = tuple[Pack, int]
"""An item of a pack: the pack, and the item's place in it."""


ReceivedRun: TypeAlias = tuple[Sequence[Hashable], Sequence[bytes]]
"""Items that came together: the deliveries, all None if the items came settled; and the items."""


class PackItems(Sequence[PackedItem]):
    """Consecutive items of one pack, each made only when it is needed.

    Attributes:
        pack: The pack.
        places: The places of the items in it.
    """

    __slots__ = ("pack", "places")

    def __init__(self, pack: Pack, places: range) -> None:
        """Use the items of `pack` at `places`."""
        self.pack = pack
        self.places = places

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[PackedItem]:
        return zip(repeat(self.pack), self.places, strict=False)

    @overload
    def __getitem__(self, index: int) -> PackedItem: ...
    @overload
    def __getitem__(self, index: slice) -> PackItems: ...
    def __getitem__(self, index: int | slice) -> PackedItem | PackItems:
        if isinstance(index, slice):
            return PackItems(self.pack, self.places[index])
        return self.pack, self.places[index]


def unpack(handles: Sequence[Hashable], messages: Sequence[bytes], most: int) -> list[ReceivedRun]:
    """Return the items of these messages in runs.

    A pack is one run. So are a row of ordinary messages, and a row of packs that came settled, up to `SETTLED_RUN`.

    Args:
        handles: The driver's handle of each delivery; None if it came settled.
        messages: The messages of the deliveries.
        most: The most items a delivery may carry.

    Errors: `RemoteProtocolError` for a pack that is malformed, or larger than was agreed.
    """
    runs: list[ReceivedRun] = []
    ordinary: tuple[list[Hashable], list[bytes]] | None = None
    settled: tuple[list[None], PackedMessages] | None = None
    for handle, message, size in zip(handles, messages, pack_sizes(messages, _START), strict=True):
        if size is None:
            if ordinary is None:
                ordinary, settled = ([], []), None
                runs.append(ordinary)
            ordinary[0].append(handle)
            ordinary[1].append(message)
            continue
        ordinary = None
        if settled is not None and handle is None and 0 < size <= min(most, SETTLED_RUN - len(settled[0])):
            settled[0].extend([None] * size)
            settled[1].add(message, size)
            continue
        packed, settled = _packed(message, size), None
        if not 0 < size <= most:
            msg = f"a packed delivery of {size} items, but only {most} were agreed"
            raise RemoteProtocolError(Condition.LINK_TRANSFER_LIMIT_EXCEEDED.value, msg)
        if handle is None:
            settled = [None] * size, packed
            runs.append(settled)
        else:
            runs.append((PackItems(Pack(handle, size), range(size)), packed))
    return runs


def settled_whole(
    accepted: Sequence[Any], given_back: Iterable[tuple[Outcome, Any]], accepted_runs: Iterable[Sequence[Any]] = ()
) -> tuple[list[Any], list[tuple[Outcome, Any]]]:
    """Return the deliveries that are now settled as a whole: the accepted ones, and the others with their outcomes.

    Args:
        accepted: Accepted items, packed or single deliveries.
        given_back: Items with another outcome.
        accepted_runs: Items accepted together: items of a pack, or single deliveries.
    """
    others: list[tuple[Outcome, Any]] = []
    ended: dict[Pack, None] = {}
    for outcome, known in given_back:
        if type(known) is not tuple:
            others.append((outcome, known))
            continue
        packed: PackedItem = known
        pack, index = packed
        pack.outcomes[index] = outcome
        pack.left -= 1
        if not pack.left:
            ended[pack] = None
    whole, counted = _count_accepted(accepted, accepted_runs)
    for pack, count in counted:
        pack.left -= count
        if not pack.left:
            ended[pack] = None
    for pack in ended:
        outcome = pack.outcome()
        if outcome is ACCEPTED:
            whole.append(pack.handle)
        else:
            others.append((outcome, pack.handle))
    return whole, others


def _count_accepted(accepted: Sequence[Any], runs: Iterable[Sequence[Any]]) -> tuple[list[Any], list[tuple[Pack, int]]]:
    """Return the deliveries that are not packs, and the number of items of each pack."""
    ordinary: list[Any] = []
    if list(map(type, accepted)).count(tuple) != len(accepted):
        ordinary += [known for known in accepted if type(known) is not tuple]
        accepted = [known for known in accepted if type(known) is tuple]
    counted = list(Counter(map(_pack_of, accepted)).items())
    for run in runs:
        if isinstance(run, PackItems):
            counted.append((run.pack, len(run)))
        else:
            ordinary += run
    return ordinary, counted


def _told(index: int, outcome: Outcome) -> list[Any]:
    told: list[Any] = [index, Symbol(outcome.kind)]
    if outcome.kind == "rejected":
        told += [outcome.condition, outcome.description[:MAX_DESCRIPTION].encode("utf-8", "backslashreplace").decode()]
    elif outcome.kind == "modified":
        told += [outcome.delivery_failed, outcome.undeliverable_here]
        description = outcome.annotations.get(ERROR_DESCRIPTION)
        if isinstance(description, str):
            told.append(description[:MAX_DESCRIPTION].encode("utf-8", "backslashreplace").decode())
    return told


def without_texts(annotations: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pack's outcomes without texts for people and without other annotations."""
    told = annotations.get(OUTCOMES)
    if not isinstance(told, list):
        return {}
    return {OUTCOMES: [entry[: 2 if entry[1] == "rejected" else 4] for entry in told]}


def told_outcomes(outcome: Outcome, size: int) -> list[Outcome]:
    """Return the outcome of each of `size` items, from the outcome of their pack."""
    told = outcome.annotations.get(OUTCOMES) if outcome.kind == "modified" else None
    if not isinstance(told, list):
        return [outcome] * size
    outcomes = [ACCEPTED] * size
    for entry in told:
        match entry:
            case [int(index), _, *_] if 0 <= index < size:
                outcomes[index] = _heard(entry)
    return outcomes


def _heard(entry: Sequence[Any]) -> Outcome:
    kind = str(entry[1])
    more = [*entry[2:5], None, None, None]
    if kind == "rejected":
        return Outcome("rejected", str(more[0] or Condition.INTERNAL_ERROR.value), str(more[1] or ""))
    if kind == "released":
        return Outcome("released")
    if kind == "modified":
        description = {ERROR_DESCRIPTION: more[2]} if isinstance(more[2], str) else {}
        return Outcome(
            "modified", delivery_failed=bool(more[0]), undeliverable_here=bool(more[1]), annotations=description
        )
    return FAILED
