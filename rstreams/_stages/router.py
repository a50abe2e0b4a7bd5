"""Every item to one subscriber: shared by distribute and partition.

Theory of operation. An item goes straight to its subscriber if that has demand and no item waits before it. Any other
item is kept, with a hold. Items requested (`_outstanding`) and items kept are together at most `window`. The operator
decides how many items that is.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

from rstreams._core.claims import Claims
from rstreams._core.demand import take_demand
from rstreams._core.sight import Counts
from rstreams._core.subscription import ENDED
from rstreams._stages.member import Member
from rstreams._stages.shared_run import Sharing
from rstreams.abc import Subscriber

T = TypeVar("T")
M = TypeVar("M", bound="RoutedMember[Any]")


class RoutedMember(Member[T]):
    """A member that gets some of the items.

    Attributes:
        received: The number of items it has got.
    """

    __slots__ = ("_routing", "received")

    def __init__(self, run: Routing[T, Any], subscriber: Subscriber[T]) -> None:
        super().__init__(run, subscriber)
        self._routing = run
        self.received = 0

    def counts(self) -> Counts:
        """Return the numbers of items requested, sent and kept that this subscriber could get."""
        return Counts(self.requested, self.received, self._routing.kept_for(self))

    def emit(self, item: T, kept: Claims) -> None:
        self.received += 1
        super().emit(item, kept)


class Routing(Sharing[T, M]):
    """One run of a source whose items go to one member each; a member's `limit` is its unmet demand."""

    __slots__ = ("_outstanding", "_window")

    def __init__(self, label: str, window: int) -> None:
        super().__init__(label)
        self._window = window
        self._outstanding = 0  # requested of the source and not received

    @abstractmethod
    def kept_for(self, member: M) -> int:
        """Return the number of kept items that `member` could get."""

    @property
    def numbers(self) -> tuple[int, int, int]:
        return len(self.members), max(map(self.kept_for, self.members), default=0), self._window

    def _hand_over(self, member: M, item: T) -> None:
        """Send an item straight on, inside the source's `on_next`."""
        member.limit = take_demand(member.limit, 1)
        member.received += 1
        self._busy = True
        try:
            member.subscriber.on_next(item)
        except BaseException as error:
            self.hold().fail(error)
            self.refuse(member, error)
        finally:
            self._busy = False
        if self._due or 2 * self._outstanding <= self._window:
            self.update()

    def _ask_for(self, demand: int, room: int) -> None:
        """Request items up to the demand and the room; by halves of the window if the room is the limit."""
        goal = min(demand, room)
        n = goal - self._outstanding
        if self._upstream is not ENDED and n > 0 and (goal == demand or not self._outstanding or 2 * n >= self._window):
            self._outstanding = goal
            self._upstream.request(n)
