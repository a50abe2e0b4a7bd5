"""The walk over AMQP frames: it passes over the frequent ones, and stops at a frame that must be read.

In C where the extension was built, otherwise in Python; `loops` chooses.

Spec: AMQP 1.0 section 2.3 (framing) and 2.7.5 (transfer).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeAlias

from rstreams.net._proton import frame_walk_in_python

_INTERFACE: Final = 1  # of the compiled module

Walk: TypeAlias = Callable[["bytes | bytearray | memoryview", int, int, int], tuple[int, int]]
"""Walk over frames.

Args:
    data: Bytes of one direction of a connection.
    at: The place in them where a frame begins.
    passing: The performatives that are passed over: bit n for the one of code 0x10 + n. A transfer with a
        message-format that is not 0 is not passed over.
    most: The largest frame that is allowed, in bytes.

Returns:
    The place where it stopped, and a number that says why:

    - above 0: a frame of so many bytes begins there and must be read; it may end behind the data
    - 0: there are too few bytes to tell, or none; a place behind the data is the end of the frame that the data end in
    - -1: no frame can begin there
"""


def _load() -> Any:  # noqa: ANN401 - a module without types
    if os.environ.get("RSTREAMS_PURE") == "1":
        return None
    try:
        compiled = import_module("rstreams.net._proton._frame_walk")
    except ImportError:
        return None
    return compiled if getattr(compiled, "INTERFACE", None) == _INTERFACE else None


_compiled: Final = _load()

walk_in_python: Final[Walk] = frame_walk_in_python.walk
walk: Final[Walk] = walk_in_python if _compiled is None else _compiled.walk
