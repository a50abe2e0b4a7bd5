"""The trace of frames, where it must not be: around secrets that travel in messages."""

from __future__ import annotations

import os

from cproton_ffi import lib

from rstreams.net._proton.engine import Engine


def hide(engine: Engine, *, hidden: bool) -> None:
    """Leave what goes over a connection out of every trace, because there are secrets in it; or no more."""
    if not engine._freed:
        traced = os.environ.get("RSTREAMS_TRACE") == "frames" and not hidden
        lib.pn_transport_trace(engine._transport, lib.PN_TRACE_FRM if traced else lib.PN_TRACE_OFF)
