"""How deep a stage stands, so that a stream that is too deep for Python is refused before anything of it begins.

Each signal is a call inside the calls of other stages, and Python allows only so many inside each other. Where that
limit strikes, in the middle of signals, nothing can be put right any more. Therefore each stage says how many calls
inside each other it takes at most (`Stage.calls`; a test measures that), and knows the sum of these from the subscriber
of the stream up to itself.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from rstreams._checks.publishers import require_subscriber
from rstreams.abc import Subscriber
from rstreams.errors import ConfigError

OTHERS: Final = 200
"""The calls that are left to the program, its event loop, the source and the functions given to operators."""


def depth_of(subscriber: object) -> int:
    """Return the calls inside each other that a signal to `subscriber` takes at most."""
    depth: int = getattr(subscriber, "calls_inside", 0)
    return depth


def require_room(subscriber: Subscriber[Any]) -> None:
    """Raise `ConfigError` if no further stage may stand on `subscriber`, and `TypeError` if it is not a subscriber.

    It is raised, because an `on_error` might be swallowed by one of the stages, or make one try again.
    """
    require_subscriber(subscriber)
    depth, limit = depth_of(subscriber), sys.getrecursionlimit()
    if depth > limit - OTHERS:
        msg = (
            f"too many operators stand one on the other: a signal through them takes up to {depth} calls inside each "
            f"other, and Python's recursion limit is {limit}, of which {OTHERS} are left to the program; join streams "
            "with concat or merge, put many functions into one operator, read pages with unfold or expand, or raise "
            "sys.setrecursionlimit()"
        )
        raise ConfigError(msg)
