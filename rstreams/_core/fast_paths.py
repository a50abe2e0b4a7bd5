"""Ways for items that are shorter than a signal for each.

    handing over   a source over an iterator gives the iterator to its subscriber, which draws from it
    drawing        a subscription lets items be drawn many at a time, inside one call
    runs           a publisher hands many items to its subscriber in one call
    later          a subscription says that its items never come inside `request`

Two neighbours agree on a way once, when the subscription begins: one asks, the other answers. A neighbour that does not
answer gets plain signals. No side looks at the class of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

T_contra = TypeVar("T_contra", contravariant=True)


class OnNext(Protocol[T_contra]):
    """The method `on_next` of a subscriber, as the attribute of another one that passes its items on untouched."""

    def __call__(self, item: T_contra) -> None:
        """Receive an item."""
        ...


@runtime_checkable
class HandsOver(Protocol):
    """A subscription that may give its items away as an iterator."""

    def hand_over(self) -> tuple[Iterator[Any], Callable[[], bool]] | None:
        """Give the items to a subscriber that draws them itself, as it has demand; None if that cannot be.

        To be called in `on_subscribe`: no signal comes after it. With the items comes a function that tells
        whether it is certain that nothing is left. The subscriber cancels, as always, unless it has drawn all.
        """
        ...


def handed_over(subscription: object) -> tuple[Iterator[Any], Callable[[], bool]] | None:
    """Return the items of a subscription, as `HandsOver.hand_over` does; None if they come by signals."""
    return subscription.hand_over() if isinstance(subscription, HandsOver) else None


@runtime_checkable
class Drawable(Protocol):
    """A subscription whose items may be drawn many at a time, instead of being asked for and signalled one by one."""

    def draws(self) -> Callable[[int], list[Any]] | None:
        """Return the function that draws items, for good; None if they cannot be drawn.

        To be called in `on_subscribe`: no item is signalled after it, but the end is, from inside the function. That
        returns up to `n` items, `n` being at most `SLICE`: fewer if the end has come, or the time for one turn is up.
        No hold is needed on them.
        """
        ...


def draws_of(subscription: object) -> Callable[[int], list[Any]] | None:
    """Return the function that draws the items of a subscription, or None if they cannot be drawn."""
    return subscription.draws() if isinstance(subscription, Drawable) else None


@runtime_checkable
class TakesRuns(Protocol):
    """A subscriber that may take many items in one call: they cost it less so than signal by signal."""

    @property
    def on_run(self) -> Callable[[Iterator[Any]], None] | None:
        """The function that takes items, as `on_next` would, until there are no more or the subscription has ended.

        They are those that were requested. A hold is always on the one taken last. What the iterator raises is not to
        be caught: the publisher handles it, and may call again for those behind. None: it takes them one by one.
        """
        ...


def runs_of(subscriber: object) -> Callable[[Iterator[Any]], None] | None:
    """Return the function of a subscriber that takes many items, or None if it takes them one by one."""
    return subscriber.on_run if isinstance(subscriber, TakesRuns) else None


@runtime_checkable
class SignalsLater(Protocol):
    """A subscription that says whether its items never come inside `request`, and others have their turns between them.

    A subscriber that wants all items may ask such a subscription for all at once. A source that answers inside
    `request` might never return.
    """

    @property
    def signals_later(self) -> bool:
        """Whether it is so."""
        ...


def signals_later(subscription: object) -> bool:
    """Return whether the items of a subscription are known never to come inside `request`."""
    return isinstance(subscription, SignalsLater) and subscription.signals_later
