"""The signals of a receiving end that are not items: the beginning and the end of a subscription, and drains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rstreams.abc import Subscriber, Subscription
from rstreams.protocol.life import ReceiverEvent, ReceiverLife, ReceiverPhase


class Signals:
    """Calls the subscriber of a `LinkSubscription`, one signal after the other (1.3).

    Errors: A subscriber that raises has cancelled its subscription (2.13). The link's owner is told, and the link goes
        on.
    """

    __slots__ = ("_life", "_on_raised", "_subscriber", "_under_way", "_wake", "_work_waits")

    def __init__(
        self,
        subscriber: Subscriber[Any],
        life: ReceiverLife,
        on_raised: Callable[[BaseException], None],
        wake: Callable[[], None],
    ) -> None:
        """Start without signals.

        Args:
            subscriber: Gets the signals.
            life: The life of the end.
            on_raised: Called with an exception that the subscriber raised.
            wake: Makes the end work soon.
        """
        self._subscriber = subscriber
        self._life = life
        self._on_raised = on_raised
        self._wake = wake
        self._under_way = False
        self._work_waits = False

    def begin(self, subscription: Subscription) -> None:
        """Signal `on_subscribe`."""
        self.call(lambda: self._subscriber.on_subscribe(subscription))

    def end(self, error: BaseException | None) -> None:
        """Signal `on_error`, or `on_complete` if there is no error."""
        if error is None:
            self.call(self._subscriber.on_complete)
        else:
            self.call(lambda: self._subscriber.on_error(error))

    def tell(self, call: Callable[[], None]) -> None:
        """Call a function of the subscriber, unless it gets no more signals."""
        if self._life.phase is not ReceiverPhase.SILENT:
            self.call(call)

    def call(self, signal: Callable[[], None]) -> None:
        """Call `signal`, which may raise anything."""
        before, self._under_way = self._under_way, True
        try:
            signal()
        except Exception as error:  # the connection must go on
            self.raised(error)
        finally:
            self._under_way = before
        if self._work_waits and not before:
            self._work_waits = False
            self._wake()

    def raised(self, error: BaseException) -> None:
        """Cancel the subscription of a subscriber that has raised `error`."""
        self._life.on(ReceiverEvent.SILENCE)
        self._on_raised(error)
        self._wake()

    def postpone_work(self) -> bool:
        """Return whether a signal is being sent; if so, the end is woken when it has returned."""
        self._work_waits = self._under_way
        return self._under_way
