"""The types of the engine's values, which only its own functions understand."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NewType, TypeAlias

Pointer = NewType("Pointer", object)
"""A cffi pointer into the engine."""

Delivery: TypeAlias = Hashable
"""A delivery, as the loops that read or sent it name it; `loops.as_delivery` makes a pointer of it."""
