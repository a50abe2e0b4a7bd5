"""The loops over the engine that run once for each message, with many messages a call, in C.

They take cffi's pointers for links, transports and collectors. They name deliveries by addresses; `as_delivery` turns
such a name into a pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from cproton_ffi import ffi, lib

from rstreams import _machine
from rstreams._codec.c_modules import load
from rstreams._codec.section_heads import body_at
from rstreams.net._proton.pointers import Delivery, Pointer

_INTERFACE: Final = 11  # of `_loops.c`
_UINTPTR: Final = ffi.typeof("uintptr_t")


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


class Loops:
    """The work that is done once for each message of one connection. A delivery is its address.

    Messages go and come beside the engine: see `_beside.h` and `_arrivals.h`.
    """

    def __init__(self, transport: Pointer) -> None:
        """Have no messages beside the engine; `transport` is the connection in the engine."""
        self._beside = _compiled.new_beside(_address(transport), _machine.fresh_bytes(8), body_at)

    def note_events(self, collector: Pointer) -> Iterable[tuple[Pointer, int, bool]]:
        """Take events up to the first of `TOLD_EVENTS`, and return those of deliveries and flow.

        Returns:
            For each link, how many of its deliveries have news, and whether its flow has; a link may come repeatedly.
        """
        noted = _compiled.note_events(_address(collector))
        return noted and [(ffi.cast("pn_link_t *", link), deliveries, flow) for link, deliveries, flow in noted]

    def arrivals(self, link: Pointer, *, beside: bool) -> Any:  # noqa: ANN401 - C's own
        """Return the messages that come on a link, none yet; their payloads go beside the engine, or through it."""
        return _compiled.new_arrivals(_address(link), beside)

    def expect(self, channel: int, handle: int, arrivals: Any) -> None:  # noqa: ANN401 - as above
        """Note that the peer has attached a link on which it sends, by its channel and handle; None: it is gone."""
        _compiled.expect(self._beside, channel, handle, arrivals)

    def read(
        self,
        arrivals: Any,  # noqa: ANN401 - as above
        most: int,
        most_bytes: int,
    ) -> tuple[Sequence[Delivery], list[bytes], bool, bool]:
        """Take whole deliveries, all settled or all not.

        Args:
            arrivals: The messages of the link.
            most: How many at most.
            most_bytes: The largest message to take; 0 for no limit. A larger one stays, and all behind it. So does one
                with another message-format than 0.

        Returns:
            The deliveries, their messages, whether they are settled, and whether they are one message in two pieces.
        """
        deliveries, messages, settled, is_split = _compiled.read(arrivals, most, most_bytes)
        return memoryview(deliveries).cast("P"), messages, settled, is_split

    def read_in_parts(self, arrivals: Any) -> None:  # noqa: ANN401 - as above
        """Have messages of a link read by `read_part`."""
        _compiled.read_in_parts(arrivals)

    def read_part(self, arrivals: Any) -> tuple[int, bytes, bool, bool, bool] | None:  # noqa: ANN401 - as above
        """Return what has come of the current delivery since the last call; None if there is nothing.

        Returns:
            The delivery, the bytes, and whether it is settled, goes on, and was aborted.
        """
        part: tuple[int, bytes, bool, bool, bool] | None = _compiled.read_part(arrivals)
        return part

    def current(self, arrivals: Any, *, takes_in: bool = False) -> tuple[int, int]:  # noqa: ANN401 - as above
        """Return how many bytes of the current delivery were read, and its message-format.

        Args:
            arrivals: The messages of the link.
            takes_in: Whether to read what the engine has of it before, which opens the session's window again.
        """
        size, message_format = _compiled.current(arrivals, takes_in)
        return size, message_format

    def drop(self, arrivals: Any, *, is_gone: bool) -> None:  # noqa: ANN401 - as above
        """Throw away what has come of the current delivery, and what is to come of it.

        Args:
            arrivals: The messages of the link.
            is_gone: Whether the delivery was settled, and is not the current one any more.
        """
        _compiled.drop(arrivals, is_gone)

    def send(
        self,
        link: Pointer,
        numbers: Sequence[Any],
        messages: Sequence[bytes],
        *,
        settled: bool,
        are_bodies: bool = False,
        most: int,
    ) -> Sequence[Delivery]:
        """Send messages tagged with the low 32 bits of their numbers, each in one frame.

        Args:
            link: The link.
            numbers: A number for each message.
            messages: The encoded messages.
            settled: Whether they are sent settled.
            are_bodies: Whether each of `messages` is not encoded: it is the body of a message.
            most: The largest message that fits into a frame. The first larger one is not sent, and none behind it.

        Returns: The deliveries of those that were sent.
        """
        sent = _compiled.send(self._beside, _address(link), numbers, messages, settled, are_bodies, most)
        return memoryview(sent).cast("P")

    def begin(self, link: Pointer, number: Any) -> Sequence[Delivery]:  # noqa: ANN401 - as those of `send`
        """Begin a message tagged with the low 32 bits of its number, to be sent in parts; return its delivery."""
        return memoryview(_compiled.begin(_address(link), number)).cast("P")

    def send_part(
        self, link: Pointer, part: bytes, at: int, *, is_body: bool, more: bool, settled: bool, most: int, room: int
    ) -> int:
        """Send what there is room for of a part of the current delivery.

        Args:
            link: The link.
            part: The part, which may be all.
            at: How many bytes of it have been sent.
            is_body: Whether it is not encoded: it is the body of a message.
            more: Whether further parts come.
            settled: Whether the delivery is settled behind its last part.
            most: The most bytes of it in a frame.
            room: How many bytes may go; the frame in which they end goes whole.

        Returns: How many bytes of the part have been sent then; -1 if nothing of it is left.
        """
        sent = _compiled.send_part(self._beside, _address(link), part, at, is_body, more, settled, most, room)
        return int(sent)

    def waiting(self, session: Pointer) -> int:
        """Return how many bytes of messages of one frame wait beside the engine in a session."""
        return int(_compiled.waiting(self._beside, _address(session)))

    def part_bytes(self) -> int:
        """Return how many bytes of parts wait beside the engine, on all links."""
        return int(_compiled.part_bytes(self._beside))

    def forget(self, owner: Pointer) -> None:
        """Forget messages of a link, or parts of a delivery, that is gone; what is in the output already goes out."""
        _compiled.forget(self._beside, _address(owner))

    def settle(self, deliveries: Sequence[Delivery], state: int) -> None:
        """Give each delivery the outcome `state`, and settle it."""
        _compiled.settle(deliveries, state)

    def settle_accepted(self, deliveries: Sequence[Delivery]) -> int:
        """Settle the first deliveries that the peer has accepted, up to one that it has not; return how many.

        Args:
            deliveries: The sequence that `send` returned, or a slice of it.
        """
        return int(_compiled.settle_accepted(deliveries))

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Give the engine the bytes of the peer; it takes none when it has failed."""
        _compiled.feed(self._beside, data)

    def take(self, data: bytes | bytearray | memoryview, at: int, most: int) -> tuple[int, int]:
        """Give the engine frames of the peer, without the payloads of messages, up to one that must be read.

        Args:
            data: The bytes.
            at: The place in them where a frame begins, or goes on.
            most: The largest frame that is allowed, in bytes.

        Returns:
            The place of the first byte that was not taken, and a number that says why:

            - above 0: a frame of so many bytes begins there and must be read; it may end behind the data
            - 0: there are too few bytes to tell, or none
            - -1: no frame can begin there
        """
        at, told = _compiled.take(self._beside, data, at, most)
        return at, told

    def end_frames(self) -> None:
        """Give the engine the beginning of a transfer whose payload has not come whole, because nothing more comes."""
        _compiled.end_frames(self._beside)

    def close(self, arrivals: Any) -> None:  # noqa: ANN401 - as above
        """Throw away all messages of a link that is gone, and what is to come."""
        _compiled.close(arrivals)

    def rooms(self) -> Sequence[memoryview]:
        """Return where the next bytes may be written as they come, up to the next call of another function."""
        rooms: list[memoryview] = _compiled.rooms(self._beside)
        return rooms

    def take_rooms(self, came: int) -> bytes:
        """Take bytes that were written into the rooms; return those that are still to be taken by `take`."""
        rest: bytes = _compiled.take_rooms(self._beside, came)
        return rest

    def output(
        self, room: memoryview, told: int, on_frame: Callable[[bytes], bytes | None]
    ) -> tuple[list[memoryview], int]:
        """Take the engine's bytes for the peer, as far as there is room.

        Args:
            room: Where they are put, but for large parts of messages, which are pieces by themselves.
            told: The frames that are told: bit n for those with the performative 0x10 + n.
            on_frame: Is told these; another frame that it returns goes out in the place of the frame.

        Returns: The pieces, and how many bytes of the room they take.
        """
        pieces, used = _compiled.output(self._beside, room, told, on_frame)
        return pieces, used
