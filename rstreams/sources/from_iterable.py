"""from_iterable: the items of anything Python can iterate over."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TypeVar

from rstreams._checks.refusals import refuse_object
from rstreams._stages.emission import IteratorPublisher
from rstreams.abc import Publisher

T = TypeVar("T")


def from_iterable(iterable: Iterable[T]) -> Publisher[T]:
    """Emit the items of `iterable`, then complete.

        from_iterable([1, 2, 3])
        --1--2--3|

    Each subscriber gets an iteration of its own, so a list can be subscribed to many times. An iterator, a generator
    or an open file can be gone through only once: a second subscriber shares it with the first and gets what is
    left. Give `defer(lambda: from_iterable(make()))` to start afresh for each.

    Args:
        iterable: Iterated over anew for each subscriber; it must not block.

    Demand: An item is drawn when it is requested and never before. A list, tuple or range completes right behind its
        last item, any other iterable with the first request after it: only then is it known that nothing is left.
    Errors: What the iteration raises ends the stream with that very exception.
    Cancels: A generator is closed by a cancel, so its `finally` blocks run; what they raise is logged, since nobody
        is left to hear of it. Other iterators are let go of.
    Context: Emits inside the call of `request`, in its task. If the subscriber's `on_next` raises, the subscription
        is cancelled and the exception leaves that `request`.
    Spec: Reactive Streams 1.1, 1.5, 2.13, 3.3.

    Example:
        >>> await Stream.from_iterable("abc").to_list()
        ['a', 'b', 'c']
    """
    if not hasattr(iterable, "__iter__") and not hasattr(iterable, "__getitem__"):
        hint = "; from_async_iterable is for what `async for` takes" if hasattr(iterable, "__aiter__") else ""
        refuse_object("from_iterable", "iterable", iterable, "iterable", hint)
    return IteratorPublisher(partial(iter, iterable))
