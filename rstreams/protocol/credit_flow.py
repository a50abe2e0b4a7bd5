"""The credit of a receiving end: granted by its ledger, drained, and held back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rstreams.protocol.credit import CreditLedger
from rstreams.protocol.driver import Driver
from rstreams.protocol.frames import Flow
from rstreams.protocol.incoming_items import IncomingItems
from rstreams.protocol.incoming_outcomes import IncomingOutcomes


class CreditFlow:
    """The credit of a `LinkSubscription`, which calls `work` while its link is attached.

    Context: As `LinkSubscription`.
    Spec: AMQP 1.0 section 2.6.7.

    Attributes:
        suspended: Whether no credit is granted.
        answers_drain: Whether the sender can give credit back.
    """

    __slots__ = (
        "_asked",
        "_draining",
        "_items",
        "_ledger",
        "_outcomes",
        "_send",
        "_send_dispositions",
        "_signal",
        "_wake",
        "answers_drain",
        "suspended",
    )

    def __init__(
        self,
        ledger: CreditLedger,
        items: IncomingItems[Any],
        outcomes: IncomingOutcomes,
        *,
        answers_drain: bool,
        send: Callable[[Flow], None],
        send_dispositions: Callable[[], None],
        signal: Callable[[Callable[[], None]], None],
        wake: Callable[[], None],
    ) -> None:
        """Start without credit.

        Args:
            ledger: Decides how much may be granted.
            items: The items that have come.
            outcomes: The outcomes of these items.
            answers_drain: See the attribute.
            send: Sends a frame.
            send_dispositions: Sends the outcomes that have gathered.
            signal: Calls a function like a signal, but not after the subscriber's last signal.
            wake: Makes the subscription work soon.
        """
        self.suspended = False
        self.answers_drain = answers_drain
        self._ledger = ledger
        self._items = items
        self._outcomes = outcomes
        self._send = send
        self._send_dispositions = send_dispositions
        self._signal = signal
        self._wake = wake
        self._asked: list[Callable[[], None]] = []  # drains that have not begun
        self._draining: list[Callable[[], None]] | None = None  # the drain in progress; empty for `suspend`

    @property
    def drains(self) -> bool:
        """Whether a drain is in progress."""
        return self._draining is not None

    def drain(self, on_drained: Callable[[], None]) -> None:
        """Drain the credit with the next `work`."""
        self._asked.append(on_drained)

    def forget_link(self) -> None:
        """Start a drain that was in progress again: the link is lost."""
        self._asked, self._draining = [*(self._draining or ()), *self._asked], None

    def withdraw(self, driver: Driver) -> None:
        """Take back the credit that the sender has not used."""
        if driver.credit() > 0:
            self._send(Flow(0))

    def work(self, driver: Driver) -> None:
        """Grant or drain credit, if that has become possible."""
        credit = driver.credit()
        if self._asked or self._draining is not None or (self.suspended and credit > 0 and self.answers_drain):
            self._work_drain(credit)
            return
        granted = self._grant(credit)
        if granted:
            self._send(Flow(credit + granted))

    def _grant(self, credit: int) -> int:
        if self.suspended:
            return 0
        while self._outcomes.loose.make_room(self._ledger, credit):
            self._send_dispositions()
        return self._ledger.grant(credit)

    def _work_drain(self, credit: int) -> None:
        if self._draining is None:
            self._draining, self._asked = self._asked, []
            credit += self._grant(credit)
            if credit > 0:
                self._send(Flow(credit, drain=True))
                return
        if credit <= 0 and not self._items.buffer:
            calls, self._draining = self._draining, None
            for call in calls:
                self._signal(call)
            self._wake()
