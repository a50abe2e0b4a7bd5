"""Message annotations added to a message that is encoded already: every other byte stays the same (3.2.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rstreams._codec.decode import FUNCTIONS

with_annotations: Final[Callable[..., bytes]] = FUNCTIONS.with_annotations
"""As `forwarding_in_python.with_annotations`."""
