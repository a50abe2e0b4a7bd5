"""Maps and lists of symbols between the engine's data structures and plain values.

The engine keeps such fields as encoded data. They are read and written by our own codec, which knows each AMQP type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cproton_ffi import ffi, lib

from rstreams._codec import Symbol, decode_value, encode_symbols, encode_value
from rstreams.errors import RemoteProtocolError
from rstreams.net._proton.pointers import Pointer


def write_map(data: Pointer, values: Mapping[str, Any]) -> None:
    """Put a map of symbols to values where `data` is.

    Errors: `ConfigError` naming a value that AMQP cannot carry.
    """
    _write(data, encode_value({Symbol(name): value for name, value in values.items()}))


def write_symbols(data: Pointer, names: Sequence[str]) -> None:
    """Put one symbol, or an array of several, where `data` is.

    Errors: `ConfigError` for a name that cannot be a symbol.
    """
    _write(data, encode_symbols(names))


def read_map(data: Pointer) -> Mapping[str, Any]:
    """Return the map that a peer sent; any other value counts as an empty map."""
    found = _read(data)
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


def read_symbols(data: Pointer) -> tuple[str, ...]:
    """Return the symbol or symbols a peer sent."""
    found = _read(data)
    if isinstance(found, list):
        return tuple(str(each) for each in found)
    return () if found is None else (str(found),)


def _write(data: Pointer, encoded: bytes) -> None:
    taken = lib.pn_data_decode(data, ffi.from_buffer(encoded), len(encoded))
    assert taken == len(encoded), "our own encoding is whole"


def _read(data: Pointer) -> object:
    size = 0 if data == ffi.NULL else int(lib.pn_data_encoded_size(data))
    if size <= 0:
        return None
    buffer = ffi.new("char[]", size)
    written = lib.pn_data_encode(data, buffer, size)
    try:
        return decode_value(ffi.unpack(buffer, size)) if written == size else None
    except RemoteProtocolError:
        return None
