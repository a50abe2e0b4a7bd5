"""Sources with a pace of their own: one that answers late, and one that answers at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from rstreams.abc import Subscriber
from rstreams.testing import ManualPublisher

T = TypeVar("T")


class Slow(Generic[T]):
    """A source that, like a link, answers later: when the test calls `answer`."""

    def __init__(self) -> None:
        self.played = ManualPublisher[T]()
        self._subscriber: Subscriber[T] | None = None

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        self._subscriber = subscriber

    def answer(self) -> ManualPublisher[T]:
        assert self._subscriber is not None
        self.played.subscribe(self._subscriber)
        return self.played


class Quick(ManualPublisher[int]):
    """A source that answers inside `request`, with all it was asked for, and completes right behind its last item."""

    def __init__(self, items: Sequence[int]) -> None:
        super().__init__(self._answer)
        self._items = items
        self._answering = False

    def _answer(self, _n: int) -> None:
        if self._answering:
            return
        self._answering = True
        while self.outstanding and len(self.outcomes) < len(self._items) and not self.cancelled:
            self.next(self._items[len(self.outcomes)])
        self._answering = False
        if len(self.outcomes) == len(self._items) and not self.cancelled:
            self.complete()
