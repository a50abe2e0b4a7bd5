"""The checks of publishers, subscribers and subscriptions."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeGuard, TypeVar

from rstreams._checks.refusals import refuse_object, refuse_result, shown
from rstreams.abc import Publisher, Subscription

R = TypeVar("R")


def require_publisher(call: str, option: str, value: Publisher[R]) -> Publisher[R]:
    """Return `value` if it is a publisher, else raise `TypeError`."""
    if not is_publisher(value):
        refuse_object(call, option, value, "a Publisher", hint_for(value))
    return value


def require_sources(call: str, sources: Sequence[Publisher[R]]) -> Sequence[Publisher[R]]:
    """Return `sources` if all are publishers, else raise `TypeError` with the position of the first that is not."""
    for position, source in enumerate(sources):
        if not is_publisher(source):
            msg = f"{call}(*sources): source {position} must be a Publisher, not {shown(source)}{hint_for(source)}"
            raise TypeError(msg)
    return sources


def require_returned_publisher(call: str, option: str, result: Publisher[R]) -> Publisher[R]:
    """Return `result`, a result of the function `option`, if it is a publisher, else raise `TypeError`."""
    if not is_publisher(result):
        refuse_result(call, option, result, "a Publisher", hint_for(result))
    return result


def is_publisher(value: object) -> TypeGuard[Publisher[Any]]:
    """Tell whether `value` has a method `subscribe`."""
    return callable(getattr(value, "subscribe", None))


def hint_for(items: object) -> str:
    """Return a hint how to make a stream of `items`, as the end of a sentence; "" if there is none."""
    if isinstance(items, AsyncIterable):
        return "; use Stream.from_async_iterable(...)"
    if isinstance(items, Iterable) and not isinstance(items, str | bytes):
        return "; use Stream.from_iterable(...)"
    return ""


def require_subscriber(subscriber: object) -> None:
    """Raise `TypeError` for a subscriber that is None (1.9), or for any other object without `on_subscribe`."""
    if not hasattr(subscriber, "on_subscribe"):
        rule = " (Reactive Streams rule 1.9)" if subscriber is None else ""
        hint = "; to call a function with each item: `await stream.for_each(f)`" if callable(subscriber) else ""
        msg = f"subscribe() takes a Subscriber, not {subscriber!r}{rule}{hint}"
        raise TypeError(msg)


def require_subscription(subscription: Subscription | None) -> None:
    """Raise `TypeError` for a subscription that is None (2.13), or that lacks a method."""
    if subscription is None:
        msg = "on_subscribe() takes a Subscription, not None (Reactive Streams rule 2.13)"
        raise TypeError(msg)
    for method in _unwritten(type(subscription)):
        if method not in getattr(subscription, "__dict__", ()):
            how = ": return rstreams.abc.NO_HOLD if its items need no acknowledgement" if method == "hold" else ""
            msg = f"on_subscribe() takes a Subscription, but {subscription!r} has no method {method}(){how}"
            raise TypeError(msg)


def require_error(error: BaseException | None) -> BaseException:
    """Return the argument of `on_error`; for None raise `TypeError`: it would look like a completion (2.13)."""
    if error is None:
        msg = "on_error takes an exception, not None (Reactive Streams rule 2.13)"
        raise TypeError(msg)
    return error


@lru_cache(maxsize=256)
def _unwritten(kind: object) -> tuple[str, ...]:
    """Return the methods that a kind of subscription lacks, or inherits from the protocol, where they do nothing."""
    return tuple(
        method
        for method in ("request", "cancel", "hold")
        if getattr(kind, method, None) in (None, getattr(Subscription, method))
    )
