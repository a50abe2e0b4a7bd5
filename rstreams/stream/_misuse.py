"""Errors for streams in plain loops, in `with` and under `await`: they tell the right way.

Type checkers do not see these methods. For them, and for readers, a stream is neither iterable nor awaitable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar

from rstreams._checks.other_names import OURS, hint

T_co = TypeVar("T_co", covariant=True)

_LOOP: Final = "`async with stream.open() as items:` and in it `async for item in items:`"


def _refused(name: str, text: str) -> Any:  # noqa: ANN401 - a method of any signature
    def refuse(*_: object) -> NoReturn:
        raise TypeError(text)

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


class _Hinting(type):
    """The class of `Stream`: sources are asked of the class itself, such as `Stream.of`."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> NoReturn:
            msg = f"type object {cls.__name__!r} has no attribute {name!r}{hint(name, cls, OURS)}"
            raise AttributeError(msg, name=name, obj=cls)


class NotIterable(metaclass=_Hinting):
    """The base of `Stream`: it refuses loops, `with` and `await` over the stream itself."""

    __slots__ = ()

    if not TYPE_CHECKING:
        __iter__ = _refused("__iter__", f"a Stream cannot be in a plain loop: {_LOOP}, or `await stream.to_list()`")
        __aiter__ = _refused("__aiter__", f"a Stream must be opened before the loop: {_LOOP}")
        __await__ = _refused(
            "__await__",
            "a Stream cannot be awaited itself: `await stream.to_list()`, `.for_each(...)` or `.first_or_none()`",
        )
        __enter__ = __aenter__ = _refused("__enter__", f"a Stream must be opened first: {_LOOP}")
        __exit__ = __aexit__ = __enter__

        def __getattr__(self, name: str) -> NoReturn:
            msg = f"{type(self).__name__!r} object has no attribute {name!r}{hint(name, self, OURS)}"
            raise AttributeError(msg, name=name, obj=self)


class Opening(AbstractAsyncContextManager[AsyncIterator[T_co]], Generic[T_co]):
    """The result of `Stream.open`, for `async with`."""

    __slots__ = ("_manager",)

    def __init__(self, manager: AbstractAsyncContextManager[AsyncIterator[T_co]]) -> None:
        self._manager = manager

    async def __aenter__(self) -> AsyncIterator[T_co]:
        return await self._manager.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._manager.__aexit__(kind, error, traceback)

    if not TYPE_CHECKING:
        __iter__ = __aiter__ = __await__ = __enter__ = __exit__ = _refused(
            "__enter__", f"the result of Stream.open() must be used in `async with`: {_LOOP}"
        )
