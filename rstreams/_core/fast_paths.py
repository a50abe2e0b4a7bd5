"""Faster ways for items than a signal for each.

    handing over   a source over an iterator gives the iterator to its subscriber, which draws from it
    drawing        a subscription lets items be drawn many at a time, inside one call
    runs           a publisher hands many items to its subscriber in one call
    unmade runs    it does that before the items are made; the subscriber makes them when it wants them
    held runs      it does that with a hold on each item, because the subscriber keeps them all
    later          a subscription says that its items never come inside `request`

Two neighbours agree on a way once, when the subscription begins: one asks, the other answers. A neighbour that does not
answer gets plain signals. No side looks at the class of the other.

The functions here look for a method by its name. `isinstance` with a protocol takes some hundred times as long, and a
node may begin a thousand subscriptions at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from rstreams._core.claims import Claims
from rstreams._core.kept_items import UnmadeRun

T_contra = TypeVar("T_contra", contravariant=True)


class OnNext(Protocol[T_contra]):
    """The method `on_next` of a subscriber, as an attribute of another one that passes its items on unchanged."""

    def __call__(self, item: T_contra) -> None:
        """Receive an item."""
        ...


class HandsOver(Protocol):
    """A subscription that may give its items away as an iterator."""

    def hand_over(self) -> tuple[Iterator[Any], Callable[[], bool]] | None:
        """Give the items to a subscriber that draws them itself, as it has demand; None if that is impossible.

        To be called in `on_subscribe`; no signal comes after it. The second result is a function that tells whether it
        is certain that no items are left. The subscriber cancels, as always, unless it has drawn all items.
        """
        ...


def handed_over(subscription: object) -> tuple[Iterator[Any], Callable[[], bool]] | None:
    """Return the items of a subscription, as `HandsOver.hand_over` does; None if they come by signals."""
    hand_over: Callable[[], Any] | None = getattr(subscription, "hand_over", None)
    return None if hand_over is None else hand_over()


class Drawable(Protocol):
    """A subscription whose items may be drawn many at a time, instead of being requested and signalled one by one."""

    def draws(self) -> Callable[[int], list[Any]] | None:
        """Return the function that draws items from now on; None if they cannot be drawn.

        To be called in `on_subscribe`. No item is signalled after it, but the end is, from inside the function. The
        function returns up to `n` items, with `n` at most `SLICE`. It returns fewer if the end has come, or the time
        for one turn is over. The items need no hold.
        """
        ...


def draws_of(subscription: object) -> Callable[[int], list[Any]] | None:
    """Return the function that draws the items of a subscription, or None if they cannot be drawn."""
    draws: Callable[[], Any] | None = getattr(subscription, "draws", None)
    return None if draws is None else draws()


class TakesRuns(Protocol):
    """A subscriber that may take many items in one call, which costs it less than a signal for each."""

    @property
    def on_run(self) -> Callable[[Iterator[Any]], None] | None:
        """The function that takes items, as `on_next` would, until there are no more or the subscription has ended.

        The items are those that were requested. A hold is always on the item taken last. Exceptions of the iterator
        must not be caught: the publisher handles them, and may call again for the items that follow. None: it takes
        them one by one.
        """
        ...


def runs_of(subscriber: object) -> Callable[[Iterator[Any]], None] | None:
    """Return the function of a subscriber that takes many items, or None if it takes them one by one."""
    on_run: Callable[[Iterator[Any]], None] | None = getattr(subscriber, "on_run", None)
    return on_run


class TakesUnmadeRuns(Protocol):
    """A subscriber that keeps items for later, and may take many of them before they are made."""

    @property
    def on_unmade_run(self) -> Callable[[UnmadeRun], None] | None:
        """The function that keeps a run of items, which were requested; claims on all of them are kept after the call.

        Other items may come by `on_next` and `on_run`, and keep their place in the order. None: it takes only those.
        """
        ...


def unmade_runs_of(subscriber: object) -> Callable[[UnmadeRun], None] | None:
    """Return the function of a subscriber that keeps items which are not made, or None if it takes none."""
    on_unmade_run: Callable[[UnmadeRun], None] | None = getattr(subscriber, "on_unmade_run", None)
    return on_unmade_run


class TakesHeldRuns(Protocol):
    """A subscriber that may keep many items in one call, and takes the holds on them."""

    @property
    def on_held_run(self) -> Callable[[list[Any], Claims], None] | None:
        """The function that takes items, which were requested, with their holds; other items may come by `on_next`.

        Other subscribers may get the same list: it is not to be changed. The call raises nothing. It asks for no
        further items, and cancels nothing, before it returns. None: the subscriber takes items one by one.
        """
        ...


def held_runs_of(subscriber: object) -> Callable[[list[Any], Claims], None] | None:
    """Return the function of a subscriber that keeps many items, or None if it takes them one by one."""
    on_held_run: Callable[[list[Any], Claims], None] | None = getattr(subscriber, "on_held_run", None)
    return on_held_run


class SharedRun(list[Any]):
    """A run that several subscribers get. If they all make the same of it, it is made once.

    Attributes:
        made: What has been made of the items; not to be changed.
    """

    __slots__ = ("_maker", "made")

    def __init__(self, items: list[Any]) -> None:
        """Have these items."""
        super().__init__(items)
        self._maker: Callable[[Any], Any] | None = None
        self.made: list[Any] = []

    def can_be_made_by(self, make: Callable[[Any], Any]) -> bool:
        """Have in `made` what `make` makes of each item; return False if it raises for one of them."""
        if self._maker is not make:
            try:
                self.made = list(map(make, self))
            except Exception:  # the caller finds the item
                return False
            self._maker = make
        return True


class SignalsLater(Protocol):
    """A subscription that says whether its items never come inside `request`, and other tasks run between them.

    A subscriber that wants all items may ask such a subscription for all at once. A source that answers inside
    `request` might never return.
    """

    @property
    def signals_later(self) -> bool:
        """Whether that is the case."""
        ...


def signals_later(subscription: object) -> bool:
    """Return whether the items of a subscription are known never to come inside `request`."""
    later: bool = getattr(subscription, "signals_later", False)
    return later
