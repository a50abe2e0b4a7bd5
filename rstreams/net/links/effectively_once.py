"""Effectively once: messages are stamped where they are sent, and repetitions are dropped where they are received.

Theory of operation. On the wire everything is at least once: each message that is in doubt after a loss comes again.
Two memories make that harmless:

    sender -> node      Each message is stamped with a producer's id and a sequence number, which stay the same when it
                        is sent again. Messages are sent, and sent again, in order. Therefore the node needs only the
                        highest number that it has stored of each producer (`rstreams.node.seen_messages`).
    node -> consumer    A message comes again if it was handed over and the node has not heard its outcome. The consumer
                        knows the stamps of the messages that it has accepted last, and of those in hand.

A stamp is two message annotations. A program that sends a message on must stamp it anew, or not at all: the numbers of
one producer, in the order of another, would be taken for repetitions. Therefore `Connection.messages` does not show
them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar
from uuid import UUID

from rstreams._checks.numbers import require_count
from rstreams._checks.refusals import refuse_value
from rstreams._codec.annotations import with_annotations
from rstreams._codec.decode import Malformed, read_list, read_map, skip_value
from rstreams._codec.encode import encode_string, encode_symbol
from rstreams._codec.sections import MESSAGE_ANNOTATIONS, PROPERTIES, START, read_section
from rstreams._codec.types import is_whole
from rstreams._core.claims import DONE, Claims, Ending, Settles, end, is_gone, loosen
from rstreams._core.claims_in_order import ClaimsInOrder
from rstreams._stages.stage import Stage
from rstreams.abc import Hold, Subscriber
from rstreams.message import Message, decode_message
from rstreams.protocol.joined_message import decodes_around_body

T = TypeVar("T")

EFFECTIVELY_ONCE: Final = "effectively_once"
"""The name of the settlement."""

PRODUCER: Final = "x-opt-rstreams-producer"
"""The annotation that says which producer a message is of."""

SEQUENCE: Final = "x-opt-rstreams-sequence"
"""The annotation with the number of the message among its producer's; each number is higher than the one before."""

ONCE: Final = "rstreams:once"
"""The property of a link whose messages are stamped in order, and whose receiver drops repetitions."""

RESUMES: Final = "rstreams:resumes"
"""The property of an attach of a receiver that had items before a loss: the stream must not begin again for it."""

MAX_PRODUCER_BYTES: Final = 128
MAX_SEQUENCE: Final = 2**63 - 1

DEFAULT_REMEMBERED: Final = 4096

_ID_TYPES: Final = (int, UUID, bytes, str)  # 3.2.4; a peer may send anything else, which may have no hash

Stamp: TypeAlias = tuple[str, int]

_pack_sequence: Final = struct.Struct(">BQ").pack
_read_sequence: Final = struct.Struct(">Q").unpack_from

_ULONG: Final = 0x80
_FRONT: Final = encode_symbol(PRODUCER)
_MIDDLE: Final = encode_symbol(SEQUENCE)
_START: Final = START[MESSAGE_ANNOTATIONS] + b"\xc1"
_ID_AT: Final = len(_START) + 2 + len(_FRONT) + 2
_PLAIN: Final = b"\x04" + _FRONT + b"\xa1"


class Stamper:
    """Stamps encoded messages with one producer's id and the next sequence number.

    Attributes:
        producer_id: The producer's id.
        sequence: The number of the next message.
    """

    __slots__ = ("_id", "_prefix", "producer_id", "sequence")

    def __init__(self, producer_id: str, first_sequence: int = 0) -> None:
        """Stamp messages from `first_sequence` on.

        Errors: `ConfigError` for an id or a number that is not allowed.
        """
        self.producer_id = require_producer_id(producer_id)
        self.sequence = require_sequence(first_sequence)
        self._id = encode_string(producer_id)
        content = _FRONT + self._id + _MIDDLE
        self._prefix = _START + bytes((1 + len(content) + 9, 4)) + content

    def stamp(self, encoded: bytes) -> bytes:
        """Return an encoded message with the next stamp; its own annotations are kept."""
        sequence = _pack_sequence(_ULONG, self.sequence)
        self.sequence += 1
        if encoded[2:3] > b"r":  # it has no header and no annotations (0x72): they come first
            return self._prefix + sequence + encoded
        return with_annotations(encoded, {PRODUCER: self._id, SEQUENCE: sequence})

    def stamping(self, encode: Callable[[T], bytes]) -> Callable[[T], bytes]:
        """Return a function that encodes an item by `encode` and stamps its message."""
        stamp = self.stamp
        return lambda item: stamp(encode(item))


