"""The state of the sending end of a link, for its owner, and for the node and the connection behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rstreams.protocol.credit import SenderLedger
from rstreams.protocol.delivery import Outcome
from rstreams.protocol.end import End
from rstreams.protocol.life import SenderLife, SenderPhase
from rstreams.protocol.local_publisher import LocalPublisher
from rstreams.protocol.options import SendingOptions
from rstreams.protocol.outgoing_deliveries import OutgoingDeliveries
from rstreams.protocol.outgoing_items import OutgoingItems
from rstreams.protocol.states import State
from rstreams.protocol.unsettled import UnsettledBound


class SenderState(End):
    """The base of `LinkSubscriber`: the questions that others ask it. No answer changes anything.

    Attributes:
        outcome_unknown: Items sent and not settled when the link ended.
        left: Whether it has ended by `leave`, before the publisher ended.
        ledger: The items that are owed and held.
    """

    _life: SenderLife
    _options: SendingOptions
    _items: OutgoingItems
    _publisher: LocalPublisher[Any]
    _deliveries: OutgoingDeliveries
    _bound: UnsettledBound
    _ends_at_loss = True  # when all items are settled, and only the peer's answer to the detach is missing
    outcome_unknown: int
    left: bool
    ledger: SenderLedger

    @property
    def intake(self) -> None:
        """None: no deliveries come to this end."""

    @property
    def wants_link(self) -> bool:
        """Whether a lost link should be replaced: it has not ended for good."""
        return self._life.phase is not SenderPhase.FINISHED

    @property
    def unsettled(self) -> int:
        """Items sent whose outcome has not come."""
        return self._bound.items + len(self._items.numbers.again)

    @property
    def waits_for(self) -> str:
        """The reason for waiting although it has credit; empty unless the limit of unsettled items is reached."""
        return f"waits for settlement: {self._bound.items} unsettled" if self._bound.held_back else ""

    @property
    def is_shut(self) -> bool:
        """Whether the peer has closed the window of the link's session, or its window is used up by waiting items."""
        return self.state is State.ATTACHED and self._driver.is_shut(used_up=True)

    def stall(self) -> str:
        """Return why the link asks for no more; empty, unless a subclass knows a reason."""
        return ""

    @property
    def accepted(self) -> int:
        """Items that the receiver has accepted; at most once: items sent."""
        return self._deliveries.accepted

    @property
    def sent(self) -> int:
        """Items sent, each counted once, when the link has ended."""
        return self._deliveries.accepted + self._deliveries.refused + self.outcome_unknown

    @property
    def unsent(self) -> int:
        """Items that the publisher gave, and that were not sent when the link had ended."""
        return self._items.numbers.unsent

    @property
    def refused(self) -> Mapping[int, Outcome]:
        """The outcomes of items that were not accepted, by their numbers in the stream, counted from 0.

        They are kept only by an end that stops at the first of them.
        """
        return self._items.numbers.refused

    @property
    def unencodable(self) -> bool:
        """Whether it ends because an item of the publisher could not be encoded."""
        return self._publisher.unencodable

    @property
    def late(self) -> int:
        """Outcomes that came for items that were not waited for any more."""
        return self._deliveries.late

    @property
    def resent(self) -> int:
        """Items sent again after a loss."""
        return self._deliveries.resent

    @property
    def at_rest(self) -> bool:
        """Whether no items are held here, and none that were sent wait for their outcome."""
        return not self._items.payloads and self._deliveries.at_rest

    @property
    def _through(self) -> bool:
        """Whether the publisher has ended, and all its items are sent and settled."""
        return self._publisher.completed and self.at_rest

    @property
    def _needs_no_link(self) -> bool:
        """Whether at most the peer's answer to the last detach is missing: a lost link is not replaced for that."""
        return self._through and not self._options.settled and self._ends_at_loss

    @property
    def _awaits_outcomes(self) -> bool:
        """Whether the link is detached only when all sent items are settled."""
        return self._options.settle_before_detach and self._life.phase is not SenderPhase.ABORTED
