"""fail: no item, only an error."""

from __future__ import annotations

from typing import Never

from rstreams._checks.refusals import refuse_object
from rstreams._core.kept_errors import KeptError
from rstreams.abc import Publisher
from rstreams.sources._itemless import ItemlessPublisher


def fail(error: BaseException) -> Publisher[Never]:
    """Signal `error` at once.

        fail(error)
        X

    Args:
        error: The error that each subscriber receives, one object for all. Use `defer(lambda: fail(make()))` to make
            one for each.

    Demand: Fails without demand.
    Cancels: A cancel inside `on_subscribe` prevents the error.
    Spec: Reactive Streams 1.4.

    Example:
        >>> await Stream.fail(LookupError("no such thing")).to_list()
        Traceback (most recent call last):
        LookupError: no such thing
    """
    if not isinstance(error, BaseException):
        refuse_object("fail", "error", error, "an exception")
    kept = KeptError(error)
    return ItemlessPublisher(lambda subscriber: subscriber.on_error(kept.again()))
