"""The loops over the engine that run once for each message, with many messages a call, in C or in Python.

The loops in C are used where the extension was built; `RSTREAMS_PURE=1` in the environment chooses Python. Both take
cffi's pointers for links, transports and collectors. Each names deliveries in its own way; `as_delivery` turns such a
name into a pointer.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, Protocol

from cproton_ffi import ffi, lib

from rstreams import _machine
from rstreams.message import encode_item
from rstreams.net._proton.frame_walk import walk, walk_in_python
from rstreams.net._proton.pointers import Delivery, Pointer

_log: Final = logging.getLogger("rstreams.net")
_INTERFACE: Final = 8  # of `_loops.c`
_UINTPTR: Final = ffi.typeof("uintptr_t")
_put_tag: Final = struct.Struct(">I").pack_into
_pack_tag: Final = struct.Struct(">I").pack
_pack_address: Final = struct.Struct("P").pack


TOLD_EVENTS: Final = (
    lib.PN_CONNECTION_REMOTE_OPEN,
    lib.PN_CONNECTION_REMOTE_CLOSE,
    lib.PN_TRANSPORT_ERROR,
    lib.PN_SESSION_REMOTE_OPEN,
    lib.PN_SESSION_REMOTE_CLOSE,
    lib.PN_LINK_REMOTE_OPEN,
    lib.PN_LINK_REMOTE_CLOSE,
    lib.PN_LINK_REMOTE_DETACH,
)
"""The kinds of events that this package reads, besides those of deliveries and flow; the engine has more."""


class Loops(Protocol):
    """The work that is done once for each message.

    Attributes:
        language: "C" or "Python".
    """

    language: str

    def note_events(self, collector: Pointer) -> Iterable[tuple[Pointer, int, bool]]:
        """Take events up to the first of `TOLD_EVENTS`, and return those of deliveries and flow.

        Returns:
            For each link, how many of its deliveries have news, and whether its flow has; a link may come repeatedly.
        """
        ...

    def read(self, link: Pointer, most: int, most_bytes: int) -> tuple[Sequence[Delivery], list[bytes], bool]:
        """Take whole deliveries, all settled or all not.

        Args:
            link: The link.
            most: How many at most.
            most_bytes: The largest message to take; 0 for no limit. A larger one stays, and all behind it.

        Returns:
            The deliveries, their messages, and whether they are settled.
        """
        ...

    def send(
        self,
        link: Pointer,
        numbers: Sequence[Any],
        messages: Sequence[bytes],
        *,
        settled: bool,
        are_bodies: bool = False,
        most_beside: int = 0,
    ) -> Sequence[Delivery]:
        """Send messages tagged with the low 32 bits of their numbers.

        Args:
            link: The link.
            numbers: A number for each message.
            messages: The encoded messages.
            settled: Whether they are sent settled.
            are_bodies: Whether each of `messages` is not encoded: it is the body of a message.
            most_beside: The largest message that may go beside the engine: its frame must not be too large for the
                peer. The loops may send all of them through the engine.

        Returns: The deliveries, unless settled.
        """
        ...

    def waiting(self, session: Pointer) -> int:
        """Return how many bytes of messages wait beside the engine in a session."""
        ...

    def forget(self, link: Pointer) -> None:
        """Forget messages of a link that is gone; those that are in the output already go out.

        Those that came beside the engine and were not read are forgotten, too.
        """
        ...

    def begin(self, link: Pointer, number: Any) -> Sequence[Delivery]:  # noqa: ANN401 - as those of `send`
        """Begin a message tagged with the low 32 bits of its number, to be sent in parts; return its delivery."""
        ...

    def settle(self, deliveries: Sequence[Delivery], state: int) -> None:
        """Give each delivery the outcome `state`, and settle it."""
        ...

    def settle_accepted(self, deliveries: Sequence[Delivery]) -> int:
        """Settle the first deliveries that the peer has accepted, up to one that it has not; return how many.

        Args:
            deliveries: The sequence that `send` returned, or a slice of it.
        """
        ...

    def feed(self, transport: Pointer, data: bytes | bytearray | memoryview) -> None:
        """Give the engine the bytes of the peer; it takes none when it has failed."""
        ...

    def expect(self, channel: int, handle: int, link: Pointer, most: int) -> None:
        """Let messages come beside the engine on a link that the peer has attached, in a session without a window.

        Args:
            channel: The peer's channel.
            handle: The peer's handle.
            link: The link.
            most: The largest message in bytes.
        """
        ...

    def expect_no_more(self, channel: int, handle: int) -> None:
        """Let no further message come beside the engine on a link, if some did."""
        ...

    def feed_frames(self, transport: Pointer, data: bytes | bytearray | memoryview) -> None:
        """Give the engine the frames of the peer, with placeholders for messages that come beside it."""
        ...

    def end_frames(self, transport: Pointer) -> None:
        """Give the engine what `feed_frames` has kept of an incomplete frame, because nothing more comes."""
        ...

    def message_of(self, part: bytes) -> bytes:
        """Return the message that the bytes of a whole delivery stand for: themselves, unless it came beside."""
        ...

    def memory(self, size: int) -> bytes:
        """Return bytes that are to be overwritten before anybody sees them; they have any values."""
        ...

    def output(self, transport: Pointer, buffer: bytearray | memoryview) -> int:
        """Take the engine's bytes for the peer, as far as there is room; return how many."""
        ...

    def walk(
        self, data: bytes | bytearray | memoryview, at: int, passing: int, most: int, large: int = 0
    ) -> tuple[int, int]:
        """Walk over frames: see `frame_walk`."""
        ...


