"""Messages that wait until a subscriber asks for them: dead letters, and messages that a relay passes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from rstreams._core.claims import NO_HOLD, Claims
from rstreams._core.demand import add_demand
from rstreams._core.spell import Spell
from rstreams.abc import Hold, Subscriber


class Outlet(ABC):
    """The subscription of one subscriber at a time, and the messages that wait for its demand, each with its hold.

    A message has arrived when `on_next` has returned and the subscriber has let go of its holds. Then its own hold is
    let go, with the outcome that the subscriber gave it.

    Attributes:
        unasked: While a message waits for the demand of a subscriber.

    Demand: The subscriber's. Messages beyond it wait here; those who put them in bound their number.
    Context: Any task of one trio run; no call blocks. `on_next` is not called inside of `on_next`.
    """

    def __init__(self) -> None:
        """Have no messages, and no subscriber."""
        self._waiting: deque[tuple[bytes, Claims]] = deque()
        self._is_open = False
        self._subscriber: Subscriber[bytes] | None = None
        self._demand = 0
        self._sending = False
        self._current: Claims = NO_HOLD
        self.unasked = Spell()

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return len(self._waiting)

    def put(self, encoded: bytes, hold: Claims) -> None:
        """Send a message, now or when it is asked for; `hold` is let go with its outcome."""
        self._waiting.append((encoded, hold))
        if self._is_open:
            self._send()
        else:
            self._is_open = True
            self._open()

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Send the messages to `subscriber`."""
        self._subscriber = subscriber
        self._demand = 0
        subscriber.on_subscribe(self)

    # as a subscription

    def request(self, n: int) -> None:
        """Send `n` more messages, when there are some."""
        self._demand = add_demand(self._demand, n)
        self._send()

    def cancel(self) -> None:
        """Send no more."""
        self._demand = 0

    def hold(self) -> Hold:
        """Return a hold on the message in `on_next`."""
        return self._current.hold()

    # the hooks of subclasses

    @abstractmethod
    def _open(self) -> None:
        """Have a subscriber subscribe, now or later: there is a message for it."""

    def _idle(self) -> None:  # noqa: B027 - most have nothing to do
        """Hear that no message waits."""

    def _send(self) -> None:
        if self._sending:
            return
        self._sending = True
        try:
            while self._demand and self._waiting and self._subscriber is not None:
                self._demand -= 1
                encoded, hold = self._waiting.popleft()
                self._current = hold
                try:
                    self._hand_over(self._subscriber, encoded, hold)
                except BaseException as error:
                    hold.fail(error)
                    raise
                hold.done()
        finally:
            self._current = NO_HOLD
            self._sending = False
        if bool(self._waiting) is not self.unasked.lasts:
            self.unasked.note(lasts=not self.unasked.lasts)
        if not self._waiting:
            self._idle()

    def _hand_over(self, subscriber: Subscriber[bytes], encoded: bytes, hold: Claims) -> None:  # noqa: ARG002 - for subclasses
        """Send one message to the subscriber."""
        subscriber.on_next(encoded)

    def _close(self) -> Subscriber[bytes] | None:
        """Forget the subscriber, until there is another message; return it."""
        subscriber, self._subscriber = self._subscriber, None
        if self.unasked.lasts:
            self.unasked.note(lasts=False)
        self._is_open = False
        self._demand = 0
        return subscriber
