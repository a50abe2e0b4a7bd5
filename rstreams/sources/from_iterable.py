"""from_iterable: the items of anything Python can iterate over."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TypeVar

from rstreams._checks.publishers import hint_for, is_observable
from rstreams._checks.refusals import refuse_object
from rstreams._stages.emission import IteratorPublisher
from rstreams.abc import Publisher

T = TypeVar("T")


def from_iterable(iterable: Iterable[T]) -> Publisher[T]:
    """Emit the items of `iterable`, then complete.

        from_iterable([1, 2, 3])
        --1--2--3|

    Each subscriber gets an iteration of its own. Therefore a list can be subscribed to many times. An iterator, a
    generator or an open file can be iterated over only once: a second subscriber shares it with the first and gets the
    rest. Use `defer(lambda: from_iterable(make()))` to make one for each subscriber.

    Args:
        iterable: Iterated over anew for each subscriber; it must not block.

    Demand: An item is drawn when it is requested and never before. A list, tuple or range completes right behind its
        last item. Any other iterable completes with the first request after it, because its end is not known before.
    Errors: An error of the iteration ends the stream with that very exception.
    Cancels: A cancel closes a generator: its `finally` blocks run, and an error of them is logged. Any other iterator
        is dropped.
    Context: Emits inside the call of `request`, in its task. If the subscriber's `on_next` raises, the subscription
        is cancelled and the exception leaves that `request`.
    Spec: Reactive Streams 1.1, 1.5, 2.13, 3.3.

    Example:
        >>> await Stream.from_iterable("abc").to_list()
        ['a', 'b', 'c']
    """
    if is_observable(iterable):
        refuse_object("from_iterable", "iterable", iterable, "iterable", hint_for(iterable))
    if not hasattr(iterable, "__iter__") and not hasattr(iterable, "__getitem__"):
        hint = "; from_async_iterable takes what `async for` can iterate over" if hasattr(iterable, "__aiter__") else ""
        refuse_object("from_iterable", "iterable", iterable, "iterable", hint)
    return IteratorPublisher(partial(iter, iterable))
