"""Errors that wait until all streams have ended: shared by the operators with `delay_errors`."""

from __future__ import annotations

from collections.abc import Sequence


def note_error(errors: list[BaseException], error: BaseException) -> None:
    """Add `error` to those that wait; one that comes out of several streams, because of one cause, counts once."""
    if not any(each is error for each in errors):
        errors.append(error)


def all_of(operator: str, errors: Sequence[BaseException]) -> BaseException:
    """Return the error for a stream whose errors have waited for the end: the only one, or a group."""
    if len(errors) == 1:
        return errors[0]
    return BaseExceptionGroup(f"{operator}: {len(errors)} streams failed", errors)
