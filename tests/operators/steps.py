"""One operator of a random pipeline, and what it makes of a list: what `test_pipelines` builds pipelines of.

Each family of operators has its file of steps, `<family>_steps.py`, with a list `STEPS` of strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rstreams.abc import Publisher

Numbers = Publisher[int]


@dataclass(frozen=True)
class Step:
    """One operator of a pipeline over whole numbers, and what it makes of a list of them."""

    name: str
    apply: Callable[[Numbers], Numbers]
    model: Callable[[Sequence[int]], Sequence[int]]

    def __repr__(self) -> str:
        return self.name
