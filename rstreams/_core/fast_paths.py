"""Faster ways for items than a signal for each.

    handing over   a source over an iterator gives the iterator to its subscriber, which draws from it
    drawing        a subscription lets items be drawn many at a time, inside one call
    runs           a publisher hands many items to its subscriber in one call, see `run`
    later          a subscription says that its items never come inside `request`

Two neighbours agree on a way once, when the subscription begins: one asks, the other answers. A neighbour that does not
answer gets plain signals. No side looks at the class of the other.

The functions here look for a method by its name. `isinstance` with a protocol takes some hundred times as long, and a
node may begin a thousand subscriptions at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

T_contra = TypeVar("T_contra", contravariant=True)


class OnNext(Protocol[T_contra]):
    """The method `on_next` of a subscriber, as an attribute of another one that passes its items on unchanged."""

    def __call__(self, item: T_contra) -> None:
        """Receive an item."""
        ...


class HandsOver(Protocol):
    """A subscription that may give its items away as an iterator."""

    def hand_over(self) -> tuple[Iterator[Any], Callable[[], int]] | None:
        """Give the items to a subscriber that draws them itself, as it has demand; None if that is impossible.

        To be called in `on_subscribe`; no signal comes after it. The second result is a function that returns how many
        items are left (`not_known`: at least one may be). The subscriber cancels, as always, unless it has drawn all of
        them.
        """
        ...


def not_known() -> int:
    """Return how many items are left, of a source that does not know: there may be one."""
    return 1


def handed_over(subscription: object) -> tuple[Iterator[Any], Callable[[], int]] | None:
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
