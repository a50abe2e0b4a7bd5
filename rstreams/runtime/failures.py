"""The one failure in a group of exceptions: an error leaves a scope unchanged, and not wrapped in a group."""

from __future__ import annotations

from collections.abc import Iterator

import trio


def unwrap(
    group: BaseExceptionGroup[BaseException], cancellation: type[BaseException] = trio.Cancelled
) -> BaseException:
    """Return the one failure in a nursery's group, or a group if there are several.

    An interrupt, or the program's own exit, comes before all other failures. A group that user code raised is one
    failure and stays a group; only cancellations are taken out of it.
    """
    failures = list({id(failure): failure for failure in _failures(group, cancellation)}.values())
    if not failures:
        return next(_cancellations(group))
    for failure in failures:
        if len(failures) == 1 or isinstance(failure, (KeyboardInterrupt, SystemExit)):
            return failure  # the other failures come from the end of the program
    return group.derive(failures)


def _failures(group: BaseExceptionGroup[BaseException], cancellation: type[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            cancelled, rest = error.split(cancellation)
            if cancelled is None:
                yield error
            elif rest is not None:
                yield rest
        elif not isinstance(error, cancellation):
            yield error


def _cancellations(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _cancellations(error)
        else:
            yield error