def require_producer_id(producer_id: str) -> str:
    """Return `producer_id` if a stamp can carry it.

    Errors: `ConfigError` if not.
    """
    valid = isinstance(producer_id, str) and producer_id.isprintable()
    if not valid or not 0 < len(producer_id.encode()) <= MAX_PRODUCER_BYTES:
        refuse_value("", "producer_id", producer_id, f"a printable text of 1 to {MAX_PRODUCER_BYTES} bytes")
    return producer_id


def require_sequence(first_sequence: int) -> int:
    """Return `first_sequence` if a stamp can carry it and those that follow.

    Errors: `ConfigError` if not.
    """
    return require_count("", "first_sequence", first_sequence, 0, MAX_SEQUENCE, unit="")


def read_stamp(encoded: bytes) -> Stamp | None:
    """Return the producer's id and the sequence number of an encoded message; None if it has none."""
    if encoded[2:3] > b"r":
        return None
    if encoded[:4] == _START and encoded[5 : _ID_AT - 1] == _PLAIN:
        try:
            end = _ID_AT + encoded[_ID_AT - 1]
            number = end + len(_MIDDLE) + 1
            if encoded[end:number] == _MIDDLE + b"\x80" and encoded[4] == number + 8 - 5:
                return encoded[_ID_AT:end].decode(), _read_sequence(encoded, number)[0]
        except Malformed:
            return None
    return _stamp_of(read_annotations(encoded))


def read_annotations(encoded: bytes) -> Mapping[Any, Any]:
    """Return the annotations of an encoded message; none if it has none, or is malformed."""
    at = before = 0
    try:
        while at < len(encoded):
            code, at = read_section(encoded, at, before)
            if code == MESSAGE_ANNOTATIONS:
                return read_map(encoded, at)[0]
            if code > MESSAGE_ANNOTATIONS:
                break
            before, at = code, skip_value(encoded, at)
    except Malformed:
        pass  # the decoder reports it
    return {}


def _stamp_of(annotations: Mapping[Any, Any]) -> Stamp | None:
    producer, sequence = annotations.get(PRODUCER), annotations.get(SEQUENCE)
    if not isinstance(producer, str) or not is_whole(sequence) or not 0 <= sequence < 2**64:
        return None
    if not 0 < len(producer) <= MAX_PRODUCER_BYTES:
        return None
    return str(producer), sequence


def read_message_id(encoded: bytes) -> Hashable | None:
    """Return the message id in the properties of an encoded message; None if it has none, or one of a wrong type."""
    at = before = 0
    try:
        while at < len(encoded):
            code, at = read_section(encoded, at, before)
            if code == PROPERTIES:
                values, _ = read_list(encoded, at)
                return values[0] if values and isinstance(values[0], _ID_TYPES) else None
            if code > PROPERTIES:
                break
            before, at = code, skip_value(encoded, at)
    except Malformed:
        pass
    return None


@decodes_around_body
def decode_unstamped(encoded: bytes) -> Message:
    """Return an encoded message as `decode_message` does, without its stamp."""
    message = decode_message(encoded)
    annotations = message.annotations
    if PRODUCER in annotations and isinstance(annotations, dict):  # made for this message alone
        del annotations[PRODUCER]
        annotations.pop(SEQUENCE, None)
    return message


_Key: TypeAlias = tuple[Hashable, ...]  # a stamp, or a message id alone


