"""Context managers whose errors show the `with` statement that is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Forgotten:
    """The base of both: access to an attribute raises an error that shows the missing `with` statement."""

    __slots__ = ("_manager", "_with")

    _with: str

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            msg = f"there is no {name!r} before it is entered: `{self._with}`"
            raise AttributeError(msg, name=name, obj=self)


class Entered(_Forgotten, AbstractContextManager[T], Generic[T]):
    """A context manager for `with`."""

    __slots__ = ()

    def __init__(self, manager: AbstractContextManager[T], shown: str) -> None:
        self._manager = manager
        self._with = shown

    def __enter__(self) -> T:
        return self._manager.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return self._manager.__exit__(kind, error, traceback)


class AsyncEntered(_Forgotten, AbstractAsyncContextManager[T], Generic[T]):
    """A context manager for `async with`."""

    __slots__ = ()

    def __init__(self, manager: AbstractAsyncContextManager[T], shown: str) -> None:
        self._manager = manager
        self._with = shown

    async def __aenter__(self) -> T:
        return await self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._manager.__aexit__(kind, error, traceback)

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            msg = f"this is entered, not awaited: `{self._with}`"
            raise TypeError(msg)

        def __enter__(self) -> NoReturn:
            msg = f"this is entered by `async with`: `{self._with}`"
            raise TypeError(msg)

        def __exit__(self, *_: object) -> None: ...


def entered(shown: str) -> Callable[[Callable[P, Iterator[T]]], Callable[P, AbstractContextManager[T]]]:
    """Work as `contextlib.contextmanager`; `shown` is the `with` statement that errors show where it is missing."""

    def make(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
        manager = contextmanager(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
            return Entered(manager(*args, **kwargs), shown)

        return call

    return make


def async_entered(
    shown: str,
) -> Callable[[Callable[P, AsyncIterator[T]]], Callable[P, AbstractAsyncContextManager[T]]]:
    """Work as `contextlib.asynccontextmanager`; `shown` is the statement that errors show where it is missing."""

    def make(function: Callable[P, AsyncIterator[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
        manager = asynccontextmanager(function)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> AbstractAsyncContextManager[T]:
            return AsyncEntered(manager(*args, **kwargs), shown)

        return call

    return make
