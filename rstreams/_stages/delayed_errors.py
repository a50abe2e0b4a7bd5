"""Errors that wait: until all streams have ended (`delay_errors`), or behind the items of their own stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Errors: TypeAlias = dict[int, BaseException]
"""Errors by their identity, in the order in which they came."""


def note_error(errors: Errors, error: BaseException) -> None:
    """Add `error` to those that wait; one that comes out of several streams, because of one cause, counts once."""
    errors.setdefault(id(error), error)


def all_of(operator: str, errors: Errors) -> BaseException:
    """Return the error for a stream whose errors have waited for the end: the only one, or a group."""
    waiting = list(errors.values())
    if len(waiting) == 1:
        return waiting[0]
    return BaseExceptionGroup(f"{operator}: {len(waiting)} streams failed", waiting)


def first_of(failures: Iterable[BaseException | None]) -> BaseException | None:
    """Return the first error, None if there is none."""
    return next((failure for failure in failures if failure is not None), None)
