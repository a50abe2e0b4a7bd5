"""Columns of encoded messages: in C where that was built, otherwise in Python; see `rstreams.columns`."""

from __future__ import annotations

from rstreams._codec.columns_in_python import FieldColumns

__all__ = ["FieldColumns"]
