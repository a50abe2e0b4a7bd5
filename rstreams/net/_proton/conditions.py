"""Error conditions between the engine's structures and plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import cproton
from cproton_ffi import lib
from proton._data import dat2obj, obj2dat, symbol

Pointer: TypeAlias = Any  # a cffi pointer into the engine


def read_condition(condition: Pointer) -> tuple[str, str, Mapping[str, Any]] | None:
    """Return the condition, description and info, or None if none is set."""
    if not lib.pn_condition_is_set(condition):
        return None
    info = dat2obj(lib.pn_condition_info(condition))
    named = {str(key): value for key, value in info.items()} if isinstance(info, dict) else {}
    return (
        cproton.pn_condition_get_name(condition) or "",
        cproton.pn_condition_get_description(condition) or "",
        named,
    )


def write_condition(condition: Pointer, name: str, description: str, info: Mapping[str, Any]) -> None:
    """Set an error condition of a link, a session, a connection or a rejected delivery."""
    cproton.pn_condition_set_name(condition, name)
    cproton.pn_condition_set_description(condition, description or None)
    if info:
        raw = {symbol(key): value for key, value in info.items()}
        obj2dat(raw, lib.pn_condition_info(condition))
