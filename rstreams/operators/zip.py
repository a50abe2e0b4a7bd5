"""zip: one item of each source in a tuple."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from itertools import repeat
from typing import Any, TypeVar, overload

from rstreams._checks.numbers import require_count
from rstreams._checks.publishers import require_sources
from rstreams._core.claims import claims_on
from rstreams._core.demand import take_demand
from rstreams._stages.inputs import Input, Inputs, claims
from rstreams._stages.stage import Joined
from rstreams.abc import Publisher

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
K = TypeVar("K")
V = TypeVar("V")


@overload
def zip(source: Publisher[T], /, *, prefetch: int = 32) -> Publisher[tuple[T]]: ...  # noqa: A001 - the field's name
@overload
def zip(source: Publisher[T], second: Publisher[R], /, *, prefetch: int = 32) -> Publisher[tuple[T, R]]: ...  # noqa: A001 - the field's name
@overload
def zip(  # noqa: A001 - the field's name
    source: Publisher[T], second: Publisher[R], third: Publisher[S], /, *, prefetch: int = 32
) -> Publisher[tuple[T, R, S]]: ...
@overload
def zip(  # noqa: A001 - the field's name
    source: Publisher[T], second: Publisher[R], third: Publisher[S], fourth: Publisher[K], /, *, prefetch: int = 32
) -> Publisher[tuple[T, R, S, K]]: ...
@overload
def zip(  # noqa: A001 - the field's name
    source: Publisher[T],
    second: Publisher[R],
    third: Publisher[S],
    fourth: Publisher[K],
    fifth: Publisher[V],
    /,
    *,
    prefetch: int = 32,
) -> Publisher[tuple[T, R, S, K, V]]: ...
@overload
def zip(*sources: Publisher[Any], prefetch: int = 32) -> Publisher[tuple[Any, ...]]: ...  # noqa: A001 - the field's name
def zip(*sources: Publisher[Any], prefetch: int = 32) -> Publisher[Any]:  # noqa: A001 - the field's name  # noqa: A001 - the field's name
    """Emit tuples of the first items of all sources, then of the second items, and so on.

        --1-----2-----3-->
        -----a-----b--|
               zip
        -----1a----2b-|

    Args:
        *sources: Subscribed to at once, in this order; without sources the stream is empty.
        prefetch: The number of items requested ahead of each source; at least 1. Items of a plain iterator are not
            requested ahead: they are drawn as they are needed.

    Demand: The first request asks each source for `prefetch` items, and for more as its items leave. At most that many
        items of each are kept.
    Holds: Items are held until their tuple has been handled, and share its outcome. Items without partners, because
        another source has ended, are given back (released). All items that wait on a cancel, or behind the place of an
        error, are also given back.
    Errors: `TypeError` at the call if a source is not a publisher, `ConfigError` if `prefetch` is less than 1. The
        first source that fails ends the stream, behind the tuples of the items before its error.
    Cancels: All other sources, when one has completed or failed and all its items have been emitted.
    Spec: Reactive Streams 1.1, 1.3, 3.3, 3.17.

    Example:
        >>> await Stream.range(3).zip(Stream.of("a", "b")).to_list()
        [(0, 'a'), (1, 'b')]
    """
    require_sources("zip", sources)
    require_count("zip", "prefetch", prefetch, 1)
    return Joined(lambda downstream: _Zip(downstream, len(sources), prefetch).start(sources))


class _Zip(Inputs[tuple[Any, ...]]):
    __slots__ = ()

    operator = "zip"
    joins_parts = False  # no tuple can follow the place of an error

    def _step(self, most: int) -> int:  # noqa: PLR0911 - one exit for each state
        if self._ended:
            return 0
        inputs = self.inputs
        if not inputs or any(i.exhausted for i in inputs):
            self._finish()
            return 0
        if self._failing and (failed := self._failed_input()) is not None:
            self._end_before(failed, inputs)
            return 0
        if not self._demand:
            return 0
        if all(i.drawn and not i.queue for i in inputs):
            return self._emit_drawn(min(most, self._demand))
        # Items of iterators are drawn last: by then all other items are certainly there.
        if not all(i.queue for i in inputs if not i.drawn) or not all(i.has_item() for i in inputs):
            return int(not self._ended and (self._failed_input() is not None or any(i.exhausted for i in inputs)))
        if self._ended:  # a drawn iterator has cancelled
            return 0
        taken = [i.take() for i in inputs]
        held = claims([hold for _, hold in taken])
        self._demand = take_demand(self._demand, 1)
        self._emit(tuple([item for item, _ in taken]), claims_on(*held))
        if not self._ended:
            for i in inputs:
                i.taken()
        return 1

    def _end_before(self, error: BaseException, others: Sequence[Input[Any]]) -> None:
        """End the stream where a source has failed: with the error, unless another source has no item there either."""
        if all(i.has_item() or not i.exhausted for i in others):
            self._fail(error)
        else:
            self._finish()

    def _emit_drawn(self, most: int) -> int:
        """Emit items of plain iterators, at most `most` tuples."""
        next_row = builtins.zip(*[i.items for i in self.inputs], strict=False).__next__
        on_next = self._downstream.on_next
        emitted = 0
        try:
            for _ in repeat(None, most):
                try:
                    row = next_row()
                except StopIteration:
                    self._finish()
                    break
                except Exception as error:  # the user's
                    drawn = [i.drawn_items for i in self.inputs]
                    failed = drawn.index(min(drawn))  # those before it have given an item for this row
                    self._end_before(error, self.inputs[failed + 1 :])
                    break
                if self._ended:  # a drawn iterator has cancelled
                    self._let_go()
                    break
                emitted += 1
                on_next(row)
                if self._ended:
                    break
        except BaseException:
            self.cancel()  # 2.13, as in `_emit`
            raise
        finally:
            self._demand = take_demand(self._demand, emitted)
            self._emissions += emitted
        return emitted