def as_delivery(delivery: Delivery) -> Pointer:
    """Return the engine's pointer for a delivery."""
    pointer: Pointer = ffi.cast("pn_delivery_t *", delivery)
    return pointer


class PythonLoops:
    """The loops in Python, for one connection: a delivery is its pointer."""

    language = "Python"

    def __init__(self) -> None:
        """Make room for one message and one tag."""
        # Another thread may run while the engine copies. Therefore no two connections share these.
        self._room = 16 * 1024
        self._buffer = ffi.new("char[]", self._room)
        self._tag_bytes = ffi.new("char[]", 4)
        self._tag = ffi.new("pn_bytes_t *", {"size": 4, "start": self._tag_bytes})[0]

    def note_events(self, collector: Pointer) -> Iterable[tuple[Pointer, int, bool]]:
        """See `Loops`."""
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
        """See `Loops`."""
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
        most_beside: int = 0,  # noqa: ARG002 - all messages go through the engine
    ) -> Sequence[Delivery]:
        """See `Loops`."""
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

    def waiting(self, session: Pointer) -> int:  # noqa: ARG002 - all messages go through the engine
        """See `Loops`."""
        return 0

    def forget(self, link: Pointer) -> None:
        """See `Loops`."""

    def begin(self, link: Pointer, number: Any) -> Sequence[Delivery]:  # noqa: ANN401 - as those of `send`
        """See `Loops`."""
        return [_begin(link, number)]

    def settle(self, deliveries: Sequence[Delivery], state: int) -> None:
        """See `Loops`."""
        update, settle = lib.pn_delivery_update, lib.pn_delivery_settle
        for delivery in deliveries:
            update(delivery, state)
            settle(delivery)

    def settle_accepted(self, deliveries: Sequence[Delivery]) -> int:
        """See `Loops`."""
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
        """See `Loops`."""
        view, at = ffi.from_buffer(data), 0
        while at < len(data):
            capacity = lib.pn_transport_capacity(transport)
            if capacity <= 0:
                return
            taken = lib.pn_transport_push(transport, view + at, min(capacity, len(data) - at))
            if taken <= 0:
                return
            at += taken

    def expect(self, channel: int, handle: int, link: Pointer, most: int) -> None:
        """See `Loops`: all messages come through the engine."""

    def expect_no_more(self, channel: int, handle: int) -> None:
        """See `Loops`."""

    feed_frames = feed

    def end_frames(self, transport: Pointer) -> None:
        """See `Loops`."""

    def message_of(self, part: bytes) -> bytes:
        """See `Loops`."""
        return part

    def memory(self, size: int) -> bytes:
        """See `Loops`."""
        return bytes(size)

    def output(self, transport: Pointer, buffer: bytearray | memoryview) -> int:
        """See `Loops`."""
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
        """See `Loops`."""
        return walk_in_python(data, at, passing, most, large)


_uncleared: Final = ffi.new_allocator(should_clear_after_alloc=False)


def _begin(link: Pointer, number: Any) -> Pointer:  # noqa: ANN401 - a number
    tag = ffi.new("char[]", _pack_tag(number & 0xFFFFFFFF))
    delivery: Pointer = lib.pn_delivery(link, ffi.new("pn_bytes_t *", {"size": 4, "start": tag})[0])  # copies the tag
    return delivery


