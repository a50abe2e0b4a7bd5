"""Publishers over many sources that open out publishers of their own kind: `concat(concat(a, b), c)` has three sources.

Streams are often joined in a loop, one by one. Left as they are, ten thousand joins would be as many stages, one behind
the other, and each signal as many calls inside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from rstreams._stages.stage import Joined
from rstreams.abc import Publisher, Subscriber, Subscription

T = TypeVar("T")
S = TypeVar("S")


class Fluent:
    """The base of a publisher that only gives methods to another one."""

    __slots__ = ()

    _source: Any


class ManySources(Joined[T]):
    """The publisher of an operator for which it makes no difference which of its sources have been joined before.

    Args:
        start: Makes a stage for a subscriber, subscribes it to the sources and returns it.
        sources: The publishers given to the operator.
        kind: The operator and its options. A source with the same ones is replaced by its sources.
        open_out: What opens them out: `list`, or `iter` for an operator that may end before it has come to the last
            one. A stream that is joined to itself thirty times has a thousand million sources.
    """

    __slots__ = ("kind", "sources")

    def __init__(
        self,
        start: Callable[[Subscriber[T], S], Subscription],
        sources: Sequence[Publisher[T]],
        *kind: object,
        open_out: Callable[[Iterator[Publisher[T]]], S],
    ) -> None:
        super().__init__(lambda downstream: start(downstream, open_out(_opened(sources, kind))))
        self.sources = sources
        self.kind = kind


def _opened(sources: Sequence[Publisher[T]], kind: tuple[object, ...]) -> Iterator[Publisher[T]]:
    """Give out `sources` with those of this kind opened out; for each run: a list for each join would grow and grow."""
    due = [*reversed(sources)]
    while due:
        source = due.pop()
        bare = source._source if isinstance(source, Fluent) else source  # noqa: SLF001 - our own
        if isinstance(bare, ManySources) and bare.kind == kind and bare.sources:  # race() ends
            due += reversed(bare.sources)
        else:
            yield source
