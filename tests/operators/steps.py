"""One operator of a random pipeline, and what it makes of a list: what `test_pipelines` builds pipelines of.

Each family of operators has its file of steps, `<family>_steps.py`, with a list `STEPS` of strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rstreams.abc import Publisher

Numbers = Publisher[int]


@dataclass(frozen=True)
class Step:
    """One operator of a pipeline over whole numbers, and what it makes of a list of them.

    Attributes:
        again: What who subscribes for a second time gets: the items once more if that is so of the source, always the
            items once more ("anew"), only the end ("end"), or an error ("refused").
        repeats: Whether it subscribes for a second time.
    """

    name: str
    apply: Callable[[Numbers], Numbers]
    model: Callable[[Sequence[int]], Sequence[int]]
    again: Literal["as the source", "anew", "end", "refused"] = "as the source"
    repeats: bool = False

    def __repr__(self) -> str:
        return self.name
