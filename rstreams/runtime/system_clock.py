"""The clock of the machine, for loops that measure their own work: a virtual clock stands still meanwhile."""

from __future__ import annotations

from time import perf_counter as now

__all__ = ["now"]
