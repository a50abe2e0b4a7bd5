"""The loops over the engine in Python, for one connection: what those in C do must be the same.

All messages go through the engine here. A delivery is its pointer.
"""

from __future__ import annotations

import struct
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from cproton_ffi import ffi, lib

from rstreams._codec.decode import Malformed, skip_value
from rstreams.message import encode_item
from rstreams.net._proton.loops import IN_TRANSACTION, TOLD_EVENTS, address_of
from rstreams.net._proton.pointers import Delivery, Pointer
from tests.oracles.frame_walk import walk

_put_tag: Final = struct.Struct(">I").pack_into


_read_2u32: Final = struct.Struct(">II").unpack_from
_DISPOSITION: Final = 1 << 5
_TRANSFER: Final = b"\x00\x53\x14"
_UINT, _BOOL, _ANY = {0x40, 0x43, 0x52, 0x70}, {0x40, 0x41, 0x42, 0x56}, set[int]()
_KINDS: Final = (_UINT, _UINT, {0x40, 0xA0, 0xB0}, _UINT, _BOOL, _BOOL, {0x40, 0x50}, _ANY, _BOOL, _BOOL)
"""The constructors of a transfer's fields."""

_NAME: Final = b"amqp:transactional-state:list"
_TRANSACTIONAL: Final = (
    b"\x53\x34",
    b"\x80" + struct.pack(">Q", 0x34),
    b"\xa3" + bytes((len(_NAME),)) + _NAME,
    b"\xb3" + struct.pack(">I", len(_NAME)) + _NAME,
)


def _link(address: int) -> Pointer:
    link: Pointer = ffi.cast("pn_link_t *", address)
    return link


class Arrivals:
    """The messages that come on a link: their formats, and what was read of the first one."""

    def __init__(self, link: Pointer) -> None:
        self.link = link
        self.inside = self.unwanted = False
        self.number: int | None = None
        self.formats: deque[int] = deque()
        self.begun = b""

    def take_in(self) -> bytes:
        """Read what the engine has of the current delivery; return all that was read of it."""
        size = int(lib.pn_delivery_pending(lib.pn_link_current(self.link)))
        room = ffi.new("char[]", size)
        if size and lib.pn_link_recv(self.link, room, size) == size:
            self.begun += ffi.unpack(room, size)
        if self.unwanted or self.formats[0]:
            self.begun = b""
        return self.begun

    def remove(self) -> None:
        self.formats.popleft()
        self.begun, self.unwanted = b"", False

    def read(self, most: int, most_bytes: int) -> tuple[Sequence[Delivery], list[bytes], bool, bool, bool]:
        link, limit = self.link, most_bytes or sys.maxsize
        deliveries: list[Delivery] = []
        messages: list[bytes] = []
        settled = False
        while len(messages) < most and (delivery := lib.pn_link_current(link)):
            if lib.pn_delivery_partial(delivery):
                break
            if lib.pn_delivery_settled(delivery) is not settled:
                if messages:
                    break
                settled = not settled
            if lib.pn_delivery_aborted(delivery):
                lib.pn_delivery_settle(delivery)  # this also advances
                self.remove()
                continue
            if self.formats[0] or len(self.begun) + lib.pn_delivery_pending(delivery) > limit:
                break
            messages.append(self.take_in())
            self.remove()
            deliveries.append(delivery)
            if settled:
                lib.pn_delivery_settle(delivery)  # this also advances
            else:
                lib.pn_link_advance(link)
        starved = not settled and bool(deliveries) and lib.pn_delivery_remote_state(deliveries[-1]) == lib.PN_RECEIVED
        return deliveries, messages, settled, False, starved

    def read_in_parts(self) -> None: ...

    def read_part(self) -> tuple[Delivery, bytes, bool, bool, bool] | None:
        delivery = lib.pn_link_current(self.link)
        if not delivery or self.formats[0]:
            return None
        aborted, settled, more = (
            bool(tell(delivery)) for tell in (lib.pn_delivery_aborted, lib.pn_delivery_settled, lib.pn_delivery_partial)
        )
        part = b"" if aborted else self.take_in()
        self.begun = b""
        if more and not part:
            return None
        if not more:
            self.remove()
            if settled or aborted:
                lib.pn_delivery_settle(delivery)
            else:
                lib.pn_link_advance(self.link)
        return delivery, part, settled, more, aborted

    def current(self) -> tuple[int, int]:
        return (len(self.begun), self.formats[0]) if lib.pn_link_current(self.link) else (0, 0)

    def read_on(self) -> None:
        delivery = lib.pn_link_current(self.link)
        if delivery and not lib.pn_delivery_aborted(delivery):
            self.take_in()

    def close(self) -> None: ...

    def drop(self) -> None:
        self.begun = b""
        self.unwanted = True


