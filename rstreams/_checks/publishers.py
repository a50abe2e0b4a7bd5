"""The checks of publishers, subscribers and subscriptions."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from functools import lru_cache, wraps
from typing import Any, Final, TypeGuard, TypeVar

from rstreams._checks.refusals import refuse_object, refuse_result, shown
from rstreams.abc import Publisher, Subscription

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

_SUBSCRIBER: Final = ("on_subscribe", "on_next", "on_error", "on_complete")


def require_publisher(call: str, option: str, value: Publisher[R]) -> Publisher[R]:
    """Return `value` if it is a publisher, else raise `TypeError`."""
    if not is_publisher(value):
        refuse_object(call, option, value, "a Publisher", hint_for(value))
    return value


def require_sources(call: str, sources: Sequence[Publisher[R]]) -> Sequence[Publisher[R]]:
    """Return `sources` if all are publishers, else raise `TypeError` with the position of the first that is not."""
    for position, source in enumerate(sources):
        if not is_publisher(source):
            several = isinstance(source, list | tuple | set) and source and all(map(is_publisher, source))
            hint = f"; give the streams one by one: {call}(*streams)" if several else hint_for(source)
            msg = f"{call}(*sources): source {position} must be a Publisher, not {shown(source)}{hint}"
            raise TypeError(msg)
    return sources


def require_source_in(package: str) -> None:
    """Let each function of a package raise `TypeError` if its first argument, `source`, is not a publisher."""
    names = vars(sys.modules[package])
    for name in names["__all__"]:
        if names[name].__code__.co_varnames[:1] == ("source",):
            names[name] = _with_required_source(names[name])


def _with_required_source(function: F) -> F:
    name = function.__name__

    @wraps(function)
    def checked(source: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the arguments of the operator
        if not is_publisher(source):
            refuse_object(name, "source", source, "a Publisher", hint_for(source))
        return function(source, *args, **kwargs)

    return checked  # type: ignore[return-value] # it has the same signature


def require_returned_publisher(call: str, option: str, result: Publisher[R]) -> Publisher[R]:
    """Return `result`, a result of the function `option`, if it is a publisher, else raise `TypeError`."""
    if not is_publisher(result):
        refuse_result(call, option, result, "a Publisher", hint_for(result))
    return result


def is_publisher(value: object) -> TypeGuard[Publisher[Any]]:
    """Tell whether `value` has a method `subscribe`, and is no observable: that calls other methods of a subscriber."""
    kind: Any = type(value)
    return callable(getattr(value, "subscribe", None)) and not _has_base_of_reactivex(kind)


def is_observable(value: object) -> bool:
    """Tell whether `value` is an observable of reactivex (RxPY), which may not be installed."""
    kind: Any = type(value)
    return callable(getattr(value, "subscribe", None)) and _has_base_of_reactivex(kind)


def of_reactivex(value: object) -> bool:
    """Tell whether a class or a function is one of reactivex (RxPY)."""
    return str(getattr(value, "__module__", "")).partition(".")[0] in {"reactivex", "rx"}


@lru_cache(maxsize=256)
def _has_base_of_reactivex(kind: Any) -> bool:  # noqa: ANN401 - a class
    return any(map(of_reactivex, kind.__mro__))


def hint_for(items: object) -> str:
    """Return a hint how to make a stream of `items`, as the end of a sentence; "" if there is none."""
    if is_observable(items):
        return "; for an observable of reactivex use Stream.from_observable(...)"
    if isinstance(items, AsyncIterable):
        return "; use Stream.from_async_iterable(...)"
    if isinstance(items, Iterable) and not isinstance(items, str | bytes):
        return "; use Stream.from_iterable(...)"
    return ""


def require_subscriber(subscriber: object) -> None:
    """Raise `TypeError` for a subscriber that is None (1.9), or for any other object without `on_subscribe`."""
    if not hasattr(subscriber, "on_subscribe"):
        msg = f"subscribe() takes a Subscriber, not {subscriber!r}{_hint_for_subscriber(subscriber)}"
        raise TypeError(msg)


def _hint_for_subscriber(value: object) -> str:
    if value is None:
        return " (Reactive Streams rule 1.9)"
    missing = [method for method in _SUBSCRIBER if not hasattr(value, method)]
    if len(missing) < len(_SUBSCRIBER):
        theirs = "; on_completed is called on_complete here" if hasattr(value, "on_completed") else ""
        return f": it has no {', '.join(missing)}{theirs}"
    if callable(value):
        return "; to call a function with each item: `await stream.for_each(f)`"
    return f"; a Subscriber has {', '.join(_SUBSCRIBER)}"


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
