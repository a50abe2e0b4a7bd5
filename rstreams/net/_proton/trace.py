"""The trace of frames, switched off while messages carry secrets."""

from __future__ import annotations

import os

from cproton_ffi import lib

from rstreams.net._proton.engine import Engine


def hide(engine: Engine, *, hidden: bool) -> None:
    """Trace no frames of a connection, because they carry secrets; or trace them again."""
    if not engine._freed:
        traced = os.environ.get("RSTREAMS_TRACE") == "frames" and not hidden
        lib.pn_transport_trace(engine._transport, lib.PN_TRACE_FRM if traced else lib.PN_TRACE_OFF)
