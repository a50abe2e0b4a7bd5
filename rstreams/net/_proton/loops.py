"""The loops over the engine that run once for each message, with many messages a call, in C.

They know links, sessions, deliveries and collectors by their addresses. Messages go and come beside the engine: see
`_sending.h`, `_output.h`, `_arrivals.h` and `_incoming.h`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from cproton_ffi import ffi, lib

from rstreams import _machine
from rstreams._codec.c_modules import load
from rstreams._codec.section_heads import body_at
from rstreams.net._proton.pointers import Delivery, Pointer

_INTERFACE: Final = 14  # of `_loops.c`
_UINTPTR: Final = ffi.typeof("uintptr_t")
_DELIVERY: Final = ffi.typeof("pn_delivery_t *")
_cast: Final = ffi.cast


IN_TRANSACTION: Final = 0xFFFFFFFF
"""Stands for the message-format of a message in a transaction."""

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
    pointer: Pointer = _cast(_DELIVERY, delivery)
    return pointer


def address_of(pointer: Any) -> int:  # noqa: ANN401 - cffi's own
    """Return the address of something in the engine, by which the loops know it."""
    return int(_cast(_UINTPTR, pointer))


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
        addresses.append(address_of(function))
    compiled.bind(tuple(addresses), lib.PN_ACCEPTED, lib.PN_DELIVERY, lib.PN_LINK_FLOW, TOLD_EVENTS, body_at)
    return compiled


_compiled: Final = bind(load("_loops", _INTERFACE, "rstreams.net._proton"))


Loops: TypeAlias = Any
"""The loops of one connection: an object in C; the table of its methods in `_loops.c` documents them."""

Arrivals: TypeAlias = Any
"""The messages that come on a link: likewise."""


def new_loops(transport: Pointer) -> Loops:
    """Return the loops of a connection of the engine."""
    return _compiled.Loops(address_of(transport), _machine.fresh_bytes(8))
