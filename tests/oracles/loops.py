"""The loops over the engine in Python, for one connection: what those in C do must be the same.

All messages go through the engine here. A delivery is its pointer.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from cproton_ffi import ffi, lib

from rstreams.message import encode_item
from rstreams.net._proton.loops import TOLD_EVENTS, begin
from rstreams.net._proton.pointers import Delivery, Pointer
from tests.oracles.frame_walk import walk

_put_tag: Final = struct.Struct(">I").pack_into


_uncleared: Final = ffi.new_allocator(should_clear_after_alloc=False)


class PythonLoops:
    """See `rstreams.net._proton.loops.Loops`, which documents the functions."""

    def __init__(self) -> None:
        """Make room for one message and one tag."""
        # Another thread may run while the engine copies. Therefore no two connections share these.
        self._room = 16 * 1024
        self._buffer = ffi.new("char[]", self._room)
        self._tag_bytes = ffi.new("char[]", 4)
        self._tag = ffi.new("pn_bytes_t *", {"size": 4, "start": self._tag_bytes})[0]

    def note_events(self, collector: Pointer) -> Iterable[tuple[Pointer, int, bool]]:
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
        return [(link, count, link in flows) for link, count in deliveries.items()]

    def read(self, link: Pointer, most: int, most_bytes: int) -> tuple[Sequence[Delivery], list[bytes], bool]:
        current, partial, settled_of = lib.pn_link_current, lib.pn_delivery_partial, lib.pn_delivery_settled
        pending, aborted, settle = lib.pn_delivery_pending, lib.pn_delivery_aborted, lib.pn_delivery_settle
        recv, advance = lib.pn_link_recv, lib.pn_link_advance
        unpack, buffer, room = ffi.unpack, self._buffer, self._room
        limit = most_bytes or sys.maxsize
        deliveries: list[Delivery] = []
        messages: list[bytes] = []
        settled = False
        while len(messages) < most:
            delivery = current(link)
            if not delivery or partial(delivery):
                break
            if settled_of(delivery) is not settled:
                if messages:
                    break
                settled = not settled
            size = pending(delivery)
            if size > limit and not aborted(delivery):
                break
            into = buffer if size <= room else _uncleared("char[]", size)
            if size and recv(link, into, size) == size:
                messages.append(unpack(into, size))
            elif aborted(delivery):
                settle(delivery)  # this also advances
                continue
            else:
                messages.append(b"")
            if settled:
                settle(delivery)  # this also advances
            else:
                advance(link)
            deliveries.append(delivery)
        return deliveries, messages, settled

    def send(
        self,
        link: Pointer,
        numbers: Sequence[Any],
        messages: Sequence[bytes],
        *,
        settled: bool,
        are_bodies: bool = False,
        most_beside: int = 0,  # noqa: ARG002 - all go through the engine
    ) -> Sequence[Delivery]:
        new, send, advance, settle = lib.pn_delivery, lib.pn_link_send, lib.pn_link_advance, lib.pn_delivery_settle
        tag, raw_tag = self._tag, ffi.buffer(self._tag_bytes)
        sent: list[Delivery] = []
        for number, message in zip(numbers, map(encode_item, messages) if are_bodies else messages, strict=True):
            _put_tag(raw_tag, 0, number & 0xFFFFFFFF)
            delivery = new(link, tag)
            send(link, message, len(message))
            advance(link)
            if settled:
                settle(delivery)
            else:
                sent.append(delivery)
        return sent

    def waiting(self, session: Pointer) -> int:  # noqa: ARG002 - all go through the engine
        return 0

    def forget(self, link: Pointer) -> None: ...

    def begin(self, link: Pointer, number: Any) -> Sequence[Delivery]:  # noqa: ANN401 - a number
        return [begin(link, number)]

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

    def feed(self, transport: Pointer, data: bytes | bytearray | memoryview) -> None:
        view, at = ffi.from_buffer(data), 0
        while at < len(data):
            capacity = lib.pn_transport_capacity(transport)
            if capacity <= 0:
                return
            taken = lib.pn_transport_push(transport, view + at, min(capacity, len(data) - at))
            if taken <= 0:
                return
            at += taken

    def expect(self, channel: int, handle: int, link: Pointer, most: int) -> None: ...

    def expect_no_more(self, channel: int, handle: int) -> None: ...

    feed_frames = feed

    def end_frames(self, transport: Pointer) -> None: ...

    def message_of(self, part: bytes) -> bytes:
        return part

    def memory(self, size: int) -> bytes:
        return bytes(size)

    def output(self, transport: Pointer, buffer: bytearray | memoryview) -> int:
        view, total = ffi.from_buffer(buffer), 0
        while total < len(buffer) and (pending := lib.pn_transport_pending(transport)) > 0:
            size = min(pending, len(buffer) - total)
            lib.pn_transport_peek(transport, view + total, size)
            lib.pn_transport_pop(transport, size)
            total += size
        return total

    def walk(
        self, data: bytes | bytearray | memoryview, at: int, passing: int, most: int, large: int = 0
    ) -> tuple[int, int]:
        return walk(data, at, passing, most, large)
