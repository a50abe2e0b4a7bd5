"""One run of a source that outlives its subscribers: how far it has got, and what its subscribers ask of the source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Generic, TypeVar

from rstreams._checks.publishers import require_subscription
from rstreams._core.kept_errors import KeptError
from rstreams._core.sight import Scannable
from rstreams._core.subscription import ENDED, checked_error
from rstreams._stages.stage import failure_of, window_of
from rstreams.abc import Hold, Subscription

T = TypeVar("T")


class Phase(Enum):
    """How far a run has got."""

    WAITING = auto()
    """It has not begun. A run without a source, as that of a push source, stays here until its end."""

    RUNNING = auto()
    """It has subscribed to the source."""

    ENDED = auto()
    """The source has ended, or the run with an error: those that are there get what is kept, and the end."""

    STOPPED = auto()
    """It has cancelled the source before its end; those that are there get the end."""


class RunOfSource(Scannable, ABC, Generic[T]):
    """The one subscriber of a source.

    Attributes:
        phase: How far it has got.
        kept_error: The error that it has ended with, if any.
    """

    __slots__ = ("_calling", "_label", "_upstream", "kept_error", "phase")

    def __init__(self, label: str) -> None:
        """Wait; `label` is the operator's name."""
        self._label = label
        self._upstream: Subscription = ENDED
        self._calling = False  # inside a call that subscribes to the source, or requests of it
        self.phase = Phase.WAITING
        self.kept_error: KeptError[BaseException] | None = None

    @property
    def over(self) -> bool:
        """Whether it takes nothing more of the source."""
        return self.phase is Phase.ENDED or self.phase is Phase.STOPPED

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        """Subscribe to the source, or request of it."""
        before, self._calling = self._calling, True
        try:
            function(*arguments)
        finally:
            self._calling = before

    # the source calls these

    def on_subscribe(self, subscription: Subscription) -> None:
        require_subscription(subscription)
        if self._upstream is not ENDED or self.over:
            subscription.cancel()  # 2.5
            return
        self._upstream = subscription
        self.update()

    @abstractmethod
    def on_next(self, item: T) -> None:
        """Receive an item of the source."""

    def on_error(self, error: BaseException) -> None:
        self._ended(checked_error(error))

    def on_complete(self) -> None:
        self._ended(None)

    def _ended(self, error: BaseException | None) -> None:
        self._upstream = ENDED  # 2.3, 2.4
        if not self.over:
            self.phase = Phase.ENDED
            self.kept_error = None if error is None else KeptError(error)
            self.update()

    def stop(self) -> None:
        """Stop the run early: cancel the source, and give kept items back."""
        if self.phase is not Phase.STOPPED:
            self.phase = Phase.STOPPED
            upstream, self._upstream = self._upstream, ENDED
            upstream.cancel()  # first: items that are given back must not come again
            self._let_go()

    # subscribers ask these

    def hold(self) -> Hold:
        """Claim the item that is being passed on."""
        return self._upstream.hold()

    @property
    def window(self) -> int:
        """The most items of the source that can be held at once."""
        return window_of(self._upstream)

    @property
    def failure(self) -> BaseException | None:
        """The error of the source, also if it waits further up."""
        return failure_of(self._upstream) if self.kept_error is None else self.kept_error.error

    def upstreams(self) -> Sequence[Subscription]:
        """Return the subscription of the run."""
        return () if self._upstream is ENDED else (self._upstream,)

    @property
    def label(self) -> str:
        """The operator's name."""
        return self._label

    # whoever knows the subscribers writes these

    @abstractmethod
    def update(self) -> None:
        """Serve the subscribers: something has changed."""

    def _let_go(self) -> None:
        """Give kept items back, because they will not be emitted."""
