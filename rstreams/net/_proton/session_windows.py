"""The sessions whose window the peer has closed: nothing goes out in them, however much credit there is.

A peer may write a flow before it has seen what is on its way, and leave less than that. What is left is below 0 then.
The engine counts in unsigned numbers, and takes such a window, or such credit, for a very large one.

The engine tells the window by a public function of its own, which is missing in the list of its package for Python.

Spec: AMQP 1.0 sections 2.5.6 (session flow control), 2.6.7 (flow control), 2.8.10 (serial numbers).
"""

from __future__ import annotations

import ctypes
from typing import Final

import cproton_ffi

from rstreams.net._proton.pointers import Pointer

_remote_window: Final = ctypes.CDLL(cproton_ffi.__file__).pn_session_remote_incoming_window
_remote_window.argtypes = [ctypes.c_void_p]
_remote_window.restype = ctypes.c_uint32
_cast: Final = cproton_ffi.ffi.cast
_ADDRESS: Final = cproton_ffi.ffi.typeof("uintptr_t")


def is_below_none(said: int, left: int) -> bool:
    """Tell whether more is on its way than a flow allows.

    Args:
        said: The window or the credit of the flow.
        left: The rest of it that the engine has counted.
    """
    on_its_way = (said - left) & 0xFFFFFFFF
    return said < on_its_way < 2**31


def window_of(session: Pointer) -> int:
    """Return how many more frames the peer takes in a session."""
    return int(_remote_window(int(_cast(_ADDRESS, session))))


class ShutSessions(set[Pointer]):
    """The sessions whose window the peer has closed by its last flow.

    Context: Only the task that owns the connection. Any task of its run may ask.
    """

    __slots__ = ()

    def note(self, session: Pointer, window: int) -> bool:
        """Note the window of a session after a flow; tell whether it has been closed, or opened again."""
        was_shut = session in self
        if not window:
            self.add(session)
            return not was_shut
        self.discard(session)
        return was_shut
