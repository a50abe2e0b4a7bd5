"""Text and error conditions between the engine's structures and plain values.

Everything that a peer sends can be read: text that is not UTF-8 gets replacement characters, and an info map that
Python cannot hold is empty. Everything that is sent is made to fit: the engine takes C strings, which end at a NUL, and
a performative must fit into one frame of the peer.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import cproton
from cproton_ffi import ffi, lib
from proton._data import dat2obj, obj2dat, symbol

from rstreams.net._proton.pointers import Pointer

MAX_TEXT_BYTES: Final = 4096
"""The longest description sent, whatever the size of the peer's frames."""

MAX_CONDITION_BYTES: Final = 255

_BESIDE_TEXT_BYTES: Final = MAX_CONDITION_BYTES + 128
"""The bytes in the frame of an error besides its text: the condition, and the performative itself."""


def read_text(pointer: Pointer) -> str:
    """Return a C string of the engine; "" for none."""
    return "" if pointer == ffi.NULL else str(ffi.string(pointer).decode("utf-8", "replace"))


def read_condition(condition: Pointer) -> tuple[str, str, Mapping[str, Any]] | None:
    """Return the condition, description and info, or None if none is set."""
    if not lib.pn_condition_is_set(condition):
        return None
    try:
        info = dat2obj(lib.pn_condition_info(condition))
        named = {str(key): value for key, value in info.items()} if isinstance(info, dict) else {}
    except Exception:  # the engine's own classes raise KeyError, TypeError, UnicodeDecodeError and others
        named = {}
    return (
        read_text(lib.pn_condition_get_name(condition)),
        read_text(lib.pn_condition_get_description(condition)),
        named,
    )


def write_condition(
    condition: Pointer, name: str, description: str, info: Mapping[str, Any], frame_bytes: int = 0
) -> None:
    """Set an error condition of a link, a session, a connection or a rejected delivery.

    Args:
        condition: The condition in the engine, to write to.
        name: The condition.
        description: Text for people; it is cut off if it is too long for the frame.
        info: More about it; left out if it cannot be sent.
        frame_bytes: The largest frame the peer takes; 0 if there is no limit.
    """
    room = max(0, min(MAX_TEXT_BYTES, (frame_bytes or MAX_TEXT_BYTES * 2) - _BESIDE_TEXT_BYTES))
    cproton.pn_condition_set_name(condition, _fitting(name, MAX_CONDITION_BYTES))
    text = _fitting(description, room)
    cproton.pn_condition_set_description(condition, text or None)
    _write_info(lib.pn_condition_info(condition), info, room - len(text.encode()))


def _write_info(data: Pointer, info: Mapping[str, Any], room: int) -> None:
    """Write the map, or an empty one if it cannot be sent; Azure's Python client always expects a map."""
    if info:
        with suppress(Exception):  # a user's own error may carry anything
            obj2dat({symbol(key): value for key, value in info.items()}, data)
            if lib.pn_data_encoded_size(data) <= room:
                return
        lib.pn_data_clear(data)
    obj2dat({}, data)


def _fitting(text: str, size: int) -> str:
    """Return as much of `text` as goes into `size` bytes, in characters that can be sent."""
    encoded = text.replace("\0", "\\0").encode("utf-8", "backslashreplace")
    if len(encoded) > size:
        encoded = encoded[: max(0, size - 3)] + b"..."[:size]
    return encoded.decode("utf-8", "ignore")
