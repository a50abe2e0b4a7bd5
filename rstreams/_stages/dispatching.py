"""Who gets which item of a shared run: what an operator over such a run decides. The run itself is in `shared_run`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from rstreams._stages.member import Member
from rstreams.abc import Subscriber

T = TypeVar("T")
M = TypeVar("M", bound="Member[Any]")


class Dispatching(ABC, Generic[T, M]):
    """The decisions of an operator: the items kept, the member that gets the next one, and the demand.

    Attributes:
        members: The present subscribers, in the order in which they came.
    """

    __slots__ = ()

    members: list[M]

    @abstractmethod
    def _member(self, subscriber: Subscriber[T]) -> M:
        """Return the subscription of a new subscriber."""

    def _place(self, member: M) -> None:
        """Give a new member its place among the others."""

    def _left(self, member: M) -> None:
        """Note that a member is about to be taken out."""

    @abstractmethod
    def _next(self) -> M | None:
        """Return a member that can get a kept item, None if there is none."""

    @abstractmethod
    def _serve_item(self, member: M) -> None:
        """Send `member` the next item kept for it."""

    @abstractmethod
    def _is_through(self, member: M) -> bool:
        """Tell whether no item is kept for `member`; it can then get the end."""

    def _settle(self) -> None:
        """Bring the kept items up to date, after all members have been served."""

    @abstractmethod
    def _ask(self) -> None:
        """Request items from the source."""

    # for `explain` and the search for a deadlock

    @property
    @abstractmethod
    def numbers(self) -> tuple[int, int, int]:
        """The number of subscribers, the most items kept for one of them, and the limit for these."""

    @property
    def blocked(self) -> bool:
        """Tell whether a member wants more, and another one prevents a request."""
        return False

    def holding_up(self) -> Sequence[M] | None:
        """Return the members of which one must ask before the source is asked; None if that is not known."""
        return None
