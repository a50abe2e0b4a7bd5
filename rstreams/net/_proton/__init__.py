"""The engine: Qpid Proton's C functions. The only package that imports proton.

The hot path (delivery, send, recv, advance, settle, the collector, bytes in and out) is in `loops`: C that calls the
engine's functions for many messages at a time. The calls that make and free things go through `cproton`, whose wrappers
convert strings.

Facts about the engine (0.40) on which this package depends:

- It takes sends beyond credit and beyond any buffer. Therefore the sending end and `room_bytes` limit the sends.
- Settling the current delivery also advances. Therefore `advance` comes before `settle`.
- Closing a link with queued deliveries loses them. Therefore `queued` is watched.
- A receiver's `pn_link_credit` counts deliveries that have arrived and were not read. It is exact once all are read.
"""

from rstreams.net._proton.engine import Engine
from rstreams.net._proton.incoming_frames import SLOW_FRAMES
from rstreams.net._proton.link_driver import LinkDriver
from rstreams.net._proton.link_end import LinkEnd
from rstreams.net._proton.outgoing_frames import BUFFER_BYTES
from rstreams.net._proton.unfinished import Unfinished, UnfinishedTotal

__all__ = [
    "BUFFER_BYTES",
    "SLOW_FRAMES",
    "Engine",
    "LinkDriver",
    "LinkEnd",
    "Unfinished",
    "UnfinishedTotal",
]