class OnceStage(Stage[T, Any], Generic[T]):
    """Hands over each message once, however often it comes.

    A message is known by its stamp, or else by its message id; a message without either is not known again. Senders may
    use a message id twice: it counts as known only if its message was handed over before a loss.

    When a message comes again there are three cases:

    - It was accepted: it is dropped, and accepted again.
    - It is still in hand: it gets the outcome of the message in hand.
    - It failed, or was given back: it is handed over as a new one.

    Demand: Passed up; another message is asked for in place of a dropped one.
    """

    __slots__ = (
        "_decode",
        "_hand",
        "_handing",
        "_in_hand",
        "_key",
        "_known",
        "_remembered",
        "losses",
    )

    operator = "effectively once"

    def __init__(
        self, downstream: Subscriber[Any], decode: Callable[[bytes], T], *, remembered: int, losses: Callable[[], int]
    ) -> None:
        """Hand over to `downstream`.

        Args:
            downstream: Gets the items.
            decode: Makes an item of an encoded message.
            remembered: How many of the messages accepted last are known.
            losses: Returns how often the link of the messages was lost.
        """
        super().__init__(downstream)
        self.losses = losses
        self._decode = decode
        self._remembered = remembered
        self._key: _Key | None = None  # of the message to be handed over
        self._handing = False
        self._hand: _Hand | None = None  # the hold of the message that is handed over now
        self._in_hand: dict[_Key, _Hand] = {}
        self._known: dict[_Key, int] = {}  # accepted, and after how many losses; the latest last

    def decode(self, encoded: bytes) -> T:
        """Return the item of the message that comes next."""
        key: _Key | None = read_stamp(encoded)
        if key is None:
            message_id = read_message_id(encoded)
            key = None if message_id is None else (message_id,)
        self._key = key
        return self._decode(encoded)

    def on_next(self, item: T) -> None:
        """Hand the item over, unless it was handed over before."""
        if self._ended:
            return
        key = self._key
        if key is not None:
            before = self._in_hand.get(key)
            if before is not None:
                if self._comes_again(key, before.losses):
                    before.add(self._upstream.hold())
                    self._drop()
                    return
                key = None  # another message with the same id: later the two could not be told apart
            elif key in self._known and self._comes_again(key, self._known[key]):
                self._know(key, self._known[key])
                self._drop()
                return
        self._key = key
        self._handing = True
        try:
            self._downstream.on_next(item)
        except BaseException as error:
            self._handing = False
            hand, self._hand = self._hand, None
            self._ended = True  # 2.13: a subscriber that raises counts as having cancelled
            if hand is not None:
                hand.claims.fail(error)
            raise
        self._handing = False
        hand, self._hand = self._hand, None
        if hand is not None:
            hand.claims.done()
        elif key is not None:
            self._know(key, self.losses())

    def hold(self) -> Hold:
        """Take a hold on the message, which also counts when the message comes again."""
        if not self._handing:
            return self._upstream.hold()
        hand = self._hand
        if hand is None:
            hand = self._hand = _Hand(self, self._key, self._upstream.hold())
            if self._key is not None:
                self._in_hand[self._key] = hand
        return hand.claims.hold()

    def gather(self, *, loose: bool) -> ClaimsInOrder | None:
        """Return claims on the items: a hold on each."""
        return ClaimsInOrder(self.hold, loose=loose)

    def settled(self, key: _Key, losses: int, *, accepted: bool) -> None:
        """Note the outcome of a message that was in hand."""
        del self._in_hand[key]
        if accepted:
            self._know(key, losses)

    def _comes_again(self, key: _Key, losses: int) -> bool:
        return len(key) == 2 or losses != self.losses()

    def _know(self, key: _Key, losses: int) -> None:
        known = self._known
        known.pop(key, None)
        known[key] = losses
        if len(known) > self._remembered:
            del known[next(iter(known))]

    def _drop(self) -> None:
        self._withheld += 1
        self._upstream.request(1)


class _Hand(Settles):
    """A message in hand, however often it has come.

    Attributes:
        claims: The claim on it. When all further claims on it have ended, the message is settled.
        losses: How often the link had been lost when it came first.
    """

    __slots__ = ("_holds", "_is_loose", "_key", "_stage", "claims", "losses")

    def __init__(self, stage: OnceStage[Any], key: _Key | None, hold: Hold) -> None:
        self.claims = Claims(self, 0, (key,))
        self.losses = stage.losses()
        self._holds = [hold]
        self._is_loose = False
        self._stage = stage
        self._key = key

    def add(self, hold: Hold) -> None:
        """Hold also the delivery in which the message has come now."""
        self._holds.append(hold)
        if self._is_loose:
            loosen(hold)

    def settle(self, epoch: int, places: Sequence[Any], how: Ending) -> None:  # noqa: ARG002 - it is one message
        """Settle the delivery that came last. An earlier one is done: it was lost with its link, or stored twice."""
        if self._key is not None:
            self._stage.settled(self._key, self.losses, accepted=how is DONE)
        *repeated, last = self._holds
        for hold in repeated:
            hold.done()
        end(last, how)

    def loosen(self, claims: Claims) -> None:  # noqa: ARG002 - they are on one message
        """Allow the source to settle the message as done."""
        self._is_loose = True
        for hold in self._holds:
            loosen(hold)

    def has_taken(self, places: Sequence[Any]) -> bool:  # noqa: ARG002 - it is one message
        """Return whether the source has settled it."""
        return all(map(is_gone, self._holds))


def require_dedup_window(dedup_window: int | None, window: int) -> int:
    """Return how many accepted messages a consumer remembers.

    Errors: `ConfigError` for less than the window: after a loss all of it may be in doubt.
    """
    if dedup_window is None:
        return max(DEFAULT_REMEMBERED, 2 * window)
    unit = f" messages, not less than the window, which is {window} (option window)"
    return require_count("", "dedup_window", dedup_window, window, unit=unit)
