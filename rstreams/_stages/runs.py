"""What lets runs of items through a stage that does something to one item: many of them cost one call, as a sink's do.

A link hands its items over in runs to who takes them (`TakesRuns`). A stage that keeps no item and makes no further
ones passes them on in the same run, one by one as they are asked for: so a hold is still on the item taken last, and
an item is done when the next one is asked for. All stages down to the sink must let runs through; else the items come
one by one, by `on_next`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TypeVar

from rstreams._core.fast_paths import runs_of, signals_later
from rstreams._stages.stage import Stage, most_of

T = TypeVar("T")
R = TypeVar("R")


class PassesRuns(Stage[T, R], ABC):
    """A stage through which runs of items go, if its subscriber takes them."""

    __slots__ = ()

    @property
    def on_run(self) -> Callable[[Iterator[T]], None] | None:
        """What takes a run of items, see `TakesRuns`; None if the subscriber takes none."""
        pass_on = runs_of(self._downstream)
        return None if pass_on is None else lambda items: pass_on(self._through(items))

    @property
    def signals_later(self) -> bool:
        """Whether items never come inside `request`, see `SignalsLater`: they do where those of the source do."""
        return signals_later(self._upstream)

    @property
    def most(self) -> int:
        """How many items come at most."""
        return most_of(self._upstream)

    @abstractmethod
    def _through(self, items: Iterator[T]) -> Iterator[R]:
        """Make of many items what `on_next` makes of one, until the stage has ended."""
