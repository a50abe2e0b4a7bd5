"""The engine: Qpid Proton's C functions. The only package that imports proton.

The hot path (delivery, send, recv, advance, settle, the collector, bytes in and out) is in `loops`, which calls the C
functions for many messages at a time, in C where that was built and else through `cproton_ffi.lib`. Setting up and
taking down goes through `cproton`, whose wrappers turn strings.

What the engine does that must be known (0.40): it takes sends beyond credit and beyond any buffer, so the sending end
and `room_bytes` hold back; settling the current delivery also advances, so `advance` comes before `settle`; closing a
link with deliveries still queued loses them, so `queued` is watched; a receiver's `pn_link_credit` counts what has
arrived and was not taken, so it is exact once everything has been read.
"""

from rstreams.net._proton.engine import Engine
from rstreams.net._proton.engine_events import EngineEvents
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.link_end import LinkEnd
from rstreams.net._proton.loops import LOOPS
from rstreams.net._proton.outgoing_frames import BUFFER_BYTES
from rstreams.net._proton.unfinished import Unfinished, UnfinishedTotal

__all__ = [
    "BUFFER_BYTES",
    "LOOPS",
    "Engine",
    "EngineEvents",
    "LinkDriver",
    "LinkEnd",
    "Unfinished",
    "UnfinishedTotal",
]
