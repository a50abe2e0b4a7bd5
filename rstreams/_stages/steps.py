"""The stages of operators that do something to one item and pass it on: `map`, `filter`, `scan`, `skip`, `do_on_next`.

Theory of operation. Such an operator describes its work once, in a `Work` (`fusion`). The work is done in three ways:

    in a loop   over an iterator, `fusion.fused_loop` does the work of all operators that follow each other
    singly      the stage's `on_next` does it to one item
    in runs     the stage's `_through` does it to many items that come in one call

A stage that keeps no item and makes no further ones passes on a run (`_core.run`) to a subscriber that takes runs. It
does its work when the subscriber has the items made. If a stage on the way to the sink does not take runs, the items
come one by one.

The stage's class is made from the text of the work, as `dataclasses` makes methods, and once for each operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar, TypeAlias, TypeVar

from rstreams._core.fast_paths import signals_later
from rstreams._core.run import Run, runs_of
from rstreams._stages.emission import IteratorPublisher
from rstreams._stages.filtering_stage import Dropping
from rstreams._stages.fusion import Step, Work, compiled
from rstreams._stages.stage import Lifted, Stage, most_of
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")
R = TypeVar("R")


class StepStage(Stage[T, R], ABC):
    """The base of a stage that does something to one item and passes it on, to many in one call if it can."""

    __slots__ = ()

    only_reacts = True
    drops: ClassVar[bool] = False

    @abstractmethod
    def on_next(self, item: T) -> None:
        """Do the work to one item."""

    @abstractmethod
    def _through(self, items: Iterator[T]) -> Iterator[R]:
        """Do the work to each of many items, until the stage has ended."""

    @property
    def on_run(self) -> Callable[[Run[T]], None] | None:
        """The function that passes a run on; None if the subscriber takes none."""
        pass_on = runs_of(self._downstream)
        return None if pass_on is None else lambda run: pass_on(run.then(self._through, drops=self.drops))

    @property
    def signals_later(self) -> bool:
        """Whether items never come inside `request`, see `SignalsLater`; the source decides."""
        return signals_later(self._upstream)

    @property
    def most(self) -> int:
        """The most items that come."""
        return most_of(self._upstream)


class DroppingStep(Dropping[T], StepStage[T, T], ABC):
    """The base of a stage that passes an item on or drops it."""

    __slots__ = ()

    drops = True


def with_step(source: Publisher[Any], step: Step, base: type = StepStage) -> Publisher[Any]:
    """Return `source` with `step` done to each item: in the loop of a source over an iterator, else in a stage.

    Args:
        source: The publisher of the items.
        step: The work to do on each item.
        base: The class that the stage is made from: `StepStage`, or one derived from it.
    """
    if isinstance(source, IteratorPublisher):
        return source.then(step)
    make = _stage_class(step.work, base)
    return Lifted(source, lambda downstream: make(downstream, step.function, step.state))


_MakeStage: TypeAlias = Callable[[Subscriber[Any], Callable[..., Any] | None, Any], StepStage[Any, Any]]

_STAGE = """
class Made(base):
    __slots__ = ("_function", "_state")

    operator = {operator!r}

    def __init__(self, downstream, function, state):
        super().__init__(downstream)
        self._function = function
        self._state = state

    def on_next(self, item):
        if self._ended:
            return
        try:
            {singly}
        except Exception as error:
            self._fail_item(error)
            return
        if self._ended:  # the function may have cancelled
            return
        {drop_one}
        self._downstream.on_next(item)

    def _through(self, items):
        function = self._function
        for item in items:
            try:
                {in_run}
            except Exception as error:
                self._fail_item(error)
                return
            if self._ended:
                return
            {drop_in_run}
            yield item
"""


@cache
def _stage_class(work: Work, base: type) -> _MakeStage:
    """Return the class of the stages that do `work`, made from `base`."""
    does = f"drops = {work.drops}" if work.drops else work.does
    count = f"{work.when_dropping.format(state='self._state')}; " if work.when_dropping else ""
    drop = f"if drops: {count}self._drop(); " if work.drops else ""
    text = _STAGE.format(
        operator=work.operator,
        singly=does.format(function="self._function", state="self._state"),
        in_run=does.format(function="function", state="self._state"),
        drop_one=f"{drop}return" if drop else "",
        drop_in_run=f"{drop}continue" if drop else "",
    )
    make: _MakeStage = compiled(f"<rstreams: {work.operator}>", text, base=base)["Made"]
    return make
