"""Holds: who still needs an item, and the outcome it ends with; `rstreams.abc` shows `Hold` and `NO_HOLD` to users.

`NO_HOLD` is the answer of every source whose items need no acknowledgement. `SharedHold` is what a stage uses that
keeps items and emits something made of them: it holds them upstream and shares that claim with whoever
holds what it emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable


@runtime_checkable
class Hold(Protocol):
    """A claim on one item: it is not settled before every hold on it has been released.

    Each hold is released once, by one of the three calls; further calls do nothing. Where several stages hold the
    same item the worst outcome wins: failed, then released, then done.

    Context: any task of the run the subscription belongs to; never blocks, never raises.
    Spec: AMQP 1.0 section 3.4 (delivery state): accepted, modified with delivery-failed, released.
    """

    def done(self) -> None:
        """Say that the item has been processed (accepted)."""
        ...

    def fail(self, error: BaseException) -> None:
        """Say that processing the item failed (modified, delivery-failed)."""
        ...

    def release(self) -> None:
        """Give the item back unprocessed (released): another consumer may have it."""
        ...


class SharedHold:
    """A claim on some upstream items, shared by several keepers: the last to let go settles them all.

    It starts with one keeper, its maker, who lets go by `done`, `fail` or `release`; `hold()` adds another. The worst
    outcome any keeper reported is the one passed on: failed, then released, then done.
    """

    __slots__ = ("_error", "_holds", "_keepers", "_released")

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._holds = holds
        self._keepers = 1
        self._released = False
        self._error: BaseException | None = None

    def hold(self) -> Hold:
        """Add a keeper and return its own claim."""
        self._keepers += 1
        return _Keeper(self)

    def done(self) -> None:
        """The maker lets go: processed, as far as it is concerned."""
        self._keepers -= 1
        if self._keepers == 0:
            self._settle()

    def fail(self, error: BaseException) -> None:
        """The maker lets go: processing failed."""
        if self._error is None:
            self._error = error
        self.done()

    def release(self) -> None:
        """The maker lets go: given back unprocessed."""
        self._released = True
        self.done()

    def _settle(self) -> None:
        for hold in self._holds:
            if self._error is not None:
                hold.fail(self._error)
            elif self._released:
                hold.release()
            else:
                hold.done()


class _Keeper:
    __slots__ = ("_shared",)

    def __init__(self, shared: SharedHold) -> None:
        self._shared: SharedHold | None = shared

    def done(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.done()

    def fail(self, error: BaseException) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.fail(error)

    def release(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.release()


class _NoHold(SharedHold):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())

    def hold(self) -> Hold:
        return self

    def done(self) -> None: ...

    def fail(self, error: BaseException) -> None: ...

    def release(self) -> None: ...

    def __repr__(self) -> str:
        return "NO_HOLD"


NO_HOLD: Final[SharedHold] = _NoHold()
"""The hold of an item that nobody waits for: for publishers whose items need none."""


def share_hold(hold: Hold) -> SharedHold:
    """Return a shared claim on the one item behind `hold`; costs nothing if the item needs no acknowledgement."""
    return NO_HOLD if hold is NO_HOLD else SharedHold((hold,))
