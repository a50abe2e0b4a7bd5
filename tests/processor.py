"""The processor time of a program and of those that it starts."""

from __future__ import annotations

import resource


def processor_s() -> float:
    """Return the seconds of processor of this process, and of those that it has started and that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)
