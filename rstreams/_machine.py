"""What rstreams takes from the machine that it runs on: clocks, and numbers that nobody can guess.

Other modules call these functions as `_machine.today()`, and ask the machine nothing else that differs from run to run.
Therefore a simulation can put functions of its own in their place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from uuid import UUID

now: Callable[[], float] = time.perf_counter
"""Return the time in seconds, for loops that measure their own work; a virtual clock stands still while they work."""

fresh_bytes: Callable[[int], bytes] = os.urandom
"""Return so many bytes that nobody can guess."""

monotonic_clock: Callable[[], float] = time.monotonic
calendar: Callable[[], float] = time.time


def monotonic() -> float:
    """Return the time in seconds, for threads that wait; tasks ask trio's clock."""
    return monotonic_clock()


def today() -> float:
    """Return the seconds since 1970; the clock may be set back."""
    return calendar()


def today_utc() -> datetime:
    """Return the date and time, in UTC."""
    return datetime.fromtimestamp(calendar(), UTC)


def fresh_uuid() -> UUID:
    """Return a random UUID."""
    return UUID(bytes=fresh_bytes(16), version=4)


def fresh_random() -> Random:
    """Return a source of random numbers that no `random.seed` of the program reaches."""
    return Random(fresh_bytes(16))  # noqa: S311 - for jitter, which is not a secret
