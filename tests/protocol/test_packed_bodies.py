"""Packs of bytes, which are put together and taken apart all at once: it must show in nothing but speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rstreams import Stream
from rstreams.errors import ConnectionLost
from rstreams.message import ByteStream, Message, decode_body, encode_item
from rstreams.protocol.delivery import ACCEPTED, END, FailureStrategy, reject
from rstreams.protocol.frames import Attach, Detach, Disposition, Flow, Lost, Role, Transfer
from rstreams.protocol.options import ReceivingOptions, SendingOptions
from rstreams.protocol.packing import (
    MAX_PACK_BYTES,
    PACK_ITEMS,
    decode_pack,
    encode_bodies,
    encode_pack,
    most_pack_bytes,
)
from rstreams.protocol.receiver import LinkSubscription
from rstreams.protocol.sender import LinkSubscriber
from rstreams.sinks.for_each_sink import ForEachSink
from rstreams.sinks.list_sink import ListSink
from tests.protocol.played import PlayedDriver

PACK = 4

bodies = st.one_of(st.binary(max_size=9), st.sampled_from([b"x" * size for size in (255, 256, 300)]))
items = st.one_of(bodies, bodies, st.integers(-9, 9), st.text(max_size=3), st.builds(Message, bodies))


def test_a_pack_of_bodies_is_the_pack_of_their_messages() -> None:
    some = [b"", b"x" * 255, b"x" * 256]
    assert encode_bodies(some) == encode_pack([encode_item(body) for body in some])


@given(st.lists(items, max_size=9))
def test_the_bodies_of_a_pack_are_those_of_its_messages_if_all_are_bytes(some: list[object]) -> None:
    packed = decode_pack(encode_pack([encode_item(item) for item in some]))
    assert packed is not None
    contents = [item.body if isinstance(item, Message) else item for item in some]
    assert packed.bodies() == (contents if all(isinstance(item, bytes) for item in contents) else None)
    assert [decode_body(payload) for payload in packed] == contents


# the sender


def encode_by_itself(item: object) -> bytes:
    """Encode as `encode_item`: a sender does not know that, and encodes items before it packs them."""
    return encode_item(item)


class Sending:
    """A sender of packs whose peer is the test."""

    def __init__(
        self, items: Sequence[object], *, encodes_body: bool, most_bytes: int = 0, linger_s: float = 0
    ) -> None:
        self.finished: list[BaseException | None] = []
        options = SendingOptions(
            encode=encode_item if encodes_body else encode_by_itself,
            settle_before_detach=True,
            expose_errors=True,
            pack_items=PACK,
            linger_s=linger_s,
            open_body=lambda body: Stream.from_iterable(body.chunks),
        )
        self.end = LinkSubscriber[Any](Stream.from_iterable(iter(items)), options, self.finished.append)
        self.driver = PlayedDriver()
        self.attach(most_bytes)

    def attach(self, most_bytes: int = 0, pack_items: int = PACK) -> None:
        self.driver.link = self.end.bind("test", self.driver)
        self.driver.link.send(Attach("test", Role.SENDER, "", "a", properties=self.end.properties()))
        agreed = {PACK_ITEMS: pack_items} if pack_items > 1 else {}
        self.driver.receive(Attach("test", Role.RECEIVER, "", "a", properties=agreed, max_message_bytes=most_bytes))

    def grant(self, credit: int) -> None:
        self.driver.wire += credit
        self.driver.receive(Flow(self.driver.wire))

    @property
    def sent(self) -> list[list[bytes]]:
        """The messages of each run."""
        return [list(frame.encoded().payloads) for frame in self.driver.sent if isinstance(frame, Transfer)]


@given(
    some=st.lists(items, max_size=40),
    grants=st.lists(st.integers(1, 5), min_size=1, max_size=9),
    linger_s=st.sampled_from([0.0, 0.5]),
)
def test_what_is_sent_is_what_would_be_if_each_item_were_encoded_by_itself(
    some: list[object], grants: list[int], linger_s: float
) -> None:
    observed = []
    for encodes_body in (True, False):
        sending = Sending(some, encodes_body=encodes_body, linger_s=linger_s)
        for credit in grants:
            sending.grant(credit)
            for _, go_on in sending.driver.calls:
                go_on()
            sending.driver.calls.clear()
            sending.driver.turn()
        ledger = sending.end.ledger
        observed.append((sending.driver.sent, sending.end.unsettled, ledger.owed, ledger.held))
    assert observed[0] == observed[1]


@given(some=st.lists(items, max_size=40), most_bytes=st.integers(50, 700), encodes_body=st.booleans())
def test_no_message_is_larger_than_the_receiver_takes(
    some: list[object], most_bytes: int, *, encodes_body: bool
) -> None:
    sending = Sending(some, encodes_body=encodes_body, most_bytes=most_bytes)
    sending.grant(99)
    messages = [message for run in sending.sent for message in run]
    packs = [decode_pack(message) or [message] for message in messages]
    encoded = [encode_item(item) for item in some]
    fitting = list(takewhile(lambda message: len(message) <= most_bytes, encoded))
    assert [payload for pack in packs for payload in pack] == fitting
    assert all(len(message) <= most_bytes for message in messages)
    assert sending.end.ledger.held == 0


TWO_BYTES = most_pack_bytes([b"a", b"b"])  # in a message of so many bytes there are two of them, at most


def test_bytes_wait_as_they_are_and_are_encoded_when_the_next_link_takes_no_packs() -> None:
    sending = Sending([b"a", b"b", b"c", b"d", b"e"], encodes_body=True, most_bytes=TWO_BYTES)
    sending.grant(1)
    assert sending.sent == [[encode_bodies([b"a", b"b"])]]
    assert sending.end._items.payloads == [b"c", b"d"]
    sending.driver.receive(Disposition([0], ACCEPTED))
    assert sending.driver.link is not None
    sending.driver.link.lose(Lost(ConnectionLost("gone"), returns=True))
    sending.attach(pack_items=1)
    sending.grant(3)
    assert sending.sent[1:] == [[encode_item(b"c"), encode_item(b"d")], [encode_item(b"e")]]


@pytest.mark.parametrize("other", [b"x" * (MAX_PACK_BYTES + 1), 5])
def test_a_large_item_or_one_that_is_no_bytes_is_encoded_with_all_that_waits(other: object) -> None:
    sending = Sending([b"a", b"b", b"c", b"d", other, b"e", b"f"], encodes_body=True, most_bytes=TWO_BYTES)
    for _ in range(5):
        sending.grant(1)
    pack, *others = [message for run in sending.sent for message in run]
    assert pack == encode_bodies([b"a", b"b"])
    assert sending.end._items.payloads == []
    packs = [decode_pack(message) or [message] for message in others]
    assert [payload for pack in packs for payload in pack] == [
        encode_item(item)
        for item in (b"c", b"d", *((other, b"e", b"f") if other == 5 else ()))  # or nobody takes it
    ]


def test_a_streamed_message_goes_behind_the_bytes_before_it() -> None:
    chunks = [b"one", b"two"]
    sending = Sending([b"a", b"b", Message(ByteStream(chunks)), b"c"], encodes_body=True)
    sending.grant(9)
    pack, head, *_ = [message for run in sending.sent for message in run]
    assert pack == encode_bodies([b"a", b"b"])
    assert head == encode_item(Message(b""))
    assert sending.sent[-1] == [encode_item(b"c")]


def test_an_item_that_cannot_be_encoded_ends_the_stream_behind_the_bytes_before_it() -> None:
    sending = Sending([b"a", b"b", object(), b"c"], encodes_body=True)
    sending.grant(9)
    assert sending.sent == [[encode_bodies([b"a", b"b"])]]
    sending.driver.receive(Disposition([0], reject(ValueError())))
    (detach,) = [frame for frame in sending.driver.sent if isinstance(frame, Detach)]
    assert "object" in detach.description


# the receiver


def decode_by_itself(message: bytes) -> object:
    """Decode as `decode_body`: a receiver does not know that, and takes packs apart."""
    return decode_body(message)


class Receiving:
    """A receiver of packs whose peer is the test."""

    def __init__(
        self,
        sink: ListSink[Any] | ForEachSink[Any],
        *,
        decode: Callable[[bytes], Any] = decode_body,
        on_failure: FailureStrategy = END,
        window_bytes: int = 0,
    ) -> None:
        self.raised: list[BaseException] = []
        self.end = LinkSubscription(
            sink,
            ReceivingOptions(
                decode=decode,
                window=64,
                on_failure=on_failure,
                pack_items=PACK,
                window_bytes=window_bytes,
            ),
            self.raised.append,
        )
        self.driver = PlayedDriver()
        self.driver.link = self.end.bind("test", self.driver)
        self.driver.link.send(Attach("test", Role.RECEIVER, "a", "", properties=self.end.properties()))
        self.driver.receive(Attach("test", Role.SENDER, "a", "", properties={PACK_ITEMS: PACK}))

    def observed(self) -> tuple[object, ...]:
        ledger = self.end.ledger
        counts = (ledger.demand, ledger.buffered, ledger.unsettled, self.end.counts().delivered)
        return self.driver.sent, counts, [str(error) for error in self.raised]


class Script:
    """What the function of a `for_each` does: with some items it raises, with others it ends the stream."""

    def __init__(self, raise_at: int | None, cancel_at: int | None) -> None:
        self.seen: list[object] = []
        self.sink: ForEachSink[Any] = ForEachSink(never_mind, self)
        self._raise_at = raise_at
        self._cancel_at = cancel_at

    def __call__(self, item: object) -> None:
        self.seen.append(item)
        if len(self.seen) == self._cancel_at:
            self.sink.cancel()
        if len(self.seen) == self._raise_at:
            raise ValueError(len(self.seen))


def never_mind() -> None:
    """Hear of a change."""


@given(
    packs=st.lists(st.lists(items, min_size=1, max_size=PACK), min_size=1, max_size=6),
    requests=st.lists(st.integers(1, 7), max_size=9),
    settled=st.booleans(),
    raise_at=st.one_of(st.none(), st.integers(1, 20)),
    cancel_at=st.one_of(st.none(), st.integers(1, 20)),
)
def test_what_is_received_is_what_would_be_if_each_item_were_decoded_by_itself(
    packs: list[list[object]], requests: list[int], raise_at: int | None, cancel_at: int | None, *, settled: bool
) -> None:
    messages = [encode_pack([encode_item(item) for item in pack]) for pack in packs]
    observed = []
    for decode in (decode_body, decode_by_itself):
        script = Script(raise_at, cancel_at)
        receiving = Receiving(script.sink, decode=decode)
        script.sink.request(2)
        receiving.driver.turn()
        for tag, message in enumerate(messages):
            if script.sink.ended:
                break
            receiving.driver.receive(Transfer([tag], [message], settled))
        for n in requests:
            if not script.sink.ended:
                script.sink.request(n)
                receiving.driver.turn()
        observed.append((script.seen, repr(script.sink.error), script.sink.ended, *receiving.observed()))
    assert observed[0] == observed[1]


@pytest.mark.parametrize("decode", [decode_body, decode_by_itself])
def test_a_strategy_that_forwards_gets_each_item_as_it_came(decode: Callable[[bytes], Any]) -> None:
    forwarded: list[bytes] = []

    def forward(payload: bytes, _error: BaseException, hold: Any) -> None:  # noqa: ANN401 - it has more than a Hold
        forwarded.append(payload)
        hold.done()

    def refuse(item: bytes) -> None:
        if item == b"bad":
            raise ValueError

    sink = ForEachSink[Any](never_mind, refuse)
    receiving = Receiving(sink, decode=decode, on_failure=FailureStrategy(reject, forward=forward))
    sink.request(9)
    receiving.driver.turn()
    receiving.driver.receive(Transfer([0], [encode_bodies([b"good", b"bad", b"good"])]))
    assert forwarded == [encode_item(b"bad")]


@pytest.mark.parametrize("decode", [decode_body, decode_by_itself])
def test_the_bytes_of_a_pack_leave_a_bound_in_bytes(decode: Callable[[bytes], Any]) -> None:
    sink = ListSink[Any](never_mind)
    receiving = Receiving(sink, decode=decode, window_bytes=1000)
    sink.request(9)
    receiving.driver.turn()
    receiving.driver.receive(Transfer([0], [encode_bodies([b"x" * 100] * 3)]))
    assert sink.items == [b"x" * 100] * 3
    bound = receiving.end.ledger.bound
    assert bound is not None
    assert bound.on_hand > 300, "the list is not returned yet"
    sink.settle()
    receiving.driver.turn()
    assert bound.on_hand == 0


def test_a_decoder_of_the_users_gets_each_item() -> None:
    sink = ListSink[Any](never_mind)
    receiving = Receiving(sink, decode=len)
    sink.request(9)
    receiving.driver.turn()
    receiving.driver.receive(Transfer([0], [encode_bodies([b"x" * 10, b"x" * 300])]))
    assert sink.items == [15, 308]
