"""The loops over the engine that run once for each message, with many messages a call, in C.

They take cffi's pointers for links, transports and collectors. They name deliveries by addresses; `as_delivery` turns
such a name into a pointer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from cproton_ffi import ffi, lib

from rstreams import _machine
from rstreams._codec.c_modules import load
from rstreams.net._proton.pointers import Delivery, Pointer

_INTERFACE: Final = 9  # of `_loops.c`
_UINTPTR: Final = ffi.typeof("uintptr_t")
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


def as_delivery(delivery: Delivery) -> Pointer:
    """Return the engine's pointer for a delivery."""
    pointer: Pointer = ffi.cast("pn_delivery_t *", delivery)
    return pointer


@lru_cache(maxsize=1024)  # the same few again and again
def _address(pointer: Pointer) -> int:
    return int(ffi.cast(_UINTPTR, pointer))


def bind(compiled: Any) -> Any:  # noqa: ANN401 - a module without types
    """Give the module in C the functions of the engine, and return it.

    Errors: `ImportError` if it was built for another engine.
    """
    addresses: list[int] = []
    for name, declared in compiled.FUNCTIONS:
        function = ffi.addressof(lib, name) if hasattr(lib, name) else None
        found = None if function is None else ffi.typeof(function).cname
        if found != declared:
            msg = f"the engine's {name} is {found}, and not {declared}: rstreams is for python-qpid-proton 0.40"
            raise ImportError(msg)
        addresses.append(_address(function))
    compiled.bind(tuple(addresses), lib.PN_ACCEPTED, lib.PN_DELIVERY, lib.PN_LINK_FLOW, TOLD_EVENTS)
    return compiled


_compiled: Final = bind(load("_loops", _INTERFACE, "rstreams.net._proton"))

_walk: Final[Callable[..., tuple[int, int]]] = _compiled.walk


def begin(link: Pointer, number: Any) -> Pointer:  # noqa: ANN401 - a number
    """Begin a message tagged with the low 32 bits of its number; return its delivery."""
    tag = ffi.new("char[]", _pack_tag(number & 0xFFFFFFFF))
    delivery: Pointer = lib.pn_delivery(link, ffi.new("pn_bytes_t *", {"size": 4, "start": tag})[0])  # copies the tag
    return delivery


class Loops:
    """The work that is done once for each message of one connection. A delivery is its address.

    A message that fits into one frame may go and come beside the engine, which then has a placeholder for it: see
    `_beside.h` and `_arriving.h`.
    """

    def __init__(self) -> None:
        """Have no messages beside the engine."""
        self._beside = _compiled.new_beside(_machine.fresh_bytes(8))

    def note_events(self, collector: Pointer) -> Iterable[tuple[Pointer, int, bool]]:
        """Take events up to the first of `TOLD_EVENTS`, and return those of deliveries and flow.

        Returns:
            For each link, how many of its deliveries have news, and whether its flow has; a link may come repeatedly.
        """
        noted = _compiled.note_events(_address(collector))
        return noted and [(ffi.cast("pn_link_t *", link), deliveries, flow) for link, deliveries, flow in noted]

    def read(self, link: Pointer, most: int, most_bytes: int) -> tuple[Sequence[Delivery], list[bytes], bool]:
        """Take whole deliveries, all settled or all not.

        Args:
            link: The link.
            most: How many at most.
            most_bytes: The largest message to take; 0 for no limit. A larger one stays, and all behind it.

        Returns:
            The deliveries, their messages, and whether they are settled.
        """
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
        sent = _compiled.send(self._beside, _address(link), numbers, messages, settled, are_bodies, most_beside)
        return memoryview(sent).cast("P")

    def waiting(self, session: Pointer) -> int:
        """Return how many bytes of messages wait beside the engine in a session."""
        return int(_compiled.waiting(self._beside, _address(session)))

    def forget(self, link: Pointer) -> None:
        """Forget messages of a link that is gone; those that are in the output already go out.

        Those that came beside the engine and were not read are forgotten, too.
        """
        _compiled.forget(self._beside, _address(link))

    def begin(self, link: Pointer, number: Any) -> Sequence[Delivery]:  # noqa: ANN401 - as those of `send`
        """Begin a message tagged with the low 32 bits of its number, to be sent in parts; return its delivery."""
        return memoryview(_pack_address(_address(begin(link, number)))).cast("P")

    def settle(self, deliveries: Sequence[Delivery], state: int) -> None:
        """Give each delivery the outcome `state`, and settle it."""
        _compiled.settle(deliveries, state)

    def settle_accepted(self, deliveries: Sequence[Delivery]) -> int:
        """Settle the first deliveries that the peer has accepted, up to one that it has not; return how many.

        Args:
            deliveries: The sequence that `send` returned, or a slice of it.
        """
        return int(_compiled.settle_accepted(deliveries))

    def feed(self, transport: Pointer, data: bytes | bytearray | memoryview) -> None:
        """Give the engine the bytes of the peer; it takes none when it has failed."""
        _compiled.feed(_address(transport), data)

    def expect(self, channel: int, handle: int, link: Pointer, most: int) -> None:
        """Let messages come beside the engine on a link that the peer has attached, in a session without a window.

        Args:
            channel: The peer's channel.
            handle: The peer's handle.
            link: The link.
            most: The largest message in bytes.
        """
        _compiled.expect(self._beside, channel, handle, _address(link), most)

    def expect_no_more(self, channel: int, handle: int) -> None:
        """Let no further message come beside the engine on a link, if some did."""
        _compiled.expect(self._beside, channel, handle, None, 0)

    def feed_frames(self, transport: Pointer, data: bytes | bytearray | memoryview) -> None:
        """Give the engine the frames of the peer, with placeholders for messages that come beside it."""
        _compiled.feed_frames(self._beside, _address(transport), data)

    def end_frames(self, transport: Pointer) -> None:
        """Give the engine what `feed_frames` has kept of an incomplete frame, because nothing more comes."""
        _compiled.end_frames(self._beside, _address(transport))

    def message_of(self, part: bytes) -> bytes:
        """Return the message that the bytes of a whole delivery stand for: themselves, unless it came beside."""
        message: bytes = _compiled.message_of(self._beside, part)
        return message

    def memory(self, size: int) -> bytes:
        """Return bytes that are to be overwritten before anybody sees them; they have any values."""
        memory: bytes = _compiled.memory(size)
        return memory

    def output(self, transport: Pointer, buffer: bytearray | memoryview) -> int:
        """Take the engine's bytes for the peer, as far as there is room; return how many."""
        return int(_compiled.output(self._beside, _address(transport), buffer))

    walk = staticmethod(_walk)
    """Walks over frames: see `_frame_walk.h`."""