class CompiledLoops:
    """The loops in C, for one connection: a delivery is its address.

    A message that fits into one frame may go and come beside the engine, which then has a placeholder for it: see
    `_beside.h` and `_arriving.h`.
    """

    language = "C"

    def __init__(self) -> None:
        """Have no messages beside the engine."""
        self._beside = _compiled.new_beside(_machine.fresh_bytes(8))

    def note_events(self, collector: Pointer) -> Iterable[tuple[Pointer, int, bool]]:
        """See `Loops`."""
        noted = _compiled.note_events(_address(collector))
        return noted and [(ffi.cast("pn_link_t *", link), deliveries, flow) for link, deliveries, flow in noted]

    def read(self, link: Pointer, most: int, most_bytes: int) -> tuple[Sequence[Delivery], list[bytes], bool]:
        """See `Loops`."""
        deliveries, messages, settled = _compiled.read(self._beside, _address(link), most, most_bytes)
        return memoryview(deliveries).cast("P"), messages, settled

    def send(
        self,
        link: Pointer,
        numbers: Sequence[Any],
        messages: Sequence[bytes],
        *,
        settled: bool,
        are_bodies: bool = False,
        most_beside: int = 0,
    ) -> Sequence[Delivery]:
        """See `Loops`."""
        sent = _compiled.send(self._beside, _address(link), numbers, messages, settled, are_bodies, most_beside)
        return memoryview(sent).cast("P")

    def waiting(self, session: Pointer) -> int:
        """See `Loops`."""
        return int(_compiled.waiting(self._beside, _address(session)))

    def forget(self, link: Pointer) -> None:
        """See `Loops`."""
        _compiled.forget(self._beside, _address(link))

    def begin(self, link: Pointer, number: Any) -> Sequence[Delivery]:  # noqa: ANN401 - as those of `send`
        """See `Loops`."""
        return memoryview(_pack_address(_address(_begin(link, number)))).cast("P")

    def settle(self, deliveries: Sequence[Delivery], state: int) -> None:
        """See `Loops`."""
        _compiled.settle(deliveries, state)

    def settle_accepted(self, deliveries: Sequence[Delivery]) -> int:
        """See `Loops`."""
        return int(_compiled.settle_accepted(deliveries))

    def feed(self, transport: Pointer, data: bytes | bytearray | memoryview) -> None:
        """See `Loops`."""
        _compiled.feed(_address(transport), data)

    def expect(self, channel: int, handle: int, link: Pointer, most: int) -> None:
        """See `Loops`."""
        _compiled.expect(self._beside, channel, handle, _address(link), most)

    def expect_no_more(self, channel: int, handle: int) -> None:
        """See `Loops`."""
        _compiled.expect(self._beside, channel, handle, None, 0)

    def feed_frames(self, transport: Pointer, data: bytes | bytearray | memoryview) -> None:
        """See `Loops`."""
        _compiled.feed_frames(self._beside, _address(transport), data)

    def end_frames(self, transport: Pointer) -> None:
        """See `Loops`."""
        _compiled.end_frames(self._beside, _address(transport))

    def message_of(self, part: bytes) -> bytes:
        """See `Loops`."""
        message: bytes = _compiled.message_of(self._beside, part)
        return message

    def memory(self, size: int) -> bytes:
        """See `Loops`."""
        memory: bytes = _compiled.memory(size)
        return memory

    def output(self, transport: Pointer, buffer: bytearray | memoryview) -> int:
        """See `Loops`."""
        return int(_compiled.output(self._beside, _address(transport), buffer))

    def walk(
        self, data: bytes | bytearray | memoryview, at: int, passing: int, most: int, large: int = 0
    ) -> tuple[int, int]:
        """See `Loops`."""
        return walk(data, at, passing, most, large)


@lru_cache(maxsize=1024)  # the same few again and again
def _address(pointer: Pointer) -> int:
    return int(ffi.cast(_UINTPTR, pointer))


def _load() -> Any:  # noqa: ANN401 - a module without types
    """Return the compiled module, bound to the engine; None if it is missing, of another version, or not wanted."""
    if os.environ.get("RSTREAMS_PURE") == "1":
        return None
    try:
        compiled = import_module("rstreams.net._proton._loops")
        if getattr(compiled, "INTERFACE", None) != _INTERFACE:
            _log.warning("the loops over the engine in C are of another version of rstreams, and are not used")
            return None
        functions = [(ffi.addressof(lib, name), declared) for name, declared in compiled.FUNCTIONS]
    except (ImportError, AttributeError) as error:
        _log.debug("the loops over the engine in C cannot be used: %s", error)
        return None
    for function, declared in functions:
        if (found := ffi.typeof(function).cname) != declared:
            text = "the loops over the engine in C were built for another engine (%s, not %s), and are not used"
            _log.warning(text, declared, found)
            return None
    addresses = tuple(_address(function) for function, _ in functions)
    compiled.bind(addresses, lib.PN_ACCEPTED, lib.PN_DELIVERY, lib.PN_LINK_FLOW, TOLD_EVENTS)
    return compiled


_compiled: Final = _load()


def choose_loops() -> Loops:
    """Return the loops for one connection, in C if they were built."""
    return PythonLoops() if _compiled is None else CompiledLoops()


LOOPS: Final = choose_loops().language
"""The language the loops of this process are written in."""

_log.debug("the loops over the engine run in %s", LOOPS)
