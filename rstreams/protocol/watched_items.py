"""The items of a receiving end that somebody watches: which are handed over, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar

from rstreams._core.claims import Claims, Ending, Settles
from rstreams._core.run import Run
from rstreams.protocol.incoming_items import IncomingItems

T = TypeVar("T")


class WatchedItems(IncomingItems[T], Settles):
    """`IncomingItems` that tell `ReceivingOptions.watch`, see there; items that nobody watches do not come here.

    Context: As `LinkSubscription`.
    """

    __slots__ = ("_watch",)

    def __init__(self, subscriber: Any, options: Any, *about: Any, **calls: Any) -> None:  # noqa: ANN401 - as the base
        super().__init__(subscriber, options, *about, **calls)
        assert options.watch is not None, "somebody watches"
        self._watch = options.watch
        self.source = self

    def _hand_over(
        self, on_run: Callable[[Run[T]], None] | None, deliveries: Sequence[Hashable], payloads: Sequence[bytes]
    ) -> None:
        self._watch.hands_over(self._outcomes.losses, deliveries)
        try:
            super()._hand_over(on_run, deliveries, payloads)
        finally:
            self._watch.handed_over()

    def _decoded(self, payloads: Sequence[bytes]) -> tuple[Iterator[Any], Iterator[T]]:
        decode = self._watch.decode_alike(self._decode, payloads)
        if decode is None:
            return super()._decoded(payloads)
        waiting: Iterator[Any] = iter(payloads)
        return waiting, decode(waiting)

    def settle(self, epoch: int, places: Sequence[Hashable], how: Ending) -> None:
        """Tell the outcomes, and pass them on."""
        self._watch.settled(epoch, places, how)
        self._outcomes.settle(epoch, places, how)

    def loosen(self, claims: Claims) -> None:
        """Pass it on."""
        self._outcomes.loosen(claims)

    def has_taken(self, places: Sequence[Any]) -> bool:
        """Pass it on."""
        return self._outcomes.has_taken(places)