class PythonLoops:
    """See `rstreams.net._proton.loops.Loops`, which documents the functions."""

    def __init__(self, transport: Pointer) -> None:
        """Make room for one message and one tag."""
        self._transport = transport
        self._frames = b""  # of the engine, which have not been read
        self._output = b""  # which has not gone out
        self._links: dict[tuple[int, int], Arrivals | None] = {}
        self._passing = 0
        self._next: dict[int, int | None] = {}  # by channel, the delivery-id that is due; None: any
        self._out_of_order = False
        # Another thread may run while the engine copies. Therefore no two connections share these.
        self._room = 16 * 1024
        self._buffer = ffi.new("char[]", self._room)
        self._tag_bytes = ffi.new("char[]", 4)
        self._tag = ffi.new("pn_bytes_t *", {"size": 4, "start": self._tag_bytes})[0]

    def note_events(self, address: int) -> Iterable[tuple[int, int, bool]]:
        collector = ffi.cast("pn_collector_t *", address)
        peek, pop, kind_of, link_of = lib.pn_collector_peek, lib.pn_collector_pop, lib.pn_event_type, lib.pn_event_link
        delivery_event, flow_event = lib.PN_DELIVERY, lib.PN_LINK_FLOW
        deliveries: dict[Pointer, int] = {}
        flows: set[Pointer] = set()
        while event := peek(collector):
            kind = kind_of(event)
            if kind == delivery_event:
                link = link_of(event)
                deliveries[link] = deliveries.get(link, 0) + 1
            elif kind == flow_event:
                link = link_of(event)
                deliveries.setdefault(link, 0)
                flows.add(link)
            elif kind in TOLD_EVENTS:
                break
            pop(collector)
        return [(address_of(link), count, link in flows) for link, count in deliveries.items()]

    def arrivals(self, link: int, _beside: bool) -> Arrivals:  # noqa: FBT001 - as in C
        return Arrivals(_link(link))

    def expect(self, channel: int, handle: int, arrivals: Arrivals | None) -> None:
        self._links[channel, handle] = arrivals

    def begin_session(self, channel: int) -> None:
        self._next[channel] = None

    def is_out_of_order(self) -> bool:
        return self._out_of_order

    def take(self, data: bytes | bytearray | memoryview, at: int, most: int) -> tuple[int, int]:
        """Return only where whole frames begin, and take no part of a transfer."""
        view, size = memoryview(data), len(data)
        self._out_of_order = False
        if self._passing:
            step = min(self._passing, size - at)
            self.feed(view[at : at + step])
            self._passing -= step
            at += step
        while at < size:
            end, told = walk(data, at, _DISPOSITION, most)
            self.feed(view[at:end])
            self._passing = max(0, end - size)
            at = min(end, size)
            frame = bytes(view[at : at + told]) if told > 0 else b""
            begin = 4 * frame[4] if frame else 0
            if len(frame) < told or frame[begin : begin + 3] != _TRANSFER or not self._note(frame, begin + 3):
                return at, told
            self.feed(frame)
            at += told
        return at, 0

    def _note(self, frame: bytes, at: int) -> bool:
        """Note the message-format of a transfer; tell whether its fields can be read."""
        kinds, values = [], []
        try:
            if frame[at] not in (0xC0, 0xD0):
                return False
            wide = frame[at] == 0xD0
            list_size, count = _read_2u32(frame, at + 1) if wide else (frame[at + 1], frame[at + 2])
            end = at + (5 if wide else 2) + list_size
            at += 9 if wide else 3
            for _ in range(min(count, len(_KINDS))):
                kinds.append(frame[at])
                start, at = at, skip_value(frame, at)
                values.append(frame[start + 1 : at])
        except Malformed:
            return False
        if (
            at > end
            or end > len(frame)
            or not all(kind in known for kind, known in zip(kinds, _KINDS, strict=False) if known)
        ):
            return False
        if not kinds or kinds[0] == 0x40:
            return False
        numbers = [int.from_bytes(value, "big") for value in values] + [0] * len(_KINDS)
        on = [kind == 0x41 or (kind == 0x56 and number > 0) for kind, number in zip(kinds, numbers, strict=False)]
        on += [False] * len(_KINDS)
        channel = int.from_bytes(frame[6:8], "big")
        arrivals = self._links.get((channel, numbers[0]))
        number = numbers[1] if len(kinds) > 1 and kinds[1] != 0x40 else None
        if arrivals is None or not self._is_in_order(arrivals, channel, number):
            return False
        if not arrivals.inside:
            in_transaction = len(kinds) > 7 and any(map(values[7].startswith, _TRANSACTIONAL))
            arrivals.formats.append(IN_TRANSACTION if in_transaction and not kinds[7] else numbers[3])
        arrivals.inside = on[5] and not on[9]
        return True

    def _is_in_order(self, arrivals: Arrivals, channel: int, number: int | None) -> bool:
        """Tell whether a transfer has the delivery-id that is due, and count it if so."""
        due = arrivals.number if arrivals.inside else self._next[channel]
        if number is None and due is None:
            self._out_of_order = True
        elif number is not None and due is not None:
            self._out_of_order = number != due
        if not arrivals.inside and not self._out_of_order:
            arrivals.number = due if number is None else number
            assert arrivals.number is not None
            self._next[channel] = (arrivals.number + 1) & 0xFFFFFFFF
        return not self._out_of_order

    def rooms(self) -> Sequence[memoryview]:
        return ()

    def take_rooms(self, came: int) -> bytes:
        raise AssertionError(came)

    def end_frames(self) -> None: ...

    def send(
        self,
        address: int,
        numbers: Sequence[Any],
        messages: Sequence[bytes],
        settled: bool,  # noqa: FBT001 - as in C
        are_bodies: bool,  # noqa: FBT001 - as in C
        _most: int,  # all go through the engine
    ) -> Sequence[Delivery]:
        link = _link(address)
        new, send, advance, settle = lib.pn_delivery, lib.pn_link_send, lib.pn_link_advance, lib.pn_delivery_settle
        tag, raw_tag = self._tag, ffi.buffer(self._tag_bytes)
        sent: list[Delivery] = []
        for number, message in zip(numbers, map(encode_item, messages) if are_bodies else messages, strict=True):
            _put_tag(raw_tag, 0, number & 0xFFFFFFFF)
            delivery = new(link, tag)
            send(link, message, len(message))
            advance(link)
            sent.append(delivery)
            if settled:
                settle(delivery)
        return sent

    def waiting(self, _session: int) -> int:  # all go through the engine
        return 0

    def forget(self, _owner: int) -> None: ...

    def begin(self, link: int, number: Any) -> Sequence[Delivery]:  # noqa: ANN401 - a number
        _put_tag(ffi.buffer(self._tag_bytes), 0, number & 0xFFFFFFFF)
        return [lib.pn_delivery(_link(link), self._tag)]

    def send_part(  # noqa: PLR0917 - as in C
        self,
        address: int,
        part: bytes,
        at: int,
        is_body: bool,  # noqa: FBT001 - as in C
        more: bool,  # noqa: FBT001 - as in C
        settled: bool,  # noqa: FBT001 - as in C
        most: int,
        room: int,
    ) -> int:
        assert at == 0 < min(most, room)
        link = _link(address)
        delivery = lib.pn_link_current(link)
        encoded = encode_item(part) if is_body else part
        lib.pn_link_send(link, encoded, len(encoded))
        if not more:
            lib.pn_link_advance(link)
            if settled:
                lib.pn_delivery_settle(delivery)
        return -1

    def part_bytes(self) -> int:
        return 0

    def settle(self, deliveries: Sequence[Delivery], state: int) -> None:
        update, settle = lib.pn_delivery_update, lib.pn_delivery_settle
        for delivery in deliveries:
            update(delivery, state)
            settle(delivery)

    def settle_accepted(self, deliveries: Sequence[Delivery]) -> int:
        state_of, settle, accepted = lib.pn_delivery_remote_state, lib.pn_delivery_settle, lib.PN_ACCEPTED
        settled_of, update = lib.pn_delivery_settled, lib.pn_delivery_update
        for at, delivery in enumerate(deliveries):
            if state_of(delivery) != accepted:
                return at
            if not settled_of(delivery):
                update(delivery, accepted)  # a receiver that settles second hears its outcome again
            settle(delivery)
        return len(deliveries)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        view, at = ffi.from_buffer(data), 0
        while at < len(data):
            capacity = lib.pn_transport_capacity(self._transport)
            if capacity <= 0:
                return
            taken = lib.pn_transport_push(self._transport, view + at, min(capacity, len(data) - at))
            if taken <= 0:
                return
            at += taken

    def output(
        self, room: memoryview, _enough: int, told: int, on_frame: Callable[[bytes], bytes | None]
    ) -> tuple[list[memoryview], int, bool]:
        while len(self._output) < len(room) and (size := lib.pn_transport_pending(self._transport)) > 0:
            room_of_engine = ffi.new("char[]", size)
            lib.pn_transport_peek(self._transport, room_of_engine, size)
            lib.pn_transport_pop(self._transport, size)
            self._frames += ffi.unpack(room_of_engine, size)
            while len(frames := self._frames) >= 8:
                whole = 8 if frames.startswith(b"AMQP") else int.from_bytes(frames[:4])
                if len(frames) < whole:
                    break
                frame, self._frames = frames[:whole], frames[whole:]
                is_told = whole > 10 and frame[4:6] == b"\x02\0" and told >> (frame[10] - 0x10) & 1
                self._output += (on_frame(frame) if is_told else None) or frame
        size = min(len(room), len(self._output))
        room[:size] = self._output[:size]
        self._output = self._output[size:]
        return [room[:size]] if size else [], size, size == len(room)
