"""name: a name for a stream, where it is displayed."""

from __future__ import annotations

from typing import TypeVar

from rstreams._checks.refusals import refuse_value
from rstreams._stages.stage import Lifted, PassingStage
from rstreams.abc import Publisher, Subscriber

T = TypeVar("T")


def name(source: Publisher[T], name: str) -> Publisher[T]:
    """Give `source` a name, which `explain` shows at its place in the pipeline.

        --1--2--3-->
         name("orders")
        --1--2--3-->

    Args:
        source: The publisher of the items.
        name: The name; not empty.

    Demand: Passed up unchanged; an item costs nothing here.
    Errors: `ConfigError` at the call if `name` is not a text, or is empty; errors of the source pass through.
    Cancels: Nothing by itself.
    Spec: Reactive Streams 2.1-2.13 hold; nothing is added.

    Example:
        >>> await Stream.of(1, 2).name("orders").to_list()
        [1, 2]
    """
    if not isinstance(name, str) or not name:
        refuse_value("name", "name", name, "a text that is not empty")
    return Lifted(source, lambda downstream: _Name(downstream, name))


class _Name(PassingStage[T]):
    __slots__ = ("_name",)

    operator = "name"
    only_reacts = True
    is_caption = True

    def __init__(self, downstream: Subscriber[T], name: str) -> None:
        super().__init__(downstream)
        self._name = name

    @property
    def label(self) -> str:
        """The name."""
        return self._name
