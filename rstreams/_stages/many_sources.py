"""Publishers over many sources that open out publishers of their own kind: `concat(concat(a, b), c)` has three sources.

Streams are often joined in a loop, one by one. Left as they are, ten thousand joins would be as many stages, one behind
the other, and each signal as many calls inside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from rstreams._core.sight import Fluent
from rstreams._stages.stage import Joined
from rstreams.abc import Publisher, Subscriber, Subscription
from rstreams.errors import ConfigError

_MOST_AT_ONCE: Final = 1_000_000
_ONE_BY_ONE: Final[object] = iter

T = TypeVar("T")
S = TypeVar("S")


class ManySources(Joined[T]):
    """The publisher of an operator for which it makes no difference which of its sources have been joined before.

    Args:
        start: Makes a stage for a subscriber, subscribes it to the sources and returns it.
        sources: The publishers given to the operator.
        kind: The operator and its options. A source with the same ones is replaced by its sources.
        open_out: What opens them out: `list`, or `iter` for an operator that may end before it has come to the last
            one. A stream that is joined to itself thirty times has a thousand million sources.

    Attributes:
        at_once: How many streams each subscriber is subscribed to at once, those behind other operators included.
    """

    __slots__ = ("at_once", "kind", "sources")

    def __init__(
        self,
        start: Callable[[Subscriber[T], S], Subscription],
        sources: Sequence[Publisher[T]],
        *kind: object,
        open_out: Callable[[Iterator[Publisher[T]]], S],
    ) -> None:
        self.at_once = 1 if open_out is _ONE_BY_ONE else sum(map(_at_once, sources))
        if self.at_once > _MOST_AT_ONCE:
            msg = (
                f"{kind[0]}(*sources) would subscribe to {self.at_once:,} streams at once; at most {_MOST_AT_ONCE:,} "
                f"are allowed; each time that a stream is joined to itself, the number doubles"
            )
            raise ConfigError(msg)
        super().__init__(lambda downstream: start(downstream, open_out(_opened(sources, kind))))
        self.sources = sources
        self.kind = kind


def _at_once(source: object) -> int:
    while not isinstance(source, ManySources):
        source = getattr(source, "_source", None)
        if source is None:
            return 1
    return source.at_once


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
