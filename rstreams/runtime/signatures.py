"""Signatures that are written once: functions for threads and for asyncio have those of the functions they run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

F = TypeVar("F", bound=Callable[..., object])
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


def like(model: Callable[P, object]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function the parameters of `model`, for type checkers, editors and `help`; its result stays the same."""
    return shown_like(model)


def like_method(
    model: Callable[Concatenate[Any, P], object],
) -> Callable[[Callable[Concatenate[S, ...], R]], Callable[Concatenate[S, P], R]]:
    """Work as `like`, for a method that is modelled on one of another class."""
    return shown_like(model)


def shown_like(model: Callable[..., object]) -> Callable[[F], F]:
    """Give a function the parameters of `model` only for `help`, where overloads tell them to type checkers."""

    def give(function: F) -> F:
        returned = inspect.signature(function).return_annotation
        signature = inspect.signature(model).replace(return_annotation=returned)
        setattr(function, "__signature__", signature)  # noqa: B010 - not an attribute that functions declare
        return function

    return give
