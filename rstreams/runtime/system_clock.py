"""The clock of the machine, for loops that measure their own work; a virtual clock stands still while they work."""

from __future__ import annotations

import time
from typing import Final

now: Final = time.perf_counter
"""Return the time in seconds."""
