"""Holds: claims on an item, and the outcome that the item gets when they end.

`rstreams.abc` shows `Hold` and `NO_HOLD` to users. `NO_HOLD` is the answer of every source whose items need no
acknowledgement. A stage that keeps items and emits something made of them uses `SharedHold`: it holds the items
upstream, and shares that claim with all holders of the emitted item.

A hold can be made *loose*. The source may then settle the item as done by itself when it has no room for further items.
A stage that gathers items without a limit makes its holds loose. The window of a link then limits how many are held,
and a full window never stops the stream. A link settles its oldest loose items first. A hold that cannot be made loose
stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, runtime_checkable


@runtime_checkable
class Hold(Protocol):
    """A claim on one item: the item is not settled before every hold on it has ended.

    Each hold is ended once, by one of the three calls; further calls do nothing. If several stages hold the same item,
    the worst outcome wins: failed, then released, then done.

    A source that limits the number of held items gives holds with two more members, which stages look for: `loosen()`
    allows it to settle the item as done when it needs the room, and `gone` tells that it has. A stage that gathers
    items without a limit (`to_list`, `reduce`) calls `loosen`, and never blocks such a source for ever.

    Context: any task of the run that the subscription belongs to; never blocks, never raises.
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


def loosen(hold: Hold) -> bool:
    """Allow the source to settle the item of `hold` as done when it needs the room; return whether the hold allows it.

    It cannot be taken back. Such a hold has a method `loosen()` and an attribute `gone`.
    """
    make_loose: Callable[[], None] | None = getattr(hold, "loosen", None)
    if make_loose is None:
        return False
    make_loose()
    return True


def is_gone(hold: Hold) -> bool:
    """Return whether the source has settled the item of a loose hold itself; the end of the hold then has no effect."""
    gone: bool = getattr(hold, "gone", False)
    return gone


class SharedHold:
    """A claim on some upstream items, shared by several keepers: the last one to end its claim settles all items.

    It starts with one keeper, its maker, who ends its claim by `done`, `fail` or `release`; `hold()` adds another. The
    worst outcome that any keeper reported is passed on: failed, then released, then done. When all remaining keepers
    are loose, the items are held loosely.
    """

    __slots__ = ("_error", "_firm", "_holds", "_keepers", "_loose", "_released")

    def __init__(self, holds: Sequence[Hold]) -> None:
        self._holds = holds
        self._keepers = 1
        self._firm = 1  # keepers that are not loose
        self._loose = False  # whether the maker is loose
        self._released = False
        self._error: BaseException | None = None

    def hold(self) -> Hold:
        """Add a keeper and return its own claim."""
        self._keepers += 1
        self._firm += 1
        return _Keeper(self)

    def done(self) -> None:
        """End the maker's claim: processed."""
        self.leave(loose=self._loose)

    def fail(self, error: BaseException) -> None:
        """End the maker's claim: processing failed."""
        self.note(error)
        self.done()

    def release(self) -> None:
        """End the maker's claim: given back unprocessed."""
        self.note(None)
        self.done()

    @property
    def gone(self) -> bool:
        """Whether the source has settled all of the items itself."""
        return bool(self._holds) and all(map(is_gone, self._holds))

    def loosen(self) -> None:
        """Make the maker's claim loose."""
        if not self._loose:
            self._loose = True
            self.slacken()

    # keepers call these

    def note(self, error: BaseException | None) -> None:
        """Remember that the items failed with `error`, or that they are given back."""
        if error is None:
            self._released = True
        elif self._error is None:
            self._error = error

    def leave(self, *, loose: bool) -> None:
        """Count one keeper less; `loose` tells whether it was loose."""
        self._keepers -= 1
        if not loose:
            self._firm -= 1
        if self._keepers == 0:
            self._settle()
        elif self._firm == 0:
            self._loosen()

    def slacken(self) -> None:
        """Count a keeper as loose from now on."""
        self._firm -= 1
        if self._firm == 0:
            self._loosen()

    # a subclass may change these

    def _loosen(self) -> None:
        for hold in self._holds:
            loosen(hold)

    def _settle(self) -> None:
        for hold in self._holds:
            if self._error is not None:
                hold.fail(self._error)
            elif self._released:
                hold.release()
            else:
                hold.done()


class _Keeper:
    __slots__ = ("_loose", "_shared")

    def __init__(self, shared: SharedHold) -> None:
        self._shared: SharedHold | None = shared
        self._loose = False

    def done(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.leave(loose=self._loose)

    def fail(self, error: BaseException) -> None:
        if self._shared is not None:
            self._shared.note(error)
            self.done()

    def release(self) -> None:
        if self._shared is not None:
            self._shared.note(None)
            self.done()

    @property
    def gone(self) -> bool:
        return self._shared is None or self._shared.gone

    def loosen(self) -> None:
        if self._shared is not None and not self._loose:
            self._loose = True
            self._shared.slacken()


class _NoHold(SharedHold):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(())

    def hold(self) -> Hold:
        return self

    def done(self) -> None: ...

    def fail(self, error: BaseException) -> None: ...

    def release(self) -> None: ...

    def loosen(self) -> None: ...

    def __repr__(self) -> str:
        return "NO_HOLD"


NO_HOLD: Final[SharedHold] = _NoHold()
"""The hold of an item that needs no acknowledgement."""


def share_hold(hold: Hold) -> SharedHold:
    """Return a shared claim on the one item behind `hold`; costs nothing if the item needs no acknowledgement."""
    return NO_HOLD if hold is NO_HOLD else SharedHold((hold,))
