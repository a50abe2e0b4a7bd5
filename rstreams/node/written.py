"""Waiting until changes are in the node's store, before somebody is told that they have been made."""

from __future__ import annotations

from typing import Final, Protocol
from weakref import WeakKeyDictionary

import trio

from rstreams._core.kept_errors import KeptError
from rstreams.errors import StoreError
from rstreams.store import Done

ANSWER_WITHIN_S: Final = 5.0
"""How long an answer waits for the store, in seconds. A disk that is full may take longer to have room."""


def not_written() -> StoreError:
    """Return the error for changes that the store has not made within `ANSWER_WITHIN_S`."""
    return StoreError(
        f"the store has not written it within {ANSWER_WITHIN_S:g} s: if the node ends now, it may be as before"
    )


class _Change:
    """A change whose outcome is not known, or has just become known."""

    __slots__ = ("error", "known")

    def __init__(self) -> None:
        self.known = trio.Event()
        self.error: KeptError[StoreError] | None = None


class Written:
    """The changes of an address whose outcome somebody waits for.

    Context: The node's trio run.
    """

    def __init__(self) -> None:
        """Have none."""
        self._changes: list[_Change] = []

    def hear(self) -> Done:
        """Return the function that the store calls when a change is safe, or cannot be made."""
        change = _Change()
        self._changes.append(change)

        def done(error: StoreError | None) -> None:
            self._changes.remove(change)
            change.error = None if error is None else KeptError(error)
            change.known.set()

        return done

    async def wait(self) -> None:
        """Wait until all changes so far are safe.

        Errors: `StoreError` if one of them cannot be made, or not within `ANSWER_WITHIN_S`.
        """
        with trio.move_on_after(ANSWER_WITHIN_S) as waiting:
            for change in tuple(self._changes):
                await change.known.wait()
                if change.error is not None:
                    raise change.error.again()
        if waiting.cancelled_caught:
            raise not_written()


class Hears(Protocol):
    """Waits until the store has what it has begun."""

    def begun(self, error: StoreError | None) -> None:
        """Hear that the store has it, or cannot have it."""
        ...


class Begun:
    """What a peer has begun, such as a subscription: the peer hears of it when all its changes are in the store.

    Args:
        changes: How many changes there are.

    Context: The node's trio run.
    """

    def __init__(self, changes: int = 0) -> None:
        """Wait for so many changes; with 0 it is in the store, or needs none."""
        self._missing = changes
        self._error: StoreError | None = None
        self._waiting: WeakKeyDictionary[Hears, None] = WeakKeyDictionary()  # in order; not those whose link has ended

    @property
    def is_known(self) -> bool:
        """Whether all changes are in the store, or one cannot be made."""
        return not self._missing

    def done(self, error: StoreError | None) -> None:
        """Hear of one change; see `Done`."""
        self._missing -= 1
        self._error = self._error or error
        if self.is_known:
            for each in list(self._waiting):
                each.begun(self._error)

    def tell(self, waiting: Hears) -> None:
        """Tell when it is known; at once if it is."""
        if self.is_known:
            waiting.begun(self._error)
        else:
            self._waiting[waiting] = None
